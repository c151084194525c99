"""Layers made from torch's arguments, where a call passes some by ``**`` and they are known at run time only; losses' base."""

from mindspore import nn


def conv1d_of(
    in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros"
):
    mode, padding = _padding(padding, padding_mode, 1)
    kernel_size, stride, dilation = (v[0] if isinstance(v, tuple) else v for v in (kernel_size, stride, dilation))
    return nn.Conv1d(in_channels, out_channels, kernel_size, stride, mode, padding, dilation, groups, bias)


def conv2d_of(
    in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros"
):
    mode, padding = _padding(padding, padding_mode, 2)
    return nn.Conv2d(in_channels, out_channels, kernel_size, stride, mode, padding, dilation, groups, bias)


def conv3d_of(
    in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros"
):
    mode, padding = _padding(padding, padding_mode, 3)
    return nn.Conv3d(in_channels, out_channels, kernel_size, stride, mode, padding, dilation, groups, bias)


def dense_layer_of(in_features, out_features, bias=True):
    return nn.Dense(in_features, out_features, has_bias=bias)


class Loss(nn.Cell):
    """What torch's losses have in common: a weight and a reduction."""

    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean"):
        super().__init__()
        self.weight, self.reduction = weight, reduction


def _padding(padding, kind, axes):
    """MindSpore's ``pad_mode`` and ``padding``: each side of each axis."""
    if kind != "zeros":
        raise NotImplementedError(f"MSP602: a convolution with padding_mode={kind!r} that is passed by **")
    if isinstance(padding, str):
        return padding, 0
    each = padding if isinstance(padding, (tuple, list)) else (padding,) * axes
    return ("pad", each[0]) if axes == 1 else ("pad", tuple(n for n in each for _ in range(2)))
