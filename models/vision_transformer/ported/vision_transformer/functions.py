"""What the model needs and MindSpore has no single call for. Copied by ms-port 0.1.0."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor, nn, ops


class Rand(nn.Cell):
    """torch.rand: numbers in [0, 1). A cell, so that verification can replay the draws."""

    def construct(self, shape: tuple[int, ...], dtype: ms.Type = ms.float32) -> Tensor:
        return ops.rand(shape, dtype=dtype)
