"""What both sides of a verification did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ms_port.verify.process import Outcome
from ms_port.verify.session import Mode


@dataclass(frozen=True)
class Observed:
    """What both sides did."""

    modes: list[Mode]
    outcome: Outcome
    folder: Path
    """Where the port's arrays are, a folder a mode."""
    ignored: list[str]
    notes: list[str]
    unproven: dict[str, str]
    """Mode -> why it can't be compared though torch runs it: draws that nothing replays or answers."""

    @property
    def finished(self) -> Mapping[str, Mapping[str, Any]]:
        """The port's report of each mode that it finished."""
        modes: Mapping[str, Mapping[str, Any]] = self.outcome.result.get("modes", {})
        return modes
