"""The outcome of a verification, as report.json stores it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from ms_port.ir.flags import Place

Status: TypeAlias = Literal["equal", "not equal", "not proven", "crashed", "not run"]
SEVERITY: tuple[Status, ...] = ("equal", "not run", "not proven", "not equal", "crashed")
LEVELS = ("forward", "gradient", "step", "train")


@dataclass(frozen=True)
class Worst:
    """One tensor of a level. Errors are relative to the largest value of the tensor's truth (absolute if that is 0)."""

    tensor: str
    """``output 0``, ``layer1.0.conv1 (call 2)``, a parameter's name."""
    mode: str
    error: float
    truth_error: float
    allowed: float
    equal: bool
    cell: str = ""
    note: str = ""


@dataclass(frozen=True)
class Divergence:
    """The first place where the port leaves the truth: in forward order, for gradients in backward order."""

    mode: str
    path: str
    """Dotted path of the torch module whose own code is at fault, as far as can be told."""
    cell: str
    cls: str
    seen_at: str
    """The first module whose output is wrong: the same, or a child that was given wrong inputs."""
    call: int
    error: float
    truth_error: float
    why: str
    last_right: str = ""
    """Of a gradient: the last cell, in backward order, where it was right."""
    op: str = ""
    """The torch call that the port has otherwise: ``torch.nn.functional.gelu``."""
    source: Place | None = None
    """Where the person's code makes this call, or makes the layer that does."""
    generated: Place | None = None
    """The same in the port; the file is relative to OUT."""
    cause: str = ""
    """What the port most likely does instead: with this change torch gives what the port gives."""
    repro: str = ""
    """A script that shows the one op alone, relative to OUT."""


@dataclass(frozen=True)
class Level:
    """The outcome of one level."""

    status: Status
    dtype: str = "float32"
    max_error: float = 0.0
    truth_error: float = 0.0
    worst: tuple[Worst, ...] = ()
    compared: int = 0
    modes: Mapping[str, Status] = field(default_factory=dict)
    first: Divergence | None = None
    not_proven: tuple[str, ...] = ()
    """What the numbers can't show: zero outputs and gradients, inputs without influence, parameters out of reach."""
    kinks: tuple[str, ...] = ()
    """Tensors that differ on this batch and on no other: a point where the function jumps lies within rounding."""
    notes: tuple[str, ...] = ()
    message: str = ""
    """Of a crash: the runtime's own words."""
    where: str = ""
    """``file:line`` of the generated source, where the runtime named it."""
    crashed_in: str = ""
    """Of a crash: dotted path of the smallest module whose cell does not run."""
    curves: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Loss by step of free-running training, by side; shown and not judged."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    peak_bytes: Mapping[str, int] = field(default_factory=dict)
    """Peak resident memory by process: ``torch`` (this one) and ``mindspore``."""


@dataclass(frozen=True)
class Verdict:
    """The outcome by level; ``to_json`` is the ``verification`` of report.json."""

    forward: Level = Level("not run")
    gradient: Level = Level("not run")
    step: Level = Level("not run")
    train: Level = Level("not run")

    @property
    def status(self) -> Status:
        """The gravest status of the levels that ran."""
        return worst_status([s for name in LEVELS if (s := getattr(self, name).status) != "not run"] or ["not run"])

    def to_json(self) -> dict[str, Any]:
        """Plain data; infinite and undefined errors become None, which JSON can hold."""
        data: dict[str, Any] = _plain(asdict(self))
        return data


def worst_status(statuses: list[Status]) -> Status:
    """The gravest of several."""
    return max(statuses, key=SEVERITY.index)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value
