"""Activation cells where MindSpore's own are wrong, missing or have other arguments."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from .functional import elu, leaky_relu, logsigmoid, mish, selu, softplus


class SELU(nn.Cell):
    """torch.nn.SELU (nn.SeLU has a wrong gradient)."""

    def construct(self, x: Tensor) -> Tensor:
        return selu(x)


class ELU(nn.Cell):
    """torch.nn.ELU with any alpha (nn.ELU takes 1 only)."""

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = alpha

    def construct(self, x: Tensor) -> Tensor:
        return elu(x, self.alpha)


class LeakyReLU(nn.Cell):
    """torch.nn.LeakyReLU: at 0 the gradient is the slope (nn.LeakyReLU's is the mean of the slope and 1)."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        super().__init__()
        self.negative_slope = negative_slope

    def construct(self, x: Tensor) -> Tensor:
        return leaky_relu(x, self.negative_slope)


class Softplus(nn.Cell):
    """torch.nn.Softplus; linear above the threshold."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def construct(self, x: Tensor) -> Tensor:
        return softplus(x, self.beta, self.threshold)


class Mish(nn.Cell):
    """torch.nn.Mish (nn.Mish is NaN from 44.4 on)."""

    def construct(self, x: Tensor) -> Tensor:
        return mish(x)


class LogSigmoid(nn.Cell):
    """torch.nn.LogSigmoid (nn.LogSigmoid is infinite below -88, and its gradient 0 at -45)."""

    def construct(self, x: Tensor) -> Tensor:
        return logsigmoid(x)


class RReLU(nn.Cell):
    """torch.nn.RReLU: random slopes in training, their mean otherwise (nn.RReLU always draws)."""

    def __init__(self, lower: float = 0.125, upper: float = 0.3333333333333333) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper

    def construct(self, x: Tensor) -> Tensor:
        if self.training:
            slope = self.lower + (self.upper - self.lower) * ops.rand(x.shape, dtype=x.dtype)
        else:
            slope = (self.lower + self.upper) / 2
        return ops.where(x > 0, x, x * slope)


class ImplicitSoftmax(nn.Cell):
    """A softmax without an axis: the first for 0, 1 and 3 dimensions, else the second."""

    def __init__(self, log: bool = False, negative: bool = False) -> None:
        super().__init__()
        self.log = log
        self.negative = negative

    def construct(self, x: Tensor) -> Tensor:
        axis = 0 if x.ndim in (0, 1, 3) else 1
        if self.negative:
            x = -x
        return ops.log_softmax(x, axis) if self.log else ops.softmax(x, axis)


class Softmax2d(nn.Cell):
    """torch.nn.Softmax2d: over the channels of (C, H, W) or (N, C, H, W)."""

    def construct(self, x: Tensor) -> Tensor:
        return ops.softmax(x, axis=-3)


class Hardtanh(nn.Cell):
    """torch.nn.Hardtanh: no gradient at and beyond the ends."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None:
        super().__init__()
        self.min_val = min_val
        self.max_val = max_val

    def construct(self, x: Tensor) -> Tensor:
        inside = ops.logical_and(x > self.min_val, x < self.max_val)
        ends = ops.stop_gradient(ops.clamp(x, self.min_val, self.max_val))
        return ops.where(inside, x, ends)


class PReLU(nn.Cell):
    """torch.nn.PReLU for any rank: one slope, or one for each channel (the second axis)."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.weight = ms.Parameter(Tensor(np.full((num_parameters,), init, np.float32)))

    def construct(self, x: Tensor) -> Tensor:
        weight = self.weight
        if x.ndim != 2:
            weight = weight.reshape((-1,) + (1,) * (x.ndim - 2) if x.ndim > 0 else ())
        return ops.where(x > 0, x, weight * x)


class AlphaDropout(nn.Cell):
    """torch.nn.AlphaDropout: keeps mean and variance. ``by_channel``: FeatureAlphaDropout."""

    def __init__(self, p: float = 0.5, by_channel: bool = False) -> None:
        super().__init__()
        self.p = p
        self.by_channel = by_channel

    def construct(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        if self.p == 1.0:
            return x * 0.0
        shape = x.shape[:2] + (1,) * (x.ndim - 2) if self.by_channel else x.shape
        alpha = -1.7580993408473766
        scale = ((1.0 - self.p) * (1.0 + self.p * alpha * alpha)) ** -0.5
        keep = (ops.rand(shape, dtype=x.dtype) >= self.p).astype(x.dtype)
        return (x * keep + alpha * (1.0 - keep)) * scale - scale * alpha * self.p


class DropAll(nn.Cell):
    """A dropout of probability 1: zeros in training."""

    p = 1.0

    def construct(self, x: Tensor) -> Tensor:
        return x * 0.0 if self.training else x
