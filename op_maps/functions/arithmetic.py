"""Integer arithmetic that MindSpore's own ops get wrong."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor, ops


def int_div_trunc(x: Tensor, y: Tensor | int) -> Tensor:
    """torch.div(x, y, rounding_mode="trunc") of integers: the quotient rounded toward zero, in their dtype."""
    quotient = ops.floor_divide(x, y)
    # Floor and truncation differ by one where the quotient is negative and not exact.
    return quotient + ((quotient < 0) & (quotient * y != x)).astype(quotient.dtype)


def linspace_between(start: Tensor | float, end: Tensor | float, steps: int) -> Tensor:
    """torch.linspace where an end is a tensor: ops.linspace wants both of one type."""
    whole = ops.zeros((steps,), dtype=ms.float32)
    if steps == 1:
        return whole + start
    share = ops.arange(steps).astype(ms.float32) / (steps - 1)
    return whole + start + (end - start) * share
