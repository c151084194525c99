"""What differs in the gradients of one batch is looked at again on others: a jump within rounding, or a fault.

A gradient jumps where a value lies within rounding of a kink (ReLU at 0, a maximum). One element of a million that
falls on the other side shows in every gradient behind it, and torch's one float32 run on a batch need not have met it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ms_port.verify.gradients import compare_gradients, make_batch, observe_port
from ms_port.verify.judge import Comparison
from ms_port.verify.loss import Loss
from ms_port.verify.process import Side
from ms_port.verify.session import OTHERS, Mode, Session


def jumps(
    session: Session, mode: Mode, wrong: Sequence[Comparison], job: Path, timeout: float, loss: Loss | None
) -> dict[str, Comparison]:
    """Those of the wrong tensors that are right on all other batches; none where there are no other batches.

    Right is by the rule of ``judge``, with torch's float32 error on that batch: the error of another batch, where
    torch itself may have met a kink, would let a fault pass.
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
    again = [{c.name: c.equal for c in compare_gradients(session, seen, i)[0]} for i in range(OTHERS)]
    return {c.name: c for c in wrong if all(found.get(c.name, False) for found in again)}
