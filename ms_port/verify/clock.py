"""Seconds of each stage of a verification."""

from __future__ import annotations

import time


class Clock:
    """``lap`` ends a stage and names it; ``laps`` holds seconds by name."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """End the stage that began with the last lap."""
        now = time.perf_counter()
        self.laps[name] = now - self._last
        self._last = now

    def rounded(self) -> dict[str, float]:
        """For reports, to the millisecond."""
        return {name: round(seconds, 3) for name, seconds in self.laps.items()}
