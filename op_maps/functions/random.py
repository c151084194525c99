"""Random draws as cells: verification replays them by putting other cells in their place."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor, nn, ops


class Rand(nn.Cell):
    """torch.rand: numbers in [0, 1). A cell, so that verification can replay the draws."""

    def construct(self, shape: tuple[int, ...], dtype: ms.Type = ms.float32) -> Tensor:
        return ops.rand(shape, dtype=dtype)


class Randn(nn.Cell):
    """torch.randn: numbers from N(0, 1). A cell, so that verification can replay the draws."""

    def construct(self, shape: tuple[int, ...], dtype: ms.Type = ms.float32) -> Tensor:
        return ops.randn(shape, dtype=dtype)
