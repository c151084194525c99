"""The gradient level: every parameter's and every float input's, of a random projection of all outputs or of a loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ms_port.verify.bisect import find_culprit
from ms_port.verify.clock import Clock
from ms_port.verify.cpu_kernels import CpuKernels
from ms_port.verify.forward import largest
from ms_port.verify.gradients import (
    Batch,
    Gradients,
    Seen,
    compare_gradients,
    make_batch,
    observe_port,
    torch_gradients,
)
from ms_port.verify.judge import Comparison
from ms_port.verify.jumps import jumps
from ms_port.verify.loss import Loss
from ms_port.verify.objective import Projection
from ms_port.verify.process import Side, peaks
from ms_port.verify.session import OTHERS, Mode, Session
from ms_port.verify.torch_side import NotDifferentiable
from ms_port.verify.verdict import Divergence, Level, Status, Worst

AGAIN = 900.0
"""Seconds that looking again on other batches may take, by what the first batch took."""
MANY = 8
"""Elements of a gradient that are not all zero by luck."""


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
        first = make_batch(session, mode, loss)
        seen = observe_port(session, mode, [first], side, timeout, updates)
    except NotDifferentiable as error:
        return Level("not proven", not_proven=(str(error),)), None
    finally:
        side.stop()
    clock.lap("both sides")
    if not seen.report:
        return _crashed(session, seen, job.with_name(f"{job.name}-alone"), timeout), None
    comparisons, unreached, zero = compare_gradients(session, seen, 0)
    kinks: dict[str, Comparison] = {}
    wrong = [c for c in comparisons if not c.equal]
    notes: tuple[str, ...] = ()
    if wrong and (found := _with_kernels(session, seen)):
        closer, comparisons, why = found
        notes = (f"{why}: error up to {max(c.error for c in wrong):.1e}",)
        seen, wrong = replace(seen, wrong=wrong, closer=closer), []
        clock.lap("kernels")
    if wrong and all(np.isfinite(c.error) for c in wrong) and not any(c.note for c in wrong):
        expected = OTHERS * clock.laps["both sides"]
        if expected <= AGAIN:
            again = job.with_name(f"{job.name}-again")
            kinks = jumps(session, mode, wrong, again, min(timeout, AGAIN), loss)
        else:
            notes = (f"not looked at again on other batches, which would take {expected:.0f} s: it may be a jump",)
        clock.lap("other batches")
    level = _level(session, seen.closer or seen, comparisons, unreached, zero, kinks)
    level = replace(level, notes=(*level.notes, *notes))
    clock.lap("comparing")
    report = seen.report
    seconds = {**clock.rounded(), "mindspore": round(seen.outcome.seconds, 3), "mindspore gradient": report["seconds"]}
    return replace(level, seconds=seconds, peak_bytes=peaks(seen.outcome)), seen


def _with_kernels(session: Session, seen: Seen) -> tuple[Seen, list[Comparison], str] | None:
    """What a torch with the kernels of MindSpore's CPU backend makes of the batch, if that is what the port gave."""
    kernels = CpuKernels()
    other, batch, train = replace(session, arithmetic=kernels), seen.batches[0], seen.mode.train
    single = torch_gradients(other, train, False, Projection(batch.cotangents))
    if not kernels.used:  # nothing of the model is computed otherwise
        return None
    double = torch_gradients(other, train, True, Projection(batch.cotangents))
    closer = replace(seen, batches=[Batch(other, batch.cotangents, single, double)])
    comparisons = compare_gradients(other, closer, 0)[0]
    return (closer, comparisons, kernels.told) if all(c.equal for c in comparisons) else None


def _crashed(session: Session, seen: Seen, folder: Path, timeout: float) -> Level:
    """The forward pass ran, so what fails is the gradient of some cell."""
    outcome, name = seen.outcome, seen.mode.name
    if outcome.stage != name:
        return Level("crashed", modes={name: "crashed"}, message=outcome.message, where=outcome.where)
    culprit = find_culprit(session, seen.mode, folder, timeout, gradient=True)
    where = culprit.where or outcome.where
    inside = culprit.path or "the root"
    return Level("crashed", modes={name: "crashed"}, message=outcome.message, where=where, crashed_in=inside)


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
        kinks=tuple(
            f"{name}: error {c.error:.1e} (limit {c.limit:.1e}), right on {OTHERS} other batches"
            for name, c in kinks.items()
        ),
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
