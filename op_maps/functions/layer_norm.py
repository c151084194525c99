"""Normalisations with what MindSpore's cells lack: no scale, no statistics, cumulative statistics, instances."""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import initializer


def normalise(x: Tensor, axes: tuple[int, ...], eps: float) -> Tensor:
    """Zero mean and unit (biased) variance over some axes."""
    centred = x - x.mean(axes, keep_dims=True)
    return centred * ops.rsqrt((centred * centred).mean(axes, keep_dims=True) + eps)


def per_channel(values: Tensor, ndim: int) -> Tensor:
    """(channels,) as (1, channels, 1, ...)."""
    return values.reshape((1, -1) + (1,) * (ndim - 2))


class FlexibleBatchNorm(nn.Cell):
    """Batch normalisation of (N, C, ...) without scale, without statistics, or with cumulative ones (momentum None)."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.9,
        affine: bool = True,
        track_running_stats: bool = True,
        has_bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = None if momentum is None else 1.0 - momentum
        self.gamma = Parameter(initializer("ones", (num_features,))) if affine else None
        self.beta = Parameter(initializer("zeros", (num_features,))) if affine and has_bias else None
        self.tracks = track_running_stats
        self.cumulative = track_running_stats and momentum is None
        if track_running_stats:
            self.moving_mean = Parameter(initializer("zeros", (num_features,)), requires_grad=False)
            self.moving_variance = Parameter(initializer("ones", (num_features,)), requires_grad=False)
            if momentum is None:
                self.num_batches_tracked = Parameter(Tensor(np.zeros((), np.int64)), requires_grad=False)

    def construct(self, x: Tensor) -> Tensor:
        axes = (0, *tuple(range(2, x.ndim)))
        if self.training or not self.tracks:
            mean = x.mean(axes)
            centred = x - per_channel(mean, x.ndim)
            variance = (centred * centred).mean(axes)
            if self.training and self.tracks:
                self.update(mean, variance, x.size // x.shape[1])
        else:
            centred = x - per_channel(self.moving_mean, x.ndim)
            variance = self.moving_variance
        scale = ops.rsqrt(variance + self.eps)
        if self.gamma is not None:
            scale = scale * self.gamma
        out = centred * per_channel(scale, x.ndim)
        return out if self.beta is None else out + per_channel(self.beta, x.ndim)

    def update(self, mean: Tensor, variance: Tensor, count: int) -> None:
        """Move the statistics towards those of the batch; the variance unbiased."""
        mean, variance = ops.stop_gradient(mean), ops.stop_gradient(variance) * (count / (count - 1))
        if self.cumulative:
            number = self.num_batches_tracked + 1
            ops.assign(self.num_batches_tracked, number)
            share = 1.0 / number.astype(ms.float32)
        else:
            share = self.momentum
        ops.assign(self.moving_mean, self.moving_mean + share * (mean - self.moving_mean))
        ops.assign(self.moving_variance, self.moving_variance + share * (variance - self.moving_variance))


class FlexibleLayerNorm(nn.Cell):
    """Layer normalisation over any number of axes, also without scale (affine=False) or shift (has_bias=False)."""

    def __init__(
        self, normalized_shape: tuple[int, ...], epsilon: float = 1e-5, affine: bool = True, has_bias: bool = True
    ) -> None:
        super().__init__()
        self.normalized_shape = normalized_shape
        self.epsilon = epsilon
        self.axes = tuple(range(-len(normalized_shape), 0))
        self.gamma = Parameter(initializer("ones", normalized_shape)) if affine else None
        self.beta = Parameter(initializer("zeros", normalized_shape)) if affine and has_bias else None

    def construct(self, x: Tensor) -> Tensor:
        if self.beta is not None:
            first = x.ndim - len(self.axes)
            return ops.LayerNorm(first, first, self.epsilon)(x, self.gamma, self.beta)[0]
        out = normalise(x, self.axes, self.epsilon)
        return out if self.gamma is None else out * self.gamma


class FlexibleGroupNorm(nn.Cell):
    """Group normalisation without scale (affine=False) or without shift (has_bias=False)."""

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, has_bias: bool = True
    ) -> None:
        super().__init__()
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.gamma = Parameter(initializer("ones", (num_channels,))) if affine else None
        self.beta = Parameter(initializer("zeros", (num_channels,))) if affine and has_bias else None

    def construct(self, x: Tensor) -> Tensor:
        out = normalise(x.reshape(x.shape[0], self.num_groups, -1), (2,), self.eps).reshape(x.shape)
        if self.gamma is not None:
            out = out * per_channel(self.gamma, x.ndim)
        return out if self.beta is None else out + per_channel(self.beta, x.ndim)


class InstanceNorm(nn.Cell):
    """Instance normalisation over ``dims`` axes: each channel of each sample by itself, batched or not."""

    dims: int

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        has_bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.tracks = track_running_stats
        self.weight = Parameter(initializer("ones", (num_features,))) if affine else None
        self.bias = Parameter(initializer("zeros", (num_features,))) if affine and has_bias else None
        if track_running_stats:
            self.running_mean = Parameter(initializer("zeros", (num_features,)), requires_grad=False)
            self.running_var = Parameter(initializer("ones", (num_features,)), requires_grad=False)

    def construct(self, x: Tensor) -> Tensor:
        unbatched = x.ndim == self.dims + 1
        if unbatched:
            x = x.expand_dims(0)
        if self.tracks and not self.training:
            scale = ops.rsqrt(self.running_var + self.eps)
            out = (x - per_channel(self.running_mean, x.ndim)) * per_channel(scale, x.ndim)
        else:
            out = normalise(x, tuple(range(2, x.ndim)), self.eps)
            if self.tracks:
                self.update(ops.stop_gradient(x))
        if self.weight is not None:
            out = out * per_channel(self.weight, x.ndim)
        if self.bias is not None:
            out = out + per_channel(self.bias, x.ndim)
        return out[0] if unbatched else out

    def update(self, x: Tensor) -> None:
        """Move the statistics towards the mean of the samples' own; the variance unbiased."""
        flat = x.reshape(x.shape[0], x.shape[1], -1)
        count = flat.shape[2]
        mean = flat.mean(2)
        variance = ops.square(flat - mean.expand_dims(2)).mean(2) * (count / (count - 1))
        ops.assign(self.running_mean, self.running_mean + self.momentum * (mean.mean(0) - self.running_mean))
        ops.assign(self.running_var, self.running_var + self.momentum * (variance.mean(0) - self.running_var))


class InstanceNorm1d(InstanceNorm):
    """torch.nn.InstanceNorm1d."""

    dims = 1


class InstanceNorm2d(InstanceNorm):
    """torch.nn.InstanceNorm2d."""

    dims = 2


class InstanceNorm3d(InstanceNorm):
    """torch.nn.InstanceNorm3d."""

    dims = 3


class RMSNorm(nn.Cell):
    """torch.nn.RMSNorm; ``eps`` None is the machine epsilon of the input's type."""

    def __init__(
        self, normalized_shape: tuple[int, ...], eps: float | None = None, elementwise_affine: bool = True
    ) -> None:
        super().__init__()
        self.normalized_shape = normalized_shape
        self.eps = eps
        self.axes = tuple(range(-len(normalized_shape), 0))
        self.weight = Parameter(initializer("ones", normalized_shape)) if elementwise_affine else None

    def construct(self, x: Tensor) -> Tensor:
        eps = self.eps
        if eps is None:
            eps = 9.765625e-4 if x.dtype == ms.float16 else 1.1920928955078125e-07
        wide = x.astype(ms.float32)
        out = (wide * ops.rsqrt(ops.square(wide).mean(self.axes, keep_dims=True) + eps)).astype(x.dtype)
        return out if self.weight is None else out * self.weight


class LocalResponseNorm(nn.Cell):
    """torch.nn.LocalResponseNorm: each channel by the energy of its neighbours."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def construct(self, x: Tensor) -> Tensor:
        squares = x * x
        channels = x.shape[1]
        border = ops.zeros_like(squares)[:, :1].tile((1, self.size) + (1,) * (x.ndim - 2))
        padded = ops.cat((border, squares, border), axis=1)
        total = ops.zeros_like(squares)
        for shift in range(self.size):
            start = self.size - self.size // 2 + shift
            total = total + padded[:, start : start + channels]
        return x / ops.pow(total * (self.alpha / self.size) + self.k, self.beta)
