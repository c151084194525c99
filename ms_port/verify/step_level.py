"""The step level: every parameter after updates by SGD with momentum and by AdamW, and what normalisations remember."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ms_port.verify.clock import Clock
from ms_port.verify.forward import largest
from ms_port.verify.gradient import listed
from ms_port.verify.gradients import Seen, gradient_truth, load, scale_of
from ms_port.verify.judge import SHRINK, Comparison, Update, compare, compare_update, make_truth
from ms_port.verify.session import Session
from ms_port.verify.torch_side import as_array
from ms_port.verify.torch_updates import ADAMW, SGD, Follower
from ms_port.verify.update_causes import TORCH, optimizer_place, update_cause
from ms_port.verify.verdict import Divergence, Level, Status, Worst
from ms_port.weights.convert import apply_rule

UPDATES: tuple[Mapping[str, Any], ...] = (SGD, ADAMW)
BOTH = 2
"""Updates from the same values: the second shows what an optimizer remembers."""


@dataclass(frozen=True)
class Updated:
    """One parameter after one update."""

    kind: str
    name: str
    """Torch's."""
    cell_name: str
    """The port's."""
    number: int
    truth: Update
    spec: Mapping[str, Any]
    start: Tensor
    gradients: tuple[Tensor, Tensor]
    """In float64 and float32, of the first update."""
    allowed: float
    """How far the port's gradient may be off."""


def updates(session: Session, seen: Seen) -> Iterator[Updated]:
    """The truth of all updates, one parameter after the other, in the order of port.json."""
    truth, single = seen.batches[0].truth, seen.batches[0].single
    scale = scale_of(single)
    trained = set(seen.report["trained"])
    for row in session.port.rows:
        double, near = truth.parameters.get(row.torch), single.parameters.get(row.torch)
        if not row.mindspore or row.rule == "tied" or row.mindspore not in trained or double is None or near is None:
            continue
        start = session.weights[row.mindspore]
        double, near = apply_rule(row.rule, double), apply_rule(row.rule, near)
        allowed = gradient_truth(as_array(double), as_array(near), truth.whole).allowed * scale
        both = double * scale, near * scale
        for spec in UPDATES:
            follower, kind = Follower(start, spec), f"{spec['optimizer']} update"
            for number in range(BOTH):
                less = SHRINK**number
                made = follower.step(start, both[0] * less, both[1] * less, allowed * less)
                yield Updated(kind, row.torch, row.mindspore, number, made, spec, start, both, allowed)


def step_level(session: Session, seen: Seen | None, kinked: Collection[str] = ()) -> Level:
    """Compare what the gradient level's run left of updates and statistics.

    Args:
        kinked: parameters whose gradient jumps within rounding on this batch: their update says nothing.
    """
    if seen is None:
        return Level("not run", notes=("the gradients could not be compared",))
    clock, mode = Clock(), seen.mode
    comparisons: list[tuple[str, Comparison]] = []
    still: list[str] = []
    undefined: list[str] = []
    faults = Faults()
    for made in updates(session, seen):
        if made.name in kinked:
            continue
        got = load(seen.folder / f"{made.kind}.{made.cell_name}.{made.number}.0.npy")
        name = f"{made.name} after {made.kind} {made.number + 1}"
        comparisons.append((made.name, compare_update(name, got, made.truth)))
        faults.add(made, comparisons[-1][1])
        if not made.truth.moved:
            still.append(name)
        elif not made.truth.defined.any():
            undefined.append(made.name)
    comparisons += [(c.name.partition(" ")[0], c) for c in statistics(session, seen)]
    wrong = [pair for pair in comparisons if not pair[1].equal]
    not_proven = [f"{name}: it did not move" for name in still]
    if not comparisons:
        not_proven.append("there is no parameter to update")
    status: Status = "not equal" if wrong else "not proven" if not_proven else "equal"
    ordered = sorted(comparisons, key=lambda pair: (pair[1].equal, -pair[1].error / max(pair[1].limit, 1e-300)))
    names = dict.fromkeys(undefined)
    rounding = f"the gradient is nothing but rounding, so AdamW's update is any: {listed(list(names))}"
    clock.lap("comparing")
    return Level(
        status,
        max_error=largest([c for _, c in comparisons], "error"),
        truth_error=largest([c for _, c in comparisons], "truth_error"),
        worst=tuple(
            Worst(c.name, mode.name, c.error, c.truth_error, c.limit, c.equal, note=c.note) for _, c in ordered[:5]
        ),
        compared=len(comparisons),
        modes={mode.name: status},
        first=_first(session, seen, wrong, faults),
        not_proven=tuple(not_proven),
        kinks=tuple(kinked),
        notes=(rounding,) if names else (),
        seconds={**clock.rounded(), "mindspore updates": seen.report.get("update_seconds", 0.0)},
    )


def statistics(session: Session, seen: Seen) -> list[Comparison]:
    """Float buffers after the forward pass of the gradient's run, in train mode."""
    found = []
    truth, single = seen.batches[0].truth.buffers, seen.batches[0].single.buffers
    for row in session.port.rows:
        got = load(seen.folder / f"statistic.{row.mindspore}.0.0.npy")
        if got is not None and row.torch in truth and row.rule == "same":
            wanted = make_truth(truth[row.torch], single[row.torch])
            found.append(compare(f"{row.torch} after a step", got, wanted))
    return found


@dataclass
class Faults:
    """Which updates differ."""

    defined: dict[str, set[str]] = field(default_factory=dict)
    """By kind of update: parameters whose update says something."""
    wrong: dict[str, dict[str, Updated]] = field(default_factory=dict)
    """By kind: the first update of each parameter that differs."""

    def add(self, made: Updated, comparison: Comparison) -> None:
        """Count one update."""
        if made.truth.defined.any():
            self.defined.setdefault(made.kind, set()).add(made.name)
        if not comparison.equal:
            self.wrong.setdefault(made.kind, {}).setdefault(made.name, made)

    def everywhere(self, kind: str) -> bool:
        """Whether the optimizer itself differs: no parameter of several is right."""
        return len(self.wrong[kind]) > 1 and self.wrong[kind].keys() >= self.defined[kind]


def _first(session: Session, seen: Seen, wrong: list[tuple[str, Comparison]], faults: Faults) -> Divergence | None:
    """The optimizer where it is wrong everywhere, else the first wrong parameter in the order of the model."""
    if not wrong:
        return None
    name, comparison = wrong[0]
    path = name.rpartition(".")[0]
    errors = comparison.error, comparison.truth_error
    kind = next((kind for kind, found in faults.wrong.items() if name in found), "")
    if not kind:
        pair = next((pair for pair in session.port.cells if pair.path == path), None)
        cell, cls = (pair.cell, pair.cls) if pair else ("", "")
        why = f"{comparison.name} differs, the first of {len(wrong)}; its gradient is judged by the level gradient"
        return Divergence(seen.mode.name, path, cell, cls, path, 0, *errors, why)
    made, alike = faults.wrong[kind][name], len(faults.wrong[kind])
    files = [seen.folder / f"{kind}.{made.cell_name}.{number}.0.npy" for number in range(BOTH)]
    cause = update_cause(made.spec, made.start, made.gradients, made.allowed, [load(f) for f in files])
    number = f"{kind} {made.number + 1}"
    path = "" if faults.everywhere(kind) else path
    why = f"{number} differs for every parameter, from {name} on: it is the optimizer"
    if path:
        why = f"{number} of {name} differs, the first of {alike} among {len(faults.defined[kind] | {name})}"
    op, place = TORCH[made.spec["optimizer"]], optimizer_place(session.port.out)
    pair = next((pair for pair in session.port.cells if pair.path == path), None)
    cell, cls = (pair.cell, pair.cls) if pair and path else ("", op.rpartition(".")[2])
    return Divergence(seen.mode.name, path, cell, cls, path, 0, *errors, why, op=op, generated=place, cause=cause)
