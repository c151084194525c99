"""Convolutions that MindSpore's own cells lack."""

import math

from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import HeUniform, Uniform, initializer

from .layer_padding import pad_mode_nd


def tuple_of(value: int | tuple[int, ...], dims: int) -> tuple[int, ...]:
    """One number for all dimensions, or one for each."""
    return (value,) * dims if isinstance(value, int) else tuple(value)


def both_sides(padding: int | tuple[int, ...]) -> int | tuple[int, ...]:
    """MindSpore's (top, bottom, left, right) for torch's (height, width); a number stays."""
    return padding if isinstance(padding, int) else tuple(amount for amount in padding for _ in range(2))


def padding_amounts(
    padding: int | str | tuple[int, ...], kernel: tuple[int, ...], dilation: tuple[int, ...]
) -> tuple[int, ...]:
    """(left, right, top, bottom, ...), the last dimension first."""
    if padding == "valid":
        padding = 0
    amounts = []
    for axis in reversed(range(len(kernel))):
        if padding == "same":
            total = dilation[axis] * (kernel[axis] - 1)
            amounts += [total // 2, total - total // 2]
        else:
            amounts += [tuple_of(padding, len(kernel))[axis]] * 2
    return tuple(amounts)


class PaddedConv1d(nn.Conv1d):
    """A convolution over reflected, replicated or wrapped borders."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | str | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        group: int = 1,
        has_bias: bool = False,
        padding_mode: str = "reflect",
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, "valid", 0, dilation, group, has_bias)
        self.amounts = padding_amounts(padding, (kernel_size,), (dilation,))
        self.padding_mode = padding_mode

    def construct(self, x: Tensor) -> Tensor:
        return super().construct(pad_mode_nd(x, self.amounts, self.padding_mode))


class PaddedConv2d(nn.Conv2d):
    """A convolution over reflected, replicated or wrapped borders."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | str | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        group: int = 1,
        has_bias: bool = False,
        padding_mode: str = "reflect",
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, "valid", 0, dilation, group, has_bias)
        self.amounts = padding_amounts(padding, tuple_of(kernel_size, 2), tuple_of(dilation, 2))
        self.padding_mode = padding_mode

    def construct(self, x: Tensor) -> Tensor:
        return super().construct(pad_mode_nd(x, self.amounts, self.padding_mode))


class PaddedConv3d(nn.Conv3d):
    """A convolution over reflected, replicated or wrapped borders."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | str | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        group: int = 1,
        has_bias: bool = False,
        padding_mode: str = "reflect",
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, "valid", 0, dilation, group, has_bias)
        self.amounts = padding_amounts(padding, tuple_of(kernel_size, 3), tuple_of(dilation, 3))
        self.padding_mode = padding_mode

    def construct(self, x: Tensor) -> Tensor:
        return super().construct(pad_mode_nd(x, self.amounts, self.padding_mode))


def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    output_padding: tuple[int, ...],
    groups: int,
    dilation: tuple[int, ...],
) -> Tensor:
    """A transposed convolution over the 1, 2 or 3 last axes, through the 3-d one, whose output padding is right."""
    dims = len(stride)
    ones = 3 - dims
    lead = (1,) * ones
    unbatched = x.ndim == dims + 1
    if unbatched:
        x = x.expand_dims(0)
    x = x.reshape(x.shape[:2] + lead + x.shape[2:])
    weight = weight.reshape(weight.shape[:2] + lead + weight.shape[2:])
    if dims == 3 and dilation[0] != 1:
        # The primitive refuses dilation in depth: zeros between the kernel's planes mean the same.
        weight = spread_depth(weight, dilation[0])
        dilation = (1, *dilation[1:])
    pads = (0,) * ones + padding
    # The primitive takes one weight for all groups only on some devices: groups run one by one.
    outputs = []
    width_in, width = x.shape[1] // groups, weight.shape[1]
    for group in range(groups):
        convolution = ops.Conv3DTranspose(
            width_in,
            width,
            weight.shape[2:],
            pad_mode="pad",
            pad=(pads[0], pads[0], pads[1], pads[1], pads[2], pads[2]),
            stride=lead + stride,
            dilation=lead + dilation,
            output_padding=(0,) * ones + output_padding,
        )
        part = slice(group * width_in, (group + 1) * width_in)
        outputs.append(convolution(x[:, part], weight[part]))
    out = outputs[0] if groups == 1 else ops.cat(outputs, axis=1)
    out = out.reshape(out.shape[:2] + out.shape[2 + ones :])
    if bias is not None:
        out = out + bias.reshape((1, -1) + (1,) * dims)
    return out[0] if unbatched else out


def spread_depth(weight: Tensor, step: int) -> Tensor:
    """A kernel (in, out, depth, height, width) with step - 1 planes of zeros between its planes."""
    rows, columns, depth, height, width = weight.shape
    planes = weight.expand_dims(3)
    zeros = ops.zeros((rows, columns, depth, step - 1, height, width), weight.dtype)
    spread = ops.cat((planes, zeros), axis=3).reshape(rows, columns, depth * step, height, width)
    return spread[:, :, : (depth - 1) * step + 1]


class ConvTransposeNd(nn.Cell):
    """A transposed convolution with torch's arguments, output padding and output size."""

    def __init__(
        self,
        dims: int,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...],
        padding: int | tuple[int, ...],
        output_padding: int | tuple[int, ...],
        groups: int,
        bias: bool,
        dilation: int | tuple[int, ...],
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = tuple_of(kernel_size, dims)
        self.stride = tuple_of(stride, dims)
        self.padding = tuple_of(padding, dims)
        self.output_padding = tuple_of(output_padding, dims)
        self.groups = groups
        self.dilation = tuple_of(dilation, dims)
        shape = (in_channels, out_channels // groups, *self.kernel_size)
        self.weight = Parameter(initializer(HeUniform(math.sqrt(5)), shape))
        self.bias = None
        if bias:
            bound = 1 / math.sqrt(math.prod(shape[1:]))
            self.bias = Parameter(initializer(Uniform(bound), (out_channels,)))

    def construct(self, x: Tensor, output_size: tuple[int, ...] | None = None) -> Tensor:
        extra = self.output_padding
        if output_size is not None:
            sizes = x.shape[-len(self.stride) :]
            wanted = output_size[-len(self.stride) :]
            extra = ()
            for axis in range(len(self.stride)):
                least = (sizes[axis] - 1) * self.stride[axis] - 2 * self.padding[axis]
                least = least + self.dilation[axis] * (self.kernel_size[axis] - 1) + 1
                extra = (*extra, wanted[axis] - least)
        return conv_transpose(x, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)


class ConvTranspose1d(ConvTransposeNd):
    """torch.nn.ConvTranspose1d."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
    ) -> None:
        super().__init__(
            1, in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation
        )


class ConvTranspose2d(ConvTransposeNd):
    """torch.nn.ConvTranspose2d."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
    ) -> None:
        super().__init__(
            2, in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation
        )


class ConvTranspose3d(ConvTransposeNd):
    """torch.nn.ConvTranspose3d."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
    ) -> None:
        super().__init__(
            3, in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation
        )
