"""The table of likely causes: for each torch call what ports are known to do instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

Bound: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Other:
    """Another value of one argument, made from its value where ``when`` says that it applies."""

    text: str
    make: Callable[[Any], Any]
    when: Callable[[Any], bool]


@dataclass(frozen=True)
class Row:
    """Changes of some torch calls, named without their module.

    ``signature`` is torch's, to find arguments by name. ``options``: other values of one argument. ``whole``: changes
    of several arguments (None: it does not apply). ``instead``: other functions of the same arguments.
    """

    calls: str
    signature: str
    options: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    whole: Mapping[str, Callable[[Bound], Bound | None]] = field(default_factory=dict)
    instead: Mapping[str, Callable[..., Any]] = field(default_factory=dict)


def _tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _square(value: Any) -> bool:
    return isinstance(value, Tensor) and value.ndim >= 2 and value.shape[0] == value.shape[1]


def _nothing(value: Any) -> Any:
    return None


def _swapped(one: str, two: str) -> Callable[[Bound], Bound | None]:
    def change(bound: Bound) -> Bound | None:
        a, b = bound.get(one), bound.get(two)
        return {**bound, one: b, two: a} if a is not None and b is not None else None

    return change


def _sizes(value: Any, dims: int) -> tuple[int, ...]:
    found = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return found if len(found) == dims else found[:1] * dims


def _same_padding(kernel: str, fill: float) -> Callable[[Bound], Bound | None]:
    """``pad_mode="same"``: the output has ceil(size / stride), and the odd element of padding stands at the end."""

    def change(bound: Bound) -> Bound | None:
        x, window = bound["input"], bound[kernel]
        window = window.shape[2:] if isinstance(window, Tensor) else window
        if not isinstance(x, Tensor) or x.ndim < 3 or isinstance(bound.get("padding"), str):
            return None
        n = x.ndim - 2
        stride = _sizes(bound.get("stride") or window, n)
        dilation = _sizes(bound.get("dilation", 1), n)
        pads: list[int] = []
        for size, k, s, d in zip(x.shape[2:], _sizes(window, n), stride, dilation, strict=True):
            total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
            pads = [total // 2, total - total // 2, *pads]
        return {**bound, "input": F.pad(x, pads, value=fill), "padding": 0}

    return change


def _regrouped(count: int, order: Sequence[int]) -> Callable[[Bound], Bound | None]:
    def change(bound: Bound) -> Bound | None:
        weights = bound["weights"]
        if not isinstance(weights, (tuple, list)):
            return None
        return {**bound, "weights": [torch.cat([w.chunk(count)[i] for i in order]) for w in weights]}

    return change


def _gates(letters: str) -> dict[str, Callable[[Bound], Bound | None]]:
    """All other orders in which the gates can stand in the weights."""
    orders = [o for o in permutations(range(len(letters))) if list(o) != sorted(o)]
    return {f"gates in the order {''.join(letters[i] for i in o)}": _regrouped(len(letters), o) for o in orders}


def _no_bias(bound: Bound) -> Bound | None:
    """Recurrent layers hold their biases among the weights."""
    weights = bound["weights"]
    return {**bound, "weights": [w if w.ndim > 1 else w * 0 for w in weights]} if bound.get("has_biases") else None


def _shifted(bound: Bound) -> Bound | None:
    return {**bound, "diagonal": bound["diagonal"] + 1}


def _reversed_sides(bound: Bound) -> Bound | None:
    """Padding before and after each axis exchanged."""
    pad = tuple(bound["pad"])
    turned = tuple(p for i in range(0, len(pad), 2) for p in (pad[i + 1], pad[i]))
    return {**bound, "pad": turned} if turned != pad else None


def _reversed_axes(bound: Bound) -> Bound | None:
    """The first pair of sizes for the first axis, as numpy has it."""
    pad = tuple(bound["pad"])
    turned = tuple(p for i in range(len(pad) - 2, -2, -2) for p in pad[i : i + 2])
    return {**bound, "pad": turned} if turned != pad else None


MISSING = Other("without {name}", _nothing, _tensor)
TRANSPOSED = Other("{name} transposed", lambda v: v.transpose(0, 1), _square)
FLIPPED = Other("{name} the other way", lambda v: not v, lambda v: isinstance(v, bool) or v is None)
NEGATIVE = Other("{name} with the other sign", lambda v: -v, lambda v: _tensor(v) and v.dtype != torch.bool)
INVERTED = Other("{name} inverted", lambda v: ~v, lambda v: _tensor(v) and v.dtype == torch.bool)
COMPLEMENT = Other(
    "momentum as MindSpore counts it: there it is the share of the old value, in torch of the new one",
    lambda v: 1 - v,
    lambda v: isinstance(v, float),
)
BACKWARDS = Other("{name} in reverse order", lambda v: v[::-1], lambda v: isinstance(v, (tuple, list)))
EPS: Sequence[Any] = (1e-5, 1e-6, 1e-7, 1e-8, 1e-12, 1e-3, 0.0)
AXES: Sequence[Any] = (-1, 0, 1, 2, -2, 3)
KERNEL: Mapping[str, Sequence[Any]] = {"stride": [1, None], "padding": [0, 1]}
REDUCTION: Mapping[str, Sequence[Any]] = {"reduction": ["mean", "sum", "none"]}
NORM: Mapping[str, Sequence[Any]] = {"weight": [MISSING], "bias": [MISSING], "eps": EPS}
SCALED = _swapped("weight", "bias")
CONVOLVED: Mapping[str, Sequence[Any]] = {
    "weight": [TRANSPOSED],
    "bias": [MISSING],
    "stride": [1, (1, 1)],
    "padding": [0, (0, 0)],
}
POOL = "input, kernel_size, stride=None, padding=0"
_STATISTICS = "input, running_mean, running_var, weight=None, bias=None"
_PAIR = "input, target, size_average=None, reduce=None, reduction='mean'"
_LOSS = "input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean'"
_LSTM = "input, hx, weights, has_biases, num_layers, dropout, train, bidirectional, batch_first"
_SDPA = "query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False"
_RESIZED = "input, size=None, scale_factor=None, mode='nearest', align_corners=None, recompute_scale_factor=None"

ROWS = (
    Row("gelu", "input, *, approximate='none'", {"approximate": ["tanh", "none"]}),
    Row("leaky_relu", "input, negative_slope=0.01, inplace=False", {"negative_slope": [0.01, 0.1, 0.2, 0.0]}),
    Row("elu celu", "input, alpha=1.0, inplace=False", {"alpha": [1.0]}),
    Row("softplus", "input, beta=1, threshold=20", {"beta": [1], "threshold": [20]}),
    Row("hardtanh", "input, min_val=-1.0, max_val=1.0", {"min_val": [-1.0, 0.0], "max_val": [1.0, 6.0]}),
    Row("relu", "input, inplace=False", instead={"relu6": F.relu6, "gelu": F.gelu}),
    Row("silu", "input, inplace=False", instead={"hardswish": F.hardswish, "gelu": F.gelu}),
    Row("sigmoid", "input", instead={"hardsigmoid": F.hardsigmoid}),
    Row("hardsigmoid", "input, inplace=False", instead={"sigmoid": lambda x, *a, **k: torch.sigmoid(x)}),
    Row("softmax log_softmax softmin", "input, dim=None", {"dim": AXES}),
    Row(
        "batch_norm",
        f"{_STATISTICS}, training=False, momentum=0.1, eps=1e-05",
        {"momentum": [COMPLEMENT, 0.1], "training": [FLIPPED], **NORM},
        {
            "running_mean and running_var exchanged": _swapped("running_mean", "running_var"),
            "weight and bias exchanged": SCALED,
        },
    ),
    Row("instance_norm", f"{_STATISTICS}, use_input_stats=True, momentum=0.1, eps=1e-05", NORM),
    Row("layer_norm", "input, normalized_shape, weight=None, bias=None, eps=1e-05", NORM, {"weight as bias": SCALED}),
    Row("group_norm", "input, num_groups, weight=None, bias=None, eps=1e-05", {**NORM, "num_groups": [1, 32, 8]}),
    Row("rms_norm", "input, normalized_shape, weight=None, eps=None", {"weight": [MISSING], "eps": EPS}),
    Row("normalize", "input, p=2.0, dim=1, eps=1e-12", {"p": [2.0, 1.0], "dim": AXES, "eps": EPS}),
    Row("linear", "input, weight, bias=None", {"bias": [MISSING], "weight": [TRANSPOSED]}),
    Row(
        "conv1d conv2d conv3d",
        "input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1",
        {**CONVOLVED, "dilation": [1, (1, 1)]},
        {"pad_mode 'same': other elements are padded": _same_padding("weight", 0.0)},
    ),
    Row(
        "conv_transpose1d conv_transpose2d conv_transpose3d",
        "input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1",
        CONVOLVED,
    ),
    Row(
        "max_pool1d max_pool2d max_pool3d",
        f"{POOL}, dilation=1, ceil_mode=False, return_indices=False",
        {**KERNEL, "ceil_mode": [FLIPPED]},
        {"pad_mode 'same': other elements are padded": _same_padding("kernel_size", float("-inf"))},
    ),
    Row(
        "avg_pool1d avg_pool2d avg_pool3d",
        f"{POOL}, ceil_mode=False, count_include_pad=True, divisor_override=None",
        {"count_include_pad": [FLIPPED], "ceil_mode": [FLIPPED], **KERNEL},
    ),
    Row("adaptive_avg_pool2d", "input, output_size", instead={"maximum": F.adaptive_max_pool2d}),
    Row(
        "interpolate",
        _RESIZED,
        {"align_corners": [True, False, None], "mode": ["nearest", "bilinear", "nearest-exact", "bicubic"]},
    ),
    Row(
        "grid_sample",
        "input, grid, mode='bilinear', padding_mode='zeros', align_corners=None",
        {"align_corners": [True, False], "mode": ["nearest"], "padding_mode": ["border", "zeros", "reflection"]},
    ),
    Row(
        "pad",
        "input, pad, mode='constant', value=None",
        {"mode": ["constant", "reflect", "replicate", "circular"]},
        {"padding at the other side": _reversed_sides, "padding of the axes in reverse order": _reversed_axes},
    ),
    Row("dropout dropout1d dropout2d dropout3d", "input, p=0.5, training=True", {"training": [FLIPPED]}),
    Row("lstm", _LSTM, whole={"without bias": _no_bias, **_gates("ifgo")}),
    Row("gru", _LSTM, whole={"without bias": _no_bias, **_gates("rzn")}),
    Row("rnn_tanh", _LSTM, whole={"without bias": _no_bias}, instead={"nonlinearity relu": torch._VF.rnn_relu}),
    Row("mean", "input, dim=None, keepdim=False", {"dim": AXES}, instead={"sum instead of mean": torch.sum}),
    Row("sum", "input, dim=None, keepdim=False", {"dim": AXES}, instead={"mean instead of sum": torch.mean}),
    Row("amax amin max min argmax argmin cumsum cumprod prod", "input, dim=None, keepdim=False", {"dim": AXES}),
    Row("var std", "input, dim=None, unbiased=True, keepdim=False", {"unbiased": [FLIPPED]}),
    Row("var std", "input, dim=None, *, correction=1, keepdim=False", {"correction": [0, 1]}),
    Row("tril triu", "input, diagonal=0", {}, {"diagonal + 1": _shifted}, {"tril": torch.tril, "triu": torch.triu}),
    Row("masked_fill masked_fill_", "input, mask, value", {"mask": [INVERTED]}),
    Row("where", "condition, input, other", {"condition": [INVERTED]}),
    Row("__setitem__", "input, key, value", {"key": [INVERTED]}),
    Row(
        "__setitem__ copy_ fill_ zero_ masked_fill_ masked_scatter_ index_copy_ index_fill_ index_put_ scatter_",
        "input",
        instead={"this write is missing": lambda tensor, *a, **k: tensor},
    ),
    Row("scaled_dot_product_attention", _SDPA, {"attn_mask": [MISSING, INVERTED, NEGATIVE], "is_causal": [FLIPPED]}),
    Row("scaled_dot_product_attention", _SDPA, {"scale": [1.0]}),
    Row(
        "multi_head_attention_forward",
        "query, key, value",
        {"key_padding_mask": [MISSING, INVERTED], "attn_mask": [MISSING, INVERTED]},
    ),
    Row("cat concat stack", "tensors, dim=0", {"tensors": [BACKWARDS], "dim": AXES}),
    Row("flip roll", "input, shifts, dims", {"shifts": [NEGATIVE]}),
    Row("clamp clip", "input, min=None, max=None", {"min": [None], "max": [None]}),
    Row("matmul __matmul__ bmm", "input, other", {"other": [TRANSPOSED], "input": [TRANSPOSED]}),
    Row("div true_divide __truediv__", "input, other", instead={"integer division": torch.floor_divide}),
    Row("floor_divide __floordiv__", "input, other", instead={"division with a fraction": torch.true_divide}),
    Row("add add_ __add__ __iadd__", "input, other", instead={"difference instead of sum": lambda a, b, **k: a - b}),
    Row("sub __sub__ __rsub__", "input, other", instead={"sides exchanged": lambda a, b, **k: b - a}),
    Row("pow __pow__", "input, exponent", instead={"sides exchanged": lambda a, b: b**a}),
    Row("cross_entropy", f"{_LOSS}, label_smoothing=0.0", {**REDUCTION, "weight": [MISSING], "label_smoothing": [0.0]}),
    Row("nll_loss", _LOSS, {**REDUCTION, "weight": [MISSING]}),
    Row(
        "mse_loss l1_loss smooth_l1_loss", "input, target, size_average=None, reduce=None, reduction='mean'", REDUCTION
    ),
)


def _first(args: tuple[Any, ...], out: Any) -> Any:
    return _one_of(args[0], out)


def _second(args: tuple[Any, ...], out: Any) -> Any:
    return _one_of(args[1], out)


def _one_of(value: Any, out: Any) -> Any:
    if not isinstance(value, Tensor) or not isinstance(out, Tensor) or value.shape != out.shape:
        raise TypeError("no tensor of this shape goes in")
    return value


def _reshaped(args: tuple[Any, ...], out: Any) -> Any:
    return args[0].reshape(out.shape)


ANY: Mapping[str, Callable[[tuple[Any, ...], Any], Any]] = {
    "this step is missing": _first,
    "only the second operand goes on": _second,
    "reshaped, where the axes have to be moved": _reshaped,
    "cut to integers": lambda args, out: out.trunc(),
    "rounded to integers": lambda args, out: out.round(),
    "the other sign": lambda args, out: -out,
}
"""Changes of the result of any call, from its positional arguments and itself."""
