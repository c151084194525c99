"""Layers whose weight is divided by its largest singular value (torch.nn.utils.spectral_norm)."""

from __future__ import annotations

import math

from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import HeUniform, initializer

from .layer_conv import conv_transpose, tuple_of


def unit_vector(x: Tensor) -> Tensor:
    """The vector over its length."""
    return x / ops.maximum(ops.sqrt((x * x).sum()), 1e-12)


class SpectralNormed(nn.Cell):
    """The weight with its singular vectors, which every call in training brings nearer by one power iteration.

    ``left_first``: the left one is renewed before the right one, as torch.nn.utils.parametrizations does.
    """

    def __init__(
        self, shape: tuple[int, ...], out_channels: int, has_bias: bool, left_first: bool, out_axis: int = 0
    ) -> None:
        super().__init__()
        height = shape[out_axis]
        self.weight_orig = Parameter(initializer(HeUniform(math.sqrt(5)), shape))
        self.weight_u = Parameter(initializer("normal", (height,)), requires_grad=False)
        self.weight_v = Parameter(initializer("normal", (math.prod(shape) // height,)), requires_grad=False)
        self.bias = Parameter(initializer("zeros", (out_channels,))) if has_bias else None
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
