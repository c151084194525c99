"""Functions of torch.nn.functional where MindSpore's own are wrong, missing or have other arguments."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor, nn, ops


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """F.elu with any alpha (ops.elu takes 1 only)."""
    return ops.where(x > 0, x, alpha * ops.expm1(ops.where(x > 0, ops.zeros_like(x), x)))


def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """F.leaky_relu: at 0 the gradient is the slope (ops.leaky_relu's is the mean of the slope and 1)."""
    return ops.where(x > 0, x, negative_slope * x)


def selu(x: Tensor) -> Tensor:
    """F.selu (ops.selu has a wrong gradient)."""
    return 1.0507009873554805 * elu(x, 1.6732632423543772)


def hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """F.hardtanh: no gradient at and beyond the ends."""
    inside = ops.logical_and(x > min_val, x < max_val)
    return ops.where(inside, x, ops.stop_gradient(ops.clamp(x, min_val, max_val)))


def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """F.softplus: linear where beta * x is above the threshold."""
    scaled = x * beta
    return ops.where(scaled > threshold, x, log1p_exp(scaled) / beta)


def log1p_exp(x: Tensor) -> Tensor:
    """log(1 + exp(x)); at 0 its gradient is one half, which with ops.abs it would not be."""
    return ops.relu(x) + ops.log1p(ops.exp(ops.where(x > 0, -x, x)))


def mish(x: Tensor) -> Tensor:
    """F.mish, x * tanh(softplus(x)), by exponentials that can't overflow (ops.mish is NaN from 44.4 on)."""
    small = ops.exp(-ops.abs(x))
    below = small * (small + 2)
    ratio = ops.where(x > 0, (2 * small + 1) / (2 * small * (small + 1) + 1), below / (below + 2))
    return x * ratio


def erfinv(x: Tensor) -> Tensor:
    """torch.erfinv: ops.erfinv (3e-2 off near 1 on CPU) with three steps of Newton's method."""
    size = ops.abs(x)
    y = ops.stop_gradient(ops.abs(ops.erfinv(x)))
    for _ in range(3):
        missing = ops.where(size < 0.5, size - ops.erf(y), ops.erfc(y) - (1 - size))
        y = y + missing * 0.8862269254527579 * ops.exp(y * y)
    inside = ops.logical_and(size > 0, size < 1)
    y = ops.stop_gradient(ops.where(inside, y, ops.abs(ops.erfinv(x))))
    slope = ops.where(size < 1, 0.8862269254527579 * ops.exp(y * y), 0 * size)
    return ops.sign(x) * y + (x - ops.stop_gradient(x)) * ops.stop_gradient(slope)


def logsigmoid(x: Tensor) -> Tensor:
    """F.logsigmoid (ops.logsigmoid is infinite below -88)."""
    return ops.minimum(x, ops.zeros_like(x)) - ops.log1p(ops.exp(-ops.abs(x)))


def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """F.prelu for any rank: one slope, or one for each channel (the second axis)."""
    slope = weight.reshape((-1,) + (1,) * (x.ndim - 2)) if x.ndim > 2 else weight
    return ops.where(x > 0, x, slope * x)


def dropout(x: Tensor, rand: nn.Cell, p: float = 0.5, training: bool = True) -> Tensor:
    """F.dropout; ``rand`` draws the mask."""
    if not training or p == 0.0:
        return x
    if p == 1.0:
        return x * 0.0
    return x * (rand(x.shape, x.dtype) >= p).astype(x.dtype) / (1.0 - p)


def feature_dropout(x: Tensor, rand: nn.Cell, p: float = 0.5, training: bool = True) -> Tensor:
    """F.dropout1d, 2d and 3d: whole channels are dropped; ``rand`` draws the mask."""
    if not training or p == 0.0:
        return x
    if p == 1.0:
        return x * 0.0
    shape = x.shape[:2] + (1,) * (x.ndim - 2)
    return x * (rand(shape, x.dtype) >= p).astype(x.dtype) / (1.0 - p)


def alpha_dropout(x: Tensor, rand: nn.Cell, p: float = 0.5, training: bool = False, by_channel: bool = False) -> Tensor:
    """F.alpha_dropout: keeps mean and variance of SELU's outputs; ``by_channel``: F.feature_alpha_dropout."""
    if not training or p == 0.0:
        return x
    if p == 1.0:
        return x * 0.0
    alpha = -1.7580993408473766
    scale = ((1.0 - p) * (1.0 + p * alpha * alpha)) ** -0.5
    shape = x.shape[:2] + (1,) * (x.ndim - 2) if by_channel else x.shape
    keep = (rand(shape, x.dtype) >= p).astype(x.dtype)
    return (x * keep + alpha * (1.0 - keep)) * scale - scale * alpha * p


def gumbel_softmax(logits: Tensor, rand: nn.Cell, tau: float = 1.0, hard: bool = False, axis: int = -1) -> Tensor:
    """F.gumbel_softmax; ``hard``: one-hot forward, the soft sample's gradient."""
    noise = -ops.log(-ops.log(ops.clamp(rand(logits.shape, logits.dtype), min=1.1754943508222875e-38)))
    soft = ops.softmax((logits + noise) / tau, axis=axis)
    if not hard:
        return soft
    index = ops.argmax(soft, axis, True)
    places = ops.arange(soft.shape[axis]).reshape((-1,) + (1,) * ((soft.ndim - 1 - axis) % soft.ndim))
    return (index == places).astype(soft.dtype) - ops.stop_gradient(soft) + soft


def embedding(ids: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """F.embedding: the padding row gets no gradient through the look-up."""
    out = ops.gather(weight, ids, 0)
    if padding_idx is None:
        return out
    row = padding_idx % weight.shape[0]
    return ops.where((ids == row).expand_dims(-1), ops.stop_gradient(out), out)


def one_hot(ids: Tensor, num_classes: int) -> Tensor:
    """F.one_hot: int64."""
    return (ids.expand_dims(-1) == ops.arange(num_classes)).astype(ms.int64)


def bilinear(x1: Tensor, x2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """F.bilinear: x1 W_k x2 for each output k."""
    left = ops.matmul(x1.expand_dims(-2).expand_dims(-2), weight).squeeze(-2)
    out = (left * x2.expand_dims(-2)).sum(-1)
    return out if bias is None else out + bias


def apply_batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """F.batch_norm where statistics or the affine parameters are missing. ``momentum`` is torch's."""
    shape = (1, -1) + (1,) * (x.ndim - 2)
    if training or running_mean is None:
        axes = (0, *range(2, x.ndim))
        mean = x.mean(axes)
        centred = x - mean.reshape(shape)
        var = ops.square(centred).mean(axes)
        if running_mean is not None and running_var is not None:
            count = x.size // x.shape[1]
            ops.assign(running_mean, ops.stop_gradient((1 - momentum) * running_mean + momentum * mean))
            unbiased = var * (count / (count - 1))
            ops.assign(running_var, ops.stop_gradient((1 - momentum) * running_var + momentum * unbiased))
    else:
        centred, var = x - running_mean.reshape(shape), running_var
    out = centred * ops.rsqrt(var + eps).reshape(shape)
    out = out if weight is None else out * weight.reshape(shape)
    return out if bias is None else out + bias.reshape(shape)


def apply_layer_norm(
    x: Tensor,
    normalized_shape: tuple[int, ...],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """F.layer_norm over the last axes."""
    axis = x.ndim - len(normalized_shape)
    weight = ops.ones(tuple(normalized_shape), x.dtype) if weight is None else weight
    bias = ops.zeros(tuple(normalized_shape), x.dtype) if bias is None else bias
    return ops.LayerNorm(begin_norm_axis=axis, begin_params_axis=axis, epsilon=eps)(x, weight, bias)[0]


def apply_instance_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """F.instance_norm by the statistics of the input."""
    return ops.group_norm(x, x.shape[1], weight, bias, eps)


def apply_rms_norm(
    x: Tensor, normalized_shape: tuple[int, ...], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """F.rms_norm over the last axes (ops.rms_norm has no CPU kernel)."""
    eps = 1.1920928955078125e-07 if eps is None else eps
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    out = x * ops.rsqrt(ops.square(x).mean(axes, True) + eps)
    return out if weight is None else out * weight


def local_response_norm(x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """F.local_response_norm over the channels (the second axis), of any size (ops.lrn takes odd ones only)."""
    square = ops.square(x)
    before = ops.zeros((x.shape[0], size // 2, *x.shape[2:]), x.dtype)
    after = ops.zeros((x.shape[0], (size - 1) // 2, *x.shape[2:]), x.dtype)
    padded = ops.cat((before, square, after), axis=1)
    total = padded[:, 0 : x.shape[1]]
    for offset in range(1, size):
        total = total + padded[:, offset : offset + x.shape[1]]
    return x / (total * (alpha / size) + k) ** beta
