"""What a person should look at: one flag is one place in the source that the port could not take over as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

FIXED_SIZE = "the size here comes from values that are the same in every call"
"""Message of an MSP201 that is information."""

Severity: TypeAlias = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file. ``file`` is as the person knows it: absolute or relative to where the command ran."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Flag:
    """One entry of ``report.json``'s ``flags``.

    ``severity``: ``error`` means that the port can't run there until a person writes the stub; ``warning`` that it runs
    and may differ; ``info`` that it is equal and worth knowing. Errors and warnings keep the port's status "flagged".
    """

    rule: str
    """``MSP101``; what it means stands in ``ms_port/report/rules.yaml``."""
    severity: Severity
    message: str
    op: str | None = None
    """Canonical name of the torch API, where there is one."""
    module: str | None = None
    """Dotted path of the module in which it was called (``""`` is the root)."""
    source: Place | None = None
    generated: Place | None = None
    """File relative to OUT."""
    advice: str = ""

    @property
    def open(self) -> bool:
        """Whether a person has something to decide."""
        return self.severity != "info"
