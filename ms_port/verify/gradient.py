"""The gradient level: every parameter's and every float input's, of a random projection of all outputs or of a loss."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ms_port.errors import BadInput, one_line
from ms_port.verify.bisect import find_culprit
from ms_port.verify.clock import Clock
from ms_port.verify.forward import largest
from ms_port.verify.judge import HUGE, MULTIPLE, SMALL, ZERO, Array, Comparison, Truth, compare, make_truth
from ms_port.verify.loss import Loss, loss_cotangents
from ms_port.verify.objective import Objective, Projection
from ms_port.verify.process import Outcome, Side, peaks
from ms_port.verify.session import OTHERS, Mode, Session
from ms_port.verify.torch_side import as_array, run, state_of, tensors
from ms_port.verify.verdict import Divergence, Level, Status, Worst
from ms_port.weights.convert import apply_rule

AGAIN = 900.0
"""Seconds that looking again on other batches may take, by what the first batch took."""
MANY = 8
"""Elements of a gradient that are not all zero by luck."""


@dataclass
class Gradients:
    """Of one run of torch: None where no gradient reaches."""

    parameters: dict[str, Tensor | None] = field(default_factory=dict)
    inputs: dict[str, Tensor | None] = field(default_factory=dict)
    projected: list[list[int]] = field(default_factory=list)
    """Shapes of the float outputs."""
    huge: list[bool] = field(default_factory=list)
    """Which of them hold infinite values."""
    outputs: list[Tensor] = field(default_factory=list)
    loss: float = 0.0
    buffers: dict[str, Array] = field(default_factory=dict)

    @cached_property
    def whole(self) -> float:
        """The largest finite gradient of all."""
        everything = [g for g in [*self.parameters.values(), *self.inputs.values()] if g is not None]
        finite = [g if bool(g.isfinite().all()) else g[g.isfinite()] for g in everything]
        return max((float(g.abs().max()) for g in finite if g.numel()), default=0.0)

    def only(self, names: Collection[str]) -> Gradients:
        """Keep those of these names alone, to save memory; ``whole`` stays that of all."""
        largest = self.whole
        self.parameters = {name: g for name, g in self.parameters.items() if name in names}
        self.inputs = {name: g for name, g in self.inputs.items() if name in names}
        self.whole = largest
        return self


@dataclass
class Batch:
    """One batch: its session, and what torch makes of it."""

    session: Session
    cotangents: list[Tensor]
    """Of a person's loss by the float outputs; empty: seeded projections."""
    single: Gradients
    truth: Gradients = field(default_factory=Gradients)


@dataclass
class Seen:
    """What both sides made of some batches."""

    mode: Mode
    batches: list[Batch]
    folder: Path
    outcome: Outcome

    @property
    def report(self) -> Mapping[str, Any]:
        """The port's report; empty if it crashed."""
        found: Mapping[str, Any] = self.outcome.result.get("modes", {}).get(self.mode.name, {})
        return found


def torch_gradients(
    session: Session,
    train: bool,
    double: bool,
    objective: Objective | None = None,
    inputs: bool = True,
    watch: Any = None,
) -> Gradients:
    """Differentiate torch by parameters (and float ``inputs``), in float32 or float64; ``watch`` as for ``run``."""
    found, by_output = Gradients(), objective or Projection()
    leaves: dict[int, Tensor] = {}
    model = session.model

    def call(root: nn.Module, wide: bool) -> Any:
        return session.inputs.call(root, wide, leaves if inputs else None)

    with state_of(model, session.state, double), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        record = run(model, call, [], train=train, double=double, gradient=True, watch=watch)
        outputs = [out for out in record.outputs if out.is_floating_point()]
        found.projected = [list(out.shape) for out in outputs]
        found.outputs, found.buffers = [out.detach() for out in outputs], record.buffers
        found.huge = [bool((~(out.abs() < HUGE)).any()) for out in found.outputs]
        terms = [by_output.term(i, out) for i, out in enumerate(outputs)]
        found.loss = float(sum(float(term.detach()) for term in terms))
        terms = [term for term in terms if term.requires_grad]
        names = [name for name, value in session.inputs.named(model).items() for _ in tensors(value)]
        wanted = {name: p for name, p in model.named_parameters() if p.requires_grad}
        by = [*wanted.values(), *leaves.values()]
        grads = torch.autograd.grad(sum(terms[1:], terms[0]), by, allow_unused=True) if terms else [None] * len(by)
        found.parameters = dict(zip(wanted, grads, strict=False))
        found.inputs = {names[i]: g for i, g in zip(leaves, grads[len(wanted) :], strict=True)}
    return found


def gradient_level(
    session: Session,
    modes: Sequence[Mode],
    job: Path,
    timeout: float,
    loss: Loss | None = None,
    updates: Sequence[Mapping[str, Any]] = (),
) -> tuple[Level, Seen | None]:
    """Compare gradients in train mode (in eval if the forward level could not run train mode).

    Args:
        updates: optimizers whose updates the port is to compute as well (see ``observe_updates``); their ``scale`` is
            set here.

    Returns also what was seen, for the step level; None if MindSpore did not get there.
    """
    if not modes:
        return Level("not run", notes=("the forward pass could not be compared",)), None
    clock, mode = Clock(), modes[-1]
    side = Side(job)  # imports MindSpore while torch works
    try:
        first = _batch(session, mode, loss)
        seen = _observe(session, mode, [first], side, timeout, updates)
    except BadInput:
        raise
    except RuntimeError as error:
        return Level("not run", notes=(f"torch can't differentiate the model here: {one_line(error)}",)), None
    finally:
        side.stop()
    clock.lap("both sides")
    if not seen.report:
        return _crashed(session, seen, job.with_name(f"{job.name}-alone"), timeout), None
    comparisons, unreached, zero = compare_gradients(session, seen, 0)
    kinks: dict[str, Comparison] = {}
    wrong = [c for c in comparisons if not c.equal]
    notes: tuple[str, ...] = ()
    if wrong and all(np.isfinite(c.error) for c in wrong) and not any(c.note for c in wrong):
        expected = OTHERS * clock.laps["both sides"]
        if expected <= AGAIN:
            kinks = _kinks(session, mode, wrong, job.with_name(f"{job.name}-again"), min(timeout, AGAIN), loss)
        else:
            notes = (f"not looked at again on other batches, which would take {expected:.0f} s: it may be a jump",)
        clock.lap("other batches")
    level = _level(session, seen, comparisons, unreached, zero, kinks)
    level = replace(level, notes=(*level.notes, *notes))
    clock.lap("comparing")
    report = seen.report
    seconds = {**clock.rounded(), "mindspore": round(seen.outcome.seconds, 3), "mindspore gradient": report["seconds"]}
    return replace(level, seconds=seconds, peak_bytes=peaks(seen.outcome)), seen


def _crashed(session: Session, seen: Seen, folder: Path, timeout: float) -> Level:
    """The forward pass ran, so what fails is the gradient of some cell."""
    outcome, name = seen.outcome, seen.mode.name
    if outcome.stage != name:
        return Level("crashed", modes={name: "crashed"}, message=outcome.message, where=outcome.where)
    culprit = find_culprit(session, seen.mode, folder, timeout, gradient=True)
    where = culprit.where or outcome.where
    inside = culprit.path or "the root"
    return Level("crashed", modes={name: "crashed"}, message=outcome.message, where=where, crashed_in=inside)


def _batch(session: Session, mode: Mode, loss: Loss | None) -> Batch:
    cotangents = loss_cotangents(session, mode.train, loss) if loss else []
    return Batch(session, cotangents, torch_gradients(session, mode.train, False, Projection(cotangents)))


def _observe(
    session: Session,
    mode: Mode,
    batches: list[Batch],
    side: Side,
    timeout: float,
    updates: Sequence[Mapping[str, Any]] = (),
    only: Collection[str] | None = None,
) -> Seen:
    """Run the port on all batches, and torch in float64 beside it; keep what torch has of ``only`` these names."""
    single = batches[0].single
    described = {
        **session.describe(mode, {}),
        "projected": single.projected,
        "huge": [any(b.single.huge[i] for b in batches) for i in range(len(single.huge))],
        "updates": [{**spec, "scale": scale_of(single)} for spec in updates],
    }
    session.launch(side.job, [described], [(b.session.inputs, b.cotangents) for b in batches], side=side)
    try:
        for batch in batches:
            truth = torch_gradients(batch.session, mode.train, True, Projection(batch.cotangents))
            batch.truth = truth if only is None else truth.only(only)
        outcome = side.finish(timeout)
    finally:
        side.stop()
    return Seen(mode, batches, side.job / mode.name, outcome)


def scale_of(gradients: Gradients) -> float:
    """The power of two that makes the largest gradient about 1: updates are then of one size for every model."""
    whole = gradients.whole
    return float(2.0 ** -np.round(np.log2(whole))) if whole else 1.0


def compare_gradients(session: Session, seen: Seen, number: int) -> tuple[list[Comparison], list[str], list[str]]:
    """How the gradients of one batch compare, with the names that none reaches, and that are zero."""
    truth, whole = seen.batches[number].truth, seen.batches[number].truth.whole
    comparisons: list[Comparison] = []
    unreached, zero = [], []
    trained = set(seen.report["trained"])
    for name, cell_name, rule, want, near in pairs(session, truth, seen.batches[number].single):
        kind = "gradient" if cell_name else "input gradient"
        got = load(seen.folder / f"{kind}.{cell_name or name}.{number}.0.npy")
        if cell_name and cell_name not in trained:
            note = "torch trains it, the port does not"
            comparisons.append(Comparison(name, float("inf"), 0.0, 1.0, False, note))
            continue
        if got is None and not cell_name:
            continue
        if want is None or near is None:
            unreached.append(name)
            size = float(np.abs(got).max(initial=0.0)) if got is not None else 0.0
            note = "no gradient of torch reaches it" if size else ""
            comparisons.append(Comparison(name, size, 0.0, 0.0, size == 0.0, note))
            continue
        double, float32 = (as_array(apply_rule(rule, g)) for g in (want, near))
        if np.abs(double).max(initial=0.0) <= ZERO * whole:
            zero.append(name)
            size = float(np.abs(got).max(initial=0.0)) / (whole or 1.0) if got is not None else float("inf")
            equal = got is not None and got.shape == double.shape and size <= SMALL
            comparisons.append(Comparison(name, size, 0.0, 0.0, equal, "" if equal else "should be zero"))
            continue
        comparisons.append(compare(name, got, make_truth(double, float32)))
    return comparisons, unreached, zero


def gradient_truth(double: Array, single: Array, whole: float) -> Truth:
    """The truth of one gradient; of one that is zero in exact arithmetic, ``SMALL`` of the largest is rounding."""
    truth = make_truth(double, single)
    if np.abs(double).max(initial=0.0) > ZERO * whole:
        return truth
    return replace(truth, error=max(truth.error, SMALL * whole / MULTIPLE))


def pairs(
    session: Session, truth: Gradients, single: Gradients
) -> Iterator[tuple[str, str, str, Tensor | None, Tensor | None]]:
    """(torch name, port's parameter or "", rule, float64 and float32 gradient) of all that is differentiated by."""
    for row in session.port.rows:
        if row.mindspore and row.rule != "tied" and row.torch in truth.parameters:
            yield row.torch, row.mindspore, row.rule, truth.parameters[row.torch], single.parameters[row.torch]
    for name in truth.inputs:
        yield name, "", "same", truth.inputs[name], single.inputs[name]


def _kinks(
    session: Session, mode: Mode, wrong: Sequence[Comparison], job: Path, timeout: float, loss: Loss | None
) -> dict[str, Comparison]:
    """Those of the wrong tensors that are right on all other batches: there a function jumped within rounding."""
    names = {c.name for c in wrong}
    try:
        batches = [_batch(session.varied(number + 1), mode, loss) for number in range(OTHERS)]
        for batch in batches:
            batch.single.only(names)
        seen = _observe(session, mode, batches, Side(job), timeout, only=names)
    except Exception:  # the model takes no other values: then what differs is a fault
        return {}
    if not seen.report:
        return {}
    again = [{c.name: c.equal for c in compare_gradients(session, seen, i)[0]} for i in range(OTHERS)]
    return {c.name: c for c in wrong if all(found.get(c.name, False) for found in again)}


def _level(
    session: Session,
    seen: Seen,
    comparisons: list[Comparison],
    unreached: list[str],
    zero: list[str],
    kinks: Mapping[str, Comparison],
) -> Level:
    mode, truth = seen.mode, seen.batches[0].truth
    wrong = [(c.name, c) for c in comparisons if not c.equal and c.name not in kinks]
    exactly = [name for name in zero if _exactly_zero(truth, name)]
    not_proven = [f"gradient of {name} is exactly zero here" for name in exactly]
    not_proven = not_proven if truth.whole else ["every gradient is zero"]
    not_proven += _beyond_comparison(session, seen)
    status: Status = "not equal" if wrong else "not proven" if not_proven else "equal"
    ordered = sorted(comparisons, key=lambda c: (c.equal or c.name in kinks, -c.error / max(c.limit, 1e-300)))
    cancelled = [name for name in zero if name not in exactly]
    names = {c.name for c in comparisons}
    nested = [name for name in truth.inputs if name not in names]
    notes = [
        f"{what} {listed(names)}"
        for what, names in (
            ("no gradient reaches", unreached),
            ("zero in exact arithmetic:", cancelled),
            ("not compared, because they lie in lists or dicts: the inputs", nested),
        )
        if names
    ]
    return Level(
        status,
        max_error=largest(comparisons, "error"),
        truth_error=largest(comparisons, "truth_error"),
        worst=tuple(
            Worst(c.name, mode.name, c.error, c.truth_error, c.limit, c.equal, note=c.note) for c in ordered[:5]
        ),
        compared=len(comparisons),
        modes={mode.name: status},
        first=_first(session, mode, wrong),
        not_proven=tuple(not_proven),
        kinks=tuple(f"{name}: error {c.error:.1e}, right on {OTHERS} other batches" for name, c in kinks.items()),
        notes=tuple(notes),
    )


def _beyond_comparison(session: Session, seen: Seen) -> Iterator[str]:
    """Gradients of torch that are no numbers, and parameters that only the port trains."""
    truth, trained = seen.batches[0].truth, set(seen.report["trained"])
    for name, gradient in [*truth.parameters.items(), *truth.inputs.items()]:
        if gradient is not None and gradient.numel() and not bool(gradient.isfinite().any()):
            yield f"gradient of {name} has no finite value here"
    known = {row.mindspore for row in session.port.rows}
    for name in seen.report["trained"]:
        if name not in known:
            yield f"{name}: the port trains it, torch has no such parameter"
    frozen = {name for name, p in session.model.named_parameters() if not p.requires_grad}
    for row in session.port.rows:
        if row.mindspore in trained and row.rule != "tied" and row.torch in frozen:
            yield f"{row.torch}: the port trains it, torch does not"


def _exactly_zero(truth: Gradients, name: str) -> bool:
    gradient = truth.parameters.get(name)
    gradient = truth.inputs.get(name) if gradient is None else gradient
    # What cancels leaves some rounding; that all of a few elements come out as zero may be luck.
    return gradient is not None and gradient.numel() >= MANY and not bool(gradient.any())


def listed(names: Sequence[str], most: int = 10) -> str:
    """Some names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _first(session: Session, mode: Mode, wrong: list[tuple[str, Comparison]]) -> Divergence | None:
    """In backward order: the wrong parameter whose module ends last in the forward pass."""
    if not wrong:
        return None
    ended: Mapping[str, int] = {path: i for i, (path, _) in enumerate(mode.truth.order)}
    name, comparison = max(wrong, key=lambda pair: ended.get(pair[0].rpartition(".")[0], -1))
    path = name.rpartition(".")[0]
    pair = next((pair for pair in session.port.cells if pair.path == path), None)
    cell, cls = (pair.cell, pair.cls) if pair else ("", "")
    why = f"the gradient of {name} is the first, from the outputs backwards, that differs"
    return Divergence(mode.name, path, cell, cls, path, 0, comparison.error, comparison.truth_error, why)


def load(file: Path) -> Array | None:
    """An array that the port left, if it did."""
    return np.load(file) if file.exists() else None
