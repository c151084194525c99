"""What the model needs and MindSpore has no single call for. Copied by ms-port 0.1.0."""

from __future__ import annotations

from mindspore import Tensor, nn, ops


def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """F.leaky_relu: at 0 the gradient is the slope (ops.leaky_relu's is the mean of the slope and 1)."""
    return ops.where(x > 0, x, negative_slope * x)


class LeakyReLU(nn.Cell):
    """torch.nn.LeakyReLU: at 0 the gradient is the slope (nn.LeakyReLU's is the mean of the slope and 1)."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        super().__init__()
        self.negative_slope = negative_slope

    def construct(self, x: Tensor) -> Tensor:
        return leaky_relu(x, self.negative_slope)
