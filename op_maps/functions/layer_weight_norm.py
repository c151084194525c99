"""Layers whose weight is split into a length and a direction (torch.nn.utils.weight_norm)."""

from __future__ import annotations

import math

import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import HeUniform, Uniform, initializer

from .layer_conv import conv_transpose, tuple_of


def weight_of(direction: Tensor, length: Tensor, dim: int | None = 0) -> Tensor:
    """The weight: every slice along the dimension has its own length; with None the whole has one."""
    axes = tuple(axis for axis in range(direction.ndim) if axis != dim)
    return direction * (length / ops.sqrt((direction * direction).sum(axes, keepdims=True)))


class WeightNormed(nn.Cell):
    """The parameters of such a layer: ``weight_g`` (length), ``weight_v`` (direction), ``bias``.

    Fresh ones are torch's: a plain layer's weight, split, so that the length is that of the direction drawn.
    """

    def __init__(self, shape: tuple[int, ...], out_channels: int, has_bias: bool, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = dim
        direction = initializer(HeUniform(math.sqrt(5)), shape).init_data()
        axes = tuple(axis for axis in range(len(shape)) if axis != dim)
        lengths = np.sqrt((direction.asnumpy() ** 2).sum(axes, keepdims=dim is not None))
        self.weight_g, self.weight_v = Parameter(Tensor(lengths)), Parameter(direction)
        bound = 1 / math.sqrt(math.prod(shape[1:]))
        self.bias = Parameter(initializer(Uniform(bound), (out_channels,))) if has_bias else None

    @property
    def weight(self) -> Tensor:
        """What the next call computes with. A write into it is lost, as in torch."""
        return weight_of(self.weight_v, self.weight_g, self.dim)


class WeightNormDense(WeightNormed):
    """weight_norm of a Linear."""

    def __init__(self, in_channels: int, out_channels: int, has_bias: bool = True, dim: int | None = 0) -> None:
        super().__init__((out_channels, in_channels), out_channels, has_bias, dim)

    def construct(self, x: Tensor) -> Tensor:
        return ops.dense(x, weight_of(self.weight_v, self.weight_g, self.dim), self.bias)


class WeightNormConv1d(WeightNormed):
    """weight_norm of a Conv1d."""

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
        dim: int | None = 0,
    ) -> None:
        shape = (out_channels, in_channels // groups, *tuple_of(kernel_size, 1))
        super().__init__(shape, out_channels, has_bias, dim)
        self.stride, self.padding, self.dilation = (tuple_of(v, 1)[0] for v in (stride, padding, dilation))
        self.groups = groups

    def construct(self, x: Tensor) -> Tensor:
        weight = weight_of(self.weight_v, self.weight_g, self.dim)
        return ops.conv1d(x, weight, self.bias, self.stride, "pad", self.padding, self.dilation, self.groups)


class WeightNormConv2d(WeightNormed):
    """weight_norm of a Conv2d."""

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
        dim: int | None = 0,
    ) -> None:
        shape = (out_channels, in_channels // groups, *tuple_of(kernel_size, 2))
        super().__init__(shape, out_channels, has_bias, dim)
        self.stride, self.padding, self.dilation = (tuple_of(v, 2) for v in (stride, padding, dilation))
        self.groups = groups

    def construct(self, x: Tensor) -> Tensor:
        weight = weight_of(self.weight_v, self.weight_g, self.dim)
        return ops.conv2d(x, weight, self.bias, self.stride, "pad", self.padding, self.dilation, self.groups)


class WeightNormConv1dTranspose(WeightNormed):
    """weight_norm of a ConvTranspose1d."""

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
        dim: int | None = 0,
    ) -> None:
        shape = (in_channels, out_channels // groups, *tuple_of(kernel_size, 1))
        super().__init__(shape, out_channels, has_bias, dim)
        given = (stride, padding, output_padding, dilation)
        self.stride, self.padding, self.output_padding, self.dilation = (tuple_of(v, 1) for v in given)
        self.groups = groups

    def construct(self, x: Tensor) -> Tensor:
        weight = weight_of(self.weight_v, self.weight_g, self.dim)
        amounts = (self.stride, self.padding, self.output_padding)
        return conv_transpose(x, weight, self.bias, *amounts, self.groups, self.dilation)
