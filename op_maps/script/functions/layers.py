"""Layers made from torch's arguments, where they are known at run time only: passed by ``**``, or to what a name holds; losses' base."""

import mindspore as ms
from mindspore import nn, ops

from .layer_norm import FlexibleBatchNorm
from .layer_recurrent import LSTMCell


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


def set_attribute(cell, name, value):
    """Write an attribute. Of BatchNorm and Dropout the operation is made anew that has the setting built in.

    Raises NotImplementedError for the other layers of MindSpore, where the new value would have no effect.
    """
    renewed = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.Dropout)
    if type(cell).__module__.startswith("mindspore.nn.layer") and not isinstance(cell, renewed):
        raise NotImplementedError(f"MSP602: {type(cell).__name__}.{name} is built in: give it to the constructor")
    setattr(cell, name, value)
    if isinstance(cell, (nn.BatchNorm1d, nn.BatchNorm2d)):
        cell.bn_train = ops.BatchNorm(True, cell.eps, cell.momentum, cell.format)
        cell.bn_infer = ops.BatchNorm(False, cell.eps, data_format=cell.format)
    elif isinstance(cell, nn.BatchNorm3d):
        set_attribute(cell.bn2d, name, value)
    elif isinstance(cell, nn.Dropout):
        cell.dropout = ops.Dropout(1.0 - cell.p)


class DoubleLSTMCell(LSTMCell):
    """An LSTMCell that computes in float64 too, for which MindSpore's has no kernel."""

    def construct(self, x, hx=None):
        if x.dtype != ms.float64 or x.ndim == 1:
            return super().construct(x, hx)
        zeros = ops.zeros((x.shape[0], self.hidden_size), x.dtype)
        hidden, cell = (zeros, zeros) if hx is None else hx
        gates = ops.matmul(x, self.weight_ih.T) + ops.matmul(hidden, self.weight_hh.T)
        gates = gates + self.bias_ih + self.bias_hh if self.has_bias else gates
        let_in, keep, new, let_out = ops.chunk(gates, 4, axis=1)
        cell = ops.sigmoid(keep) * cell + ops.sigmoid(let_in) * ops.tanh(new)
        return ops.sigmoid(let_out) * ops.tanh(cell), cell


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


def layer_norm_of(normalized_shape, eps=1e-5, elementwise_affine=True, bias=True):
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if elementwise_affine and bias:
        return nn.LayerNorm(shape, epsilon=eps)
    raise NotImplementedError("MSP602: a LayerNorm without weight or bias, made by what a name holds")


def batch_norm1d_of(num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True):
    return _batch_norm(nn.BatchNorm1d, num_features, eps, momentum, affine, track_running_stats)


def batch_norm2d_of(num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True):
    return _batch_norm(nn.BatchNorm2d, num_features, eps, momentum, affine, track_running_stats)


def batch_norm3d_of(num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True):
    return _batch_norm(nn.BatchNorm3d, num_features, eps, momentum, affine, track_running_stats)


def _batch_norm(kind, num_features, eps, momentum, affine, tracks):
    if not affine or not tracks or momentum is None:
        return FlexibleBatchNorm(num_features, eps, None if momentum is None else 1 - momentum, affine, tracks)
    return kind(num_features, eps, 1 - momentum)


def group_norm_of(num_groups, num_channels, eps=1e-5, affine=True):
    return nn.GroupNorm(num_groups, num_channels, eps, affine)


def dropout_of(p=0.5, inplace=False):
    return nn.Dropout(p=p)


def relu_of(inplace=False):
    return nn.ReLU()


def leaky_relu_of(negative_slope=0.01, inplace=False):
    return nn.LeakyReLU(float(negative_slope))


def gelu_of(approximate="none"):
    return nn.GELU(approximate == "tanh")


def silu_of(inplace=False):
    return nn.SiLU()
