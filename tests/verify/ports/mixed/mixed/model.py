"""Images and a number for each."""

from typing import Tuple

import mindspore as ms
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import initializer

__all__ = ["Mixed", "build_model", "load_weights"]


class Norm(nn.Cell):
    """A frozen normalisation with statistics of its own."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = Parameter(initializer("ones", (channels,)))
        self.bias = Parameter(initializer("zeros", (channels,)))
        self.running_mean = Parameter(initializer("zeros", (channels,)), requires_grad=False)
        self.running_var = Parameter(initializer("ones", (channels,)), requires_grad=False)

    def construct(self, x: Tensor) -> Tensor:
        return ops.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=1e-3)


class Edge(nn.Cell):
    """Repeat the border, then smooth."""

    def construct(self, x: Tensor) -> Tensor:
        x = ops.pad(x, (2, 1, 1, 2), mode="replicate")
        return ops.avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False)


class Grow(nn.Cell):
    """Resize to a fixed size."""

    def construct(self, x: Tensor) -> Tensor:
        return ops.interpolate(x, size=(13, 13), mode="bilinear", align_corners=False)


class Gates(nn.Cell):
    """One step of an LSTM from a zero state."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Dense(width, 4 * width)

    def construct(self, x: Tensor) -> Tensor:
        i, f, g, o = self.inner(x).chunk(4, axis=-1)
        c = ops.sigmoid(f) * x + ops.sigmoid(i) * ops.tanh(g)
        return ops.sigmoid(o) * ops.tanh(c)


class Mix(nn.Cell):
    """A linear map onto the same width, plus what carries no gradient."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = Parameter(initializer("normal", (width, width)))
        self.bias = Parameter(initializer("zeros", (width,)))

    def construct(self, x: Tensor) -> Tensor:
        y = ops.matmul(x, self.weight.swapaxes(0, 1)) + self.bias
        steps = ops.stop_gradient((y * 4.0).astype(ms.int32).astype(y.dtype))
        return y * ops.stop_gradient(y) + steps * 8.0


class Mixed(nn.Cell):
    """Images and a number for each."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, pad_mode="pad", padding=1, has_bias=True)
        self.norm = Norm(width)
        self.edge = Edge()
        self.grow = Grow()
        self.gates = Gates(width)
        self.mix = Mix(width)
        self.head = nn.Dense(width, 5)

    def construct(self, x: Tensor, ids: Tensor) -> Tuple[Tensor, Tensor]:
        x = self.grow(self.edge(self.norm(self.conv(x))))
        x = self.gates(x.mean(axis=(2, 3)))
        x = x + (ids / 3)[:, None]
        x = self.mix(x)
        return self.head(x), ops.cat((x, ops.flip(x, (-1,))), axis=-1).std(axis=-1, ddof=1)


def build_model() -> Mixed:
    """The model as it was converted."""
    return Mixed()


def load_weights(cell: nn.Cell, path: str) -> None:
    """Load a .safetensors file; it must hold every parameter of the cell and nothing else."""
    weights = ms.load_checkpoint(path, format="safetensors")
    missing, unexpected = ms.load_param_into_net(cell, weights, strict_load=True)
    if missing or unexpected:
        raise ValueError(f"{path} does not fit the cell: missing {missing}, unexpected {unexpected}")
