"""Layers whose weight is divided by its largest singular value (torch.nn.utils.spectral_norm)."""

from __future__ import annotations

import math

import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import HeUniform, Uniform, initializer

from .layer_conv import conv_transpose, tuple_of


def unit_vector(x: Tensor) -> Tensor:
    """The vector over its length."""
    return x / ops.maximum(ops.sqrt((x * x).sum()), 1e-12)


def first_vectors(matrix: np.ndarray, iterations: int) -> tuple[np.ndarray, np.ndarray]:
    """Random unit vectors, brought near the singular ones by that many power iterations."""
    u, v = (initializer("normal", (size,)).init_data().asnumpy() for size in matrix.shape)
    u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
    for _ in range(iterations):
        u = matrix @ v / max(np.linalg.norm(matrix @ v), 1e-12)
        v = u @ matrix / max(np.linalg.norm(u @ matrix), 1e-12)
    return u, v


class SpectralNormed(nn.Cell):
    """The weight with its singular vectors, which every call in training brings nearer by one power iteration.

    ``left_first``: the left one is renewed before the right one, and fresh ones have 15 iterations behind them, as
    torch.nn.utils.parametrizations does. Fresh parameters are a plain layer's, as torch's.
    """

    def __init__(
        self, shape: tuple[int, ...], out_channels: int, has_bias: bool, left_first: bool, out_axis: int = 0
    ) -> None:
        super().__init__()
        height = shape[out_axis]
        weight = initializer(HeUniform(math.sqrt(5)), shape).init_data()
        u, v = first_vectors(weight.asnumpy().swapaxes(0, out_axis).reshape(height, -1), 15 if left_first else 0)
        self.weight_orig = Parameter(weight)
        self.weight_u = Parameter(Tensor(u), requires_grad=False)
        self.weight_v = Parameter(Tensor(v), requires_grad=False)
        bound = 1 / math.sqrt(math.prod(shape[1:]))
        self.bias = Parameter(initializer(Uniform(bound), (out_channels,))) if has_bias else None
        self.left_first, self.out_axis, self.height = left_first, out_axis, height

    def weight(self) -> Tensor:
        """The weight over its largest singular value."""
        matrix = self.weight_orig.swapaxes(0, self.out_axis).reshape((self.height, -1))
        u, v = self.weight_u.value(), self.weight_v.value()
        if self.training:
            fixed = ops.stop_gradient(matrix)
            if self.left_first:
                u = unit_vector(ops.matmul(fixed, v))
            v = unit_vector(ops.matmul(u, fixed))
            if not self.left_first:
                u = unit_vector(ops.matmul(fixed, v))
            ops.assign(self.weight_u, u)
            ops.assign(self.weight_v, v)
        sigma = (ops.stop_gradient(u) * ops.matmul(matrix, ops.stop_gradient(v))).sum()
        return self.weight_orig / sigma


class SpectralNormDense(SpectralNormed):
    """spectral_norm of a Linear."""

    def __init__(self, in_channels: int, out_channels: int, has_bias: bool = True, left_first: bool = False) -> None:
        super().__init__((out_channels, in_channels), out_channels, has_bias, left_first)

    def construct(self, x: Tensor) -> Tensor:
        return ops.dense(x, self.weight(), self.bias)


class SpectralNormConv1d(SpectralNormed):
    """spectral_norm of a Conv1d."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        has_bias: bool = True,
        left_first: bool = False,
    ) -> None:
        shape = (out_channels, in_channels // groups, *tuple_of(kernel_size, 1))
        super().__init__(shape, out_channels, has_bias, left_first)
        self.stride, self.padding, self.dilation = (tuple_of(v, 1)[0] for v in (stride, padding, dilation))
        self.groups = groups

    def construct(self, x: Tensor) -> Tensor:
        return ops.conv1d(x, self.weight(), self.bias, self.stride, "pad", self.padding, self.dilation, self.groups)


class SpectralNormConv2d(SpectralNormed):
    """spectral_norm of a Conv2d."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        has_bias: bool = True,
        left_first: bool = False,
    ) -> None:
        shape = (out_channels, in_channels // groups, *tuple_of(kernel_size, 2))
        super().__init__(shape, out_channels, has_bias, left_first)
        self.stride, self.padding, self.dilation = (tuple_of(v, 2) for v in (stride, padding, dilation))
        self.groups = groups

    def construct(self, x: Tensor) -> Tensor:
        return ops.conv2d(x, self.weight(), self.bias, self.stride, "pad", self.padding, self.dilation, self.groups)


class SpectralNormConv2dTranspose(SpectralNormed):
    """spectral_norm of a ConvTranspose2d."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        has_bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        left_first: bool = False,
    ) -> None:
        shape = (in_channels, out_channels // groups, *tuple_of(kernel_size, 2))
        super().__init__(shape, out_channels, has_bias, left_first, out_axis=1)
        given = (stride, padding, output_padding, dilation)
        self.stride, self.padding, self.output_padding, self.dilation = (tuple_of(v, 2) for v in given)
        self.groups = groups

    def construct(self, x: Tensor) -> Tensor:
        amounts = (self.stride, self.padding, self.output_padding)
        return conv_transpose(x, self.weight(), self.bias, *amounts, self.groups, self.dilation)
