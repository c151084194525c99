"""What differs in the gradients of one batch is looked at again on others: a jump within rounding, or a fault.

A gradient jumps where a value lies within rounding of a kink (ReLU at 0, a maximum). One element of a million that
falls on the other side shows in every gradient behind it, and torch's one float32 run on a batch need not have met it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ms_port.verify.gradients import (
    Batch,
    Gradients,
    compare_gradients,
    make_batch,
    observe_port,
    pairs,
    torch_gradients,
)
from ms_port.verify.judge import Comparison, make_truth
from ms_port.verify.loss import Loss
from ms_port.verify.objective import Projection
from ms_port.verify.process import Side
from ms_port.verify.session import OTHERS, Mode, Session
from ms_port.verify.torch_side import as_array
from ms_port.weights.convert import apply_rule

ROUNDINGS = 2
"""Further float32 runs of torch on each batch, with parameters and inputs moved by up to an ulp."""


def jumps(
    session: Session,
    mode: Mode,
    wrong: Sequence[Comparison],
    first: Batch,
    job: Path,
    timeout: float,
    loss: Loss | None,
) -> dict[str, Comparison]:
    """Those of the wrong tensors that are right on all other batches; none where there are no other batches.

    There torch's own float32 error is the largest that it has in any of its runs, relative to the tensor's size.
    """
    names = {c.name for c in wrong}
    try:
        batches = [make_batch(session.varied(number + 1), mode, loss) for number in range(OTHERS)]
        for batch in batches:
            batch.single.only(names)
        seen = observe_port(session, mode, batches, Side(job), timeout, only=names)
    except Exception:  # the model takes no other values: then what differs is a fault
        return {}
    if not seen.report:
        return {}
    own = _own_errors([first, *batches], mode, names)
    again = [{c.name: c.equal for c in compare_gradients(session, seen, i, own)[0]} for i in range(OTHERS)]
    return {c.name: c for c in wrong if all(found.get(c.name, False) for found in again)}


def _own_errors(batches: Sequence[Batch], mode: Mode, names: Collection[str]) -> Mapping[str, float]:
    """The largest relative error of torch's float32 gradients, by name, over all batches and roundings."""
    largest = dict.fromkeys(names, 0.0)
    for batch in batches:
        runs = [batch.single]
        for number in range(ROUNDINGS):
            moved = batch.session.rounded(number)
            runs.append(torch_gradients(moved, mode.train, False, Projection(batch.cotangents)).only(names))
        for near in runs:
            for name, error in _errors(batch, near, names):
                largest[name] = max(largest[name], error)
    return largest


def _errors(batch: Batch, near: Gradients, names: Collection[str]) -> list[tuple[str, float]]:
    found = []
    for name, _, rule, want, float32 in pairs(batch.session, batch.truth, near):
        if name in names and want is not None and float32 is not None:
            truth = make_truth(as_array(apply_rule(rule, want)), as_array(apply_rule(rule, float32)))
            found.append((name, truth.error / truth.scale if truth.scale else 0.0))
    return found
