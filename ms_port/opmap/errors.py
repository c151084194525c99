"""What can go wrong with an op map."""

from __future__ import annotations

from pathlib import Path


class OpMapError(Exception):
    """A bad file or row of an op map: file, row, reason, line (0 where unknown)."""

    def __init__(self, file: Path | str, row: str, reason: str, line: int = 0) -> None:
        self.file, self.row, self.reason, self.line = Path(file), row, reason, line
        place = f"{file}:{line}" if line else str(file)
        super().__init__(f"{place}: {row}: {reason}" if row else f"{place}: {reason}")


class NoLowering(Exception):
    """A call has no MindSpore form by the op map: api, reason."""

    def __init__(self, api: str, reason: str) -> None:
        self.api, self.reason = api, reason
        super().__init__(f"{api}: {reason}")


class UnknownValue(Exception):
    """A condition or template needs a value that is not known, or that differs between the runs of one call."""


class BindError(Exception):
    """The arguments of a call don't fit a signature."""
