"""What differs in the gradients of one batch is looked at again on others: a jump within rounding, or a fault.

A gradient jumps where a value lies within rounding of a kink (ReLU at 0, a maximum). One element of a million that
falls on the other side shows in every gradient behind it, and torch's one float32 run on a batch need not have met it.
On the other batches a kink can be met too: there torch is asked how far its own gradient jumps when the weights change
by rounding alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from ms_port.verify.gradients import Batch, Gradients, compare_gradients, make_batch, observe_port, torch_gradients
from ms_port.verify.judge import Comparison
from ms_port.verify.loss import Loss
from ms_port.verify.objective import Projection
from ms_port.verify.process import Side
from ms_port.verify.session import OTHERS, Mode, Session

SHAKES = 6
"""Runs of torch with other rounding on a batch where something differs."""
SHAKEN_BY = (2.0**-23, 2.0**-22, 2.0**-21)
"""Relative sizes of that rounding, in turns: a float32 run is an exact one whose weights are off by some units in the
last place. A sum of n products is off by about the root of n of them, and each library adds in another order."""


def jumps(
    session: Session, mode: Mode, wrong: Sequence[Comparison], job: Path, timeout: float, loss: Loss | None
) -> dict[str, Comparison]:
    """Those of the wrong tensors that are right on all other batches; none where there are no other batches.

    Right is by the rule of ``judge``, with torch's float32 error on that batch: the error of another batch, where
    torch itself may have met a kink, would let a fault pass. Where a batch does not agree, torch's error there is the
    largest of several runs whose weights differ by rounding.
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
    for number, batch in enumerate(batches):
        compared = compare_gradients(session, seen, number)[0]
        if any(not c.equal and c.name in names for c in compared):
            shaken = [_shaken(batch, mode, shake).only(names) for shake in range(SHAKES)]
            compared = compare_gradients(session, seen, number, shaken)[0]
        right = {c.name for c in compared if c.equal}
        names &= right
    return {c.name: c for c in wrong if c.name in names}


def _shaken(batch: Batch, mode: Mode, seed: int) -> Gradients:
    """Torch's float32 gradients with weights that differ by rounding."""
    generator, size = torch.Generator().manual_seed(seed), SHAKEN_BY[seed % len(SHAKEN_BY)]

    def rounded(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        return tensor * (1 + size * torch.randn(tensor.shape, generator=generator)).to(tensor.dtype)

    session = replace(batch.session, state={name: rounded(tensor) for name, tensor in batch.session.state.items()})
    return torch_gradients(session, mode.train, False, Projection(batch.cotangents))
