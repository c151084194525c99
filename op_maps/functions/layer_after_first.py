"""What a SequentialCell does after its first cell."""

from __future__ import annotations

from mindspore import Tensor, nn


def after_first(cells: nn.SequentialCell, x: Tensor) -> Tensor:
    """``cells[1:](x)``: a slice would be a new cell, under which the parameters are named anew."""
    for index in range(1, len(cells)):
        x = cells[index](x)
    return x
