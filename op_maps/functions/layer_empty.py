"""Layers without elements, as a division gives them for narrow models (``nn.Linear(c, c // 16)``)."""

import numpy as np
from mindspore import Parameter, Tensor, nn, ops


class EmptyDense(nn.Dense):
    """torch.nn.Linear where a size may be 0, which nn.Dense refuses: (..., in_channels) -> (..., out_channels)."""

    def __init__(self, in_channels: int, out_channels: int, has_bias: bool = True) -> None:
        super(nn.Dense, self).__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.has_bias, self.activation_flag = has_bias, False
        if in_channels and out_channels:
            dense = nn.Dense(in_channels, out_channels, has_bias=has_bias)
            self.weight, self.bias = dense.weight, dense.bias
        else:
            self.weight = Parameter(Tensor(np.zeros((out_channels, in_channels), np.float32)))
            self.bias = Parameter(Tensor(np.zeros(out_channels, np.float32))) if has_bias else None

    def construct(self, x: Tensor) -> Tensor:
        if self.in_channels and self.out_channels:
            return ops.dense(x, self.weight, self.bias)
        shape = (*x.shape[:-1], self.out_channels)
        if self.bias is None or self.out_channels == 0:
            return ops.zeros(shape, x.dtype)
        return self.bias.broadcast_to(shape)
