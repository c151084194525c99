"""PyTorch's samples as source: each becomes a small module whose ``forward`` is the call as a person would write it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

LARGEST = 200_000
"""Elements of a sample's inputs; larger samples measure memory, not meaning."""

_OTHER_ORDER = {
    "where": "torch.where({1}, {0}, {2})",
    "einsum": "torch.einsum({1}, {0})",
    "polygamma": "torch.polygamma({1}, {0})",
    "special.polygamma": "torch.special.polygamma({1}, {0})",
    "nn.functional.embedding": "torch.nn.functional.embedding({1}, {0}{rest})",
    "nn.functional.embedding_bag": "torch.nn.functional.embedding_bag({1}, {0}{rest})",
}
"""Ops that PyTorch's tests call through a lambda, and what that lambda calls."""

_OPERATORS = {
    "__radd__": "{1} + {0}", "__rsub__": "{1} - {0}", "__rmul__": "{1} * {0}", "__rdiv__": "{1} / {0}",
    "__rmod__": "{1} % {0}", "__rpow__": "{1} ** {0}", "__rmatmul__": "{1} @ {0}", "__rand__": "{1} & {0}",
    "__ror__": "{1} | {0}", "__rxor__": "{1} ^ {0}", "__getitem__": "{0}[{1}]",
}  # fmt: skip

_ATTRIBUTES = {"T", "H", "mT", "mH"}


class NotWritable(Exception):
    """A sample holds what can't be written as source."""


@dataclass(frozen=True)
class Sample:
    """One sample: the module's source, the tensors that ``forward`` takes, and how the op itself is called."""

    key: str
    """``op:nn.functional.conv2d:3``, ``op-int64:add:0``, ``module:nn.Conv2d:0``, ``inplace:add:0``."""
    api: str
    source: str
    inputs: tuple[torch.Tensor, ...]
    differentiable: bool
    dtype: str
    direct: Callable[[], Any] | None = field(default=None, compare=False)
    """Calls the op as PyTorch's test does: the source must mean the same."""

    @property
    def package(self) -> str:
        """The name of its port's package."""
        return package_name(self.key)


def package_name(key: str) -> str:
    """The package of a sample's port."""
    return re.sub(r"\W+", "_", f"s_{key}")


@dataclass
class _Text:
    """Arguments as source; tensors become parameters ``x``, ``x1``, ..."""

    tensors: list[torch.Tensor] = field(default_factory=list)
    literal_tensors: bool = False

    def of(self, item: Any) -> str:
        """Source of one argument. Raises NotWritable."""
        if isinstance(item, torch.nn.Parameter | torch.Tensor):
            return self._tensor(item)
        if isinstance(item, torch.dtype | torch.memory_format | torch.layout):
            return str(item)
        if isinstance(item, torch.device):
            return f"torch.device({str(item)!r})"
        if isinstance(item, slice):
            return f"slice({self.of(item.start)}, {self.of(item.stop)}, {self.of(item.step)})"
        if isinstance(item, torch.Size):
            item = tuple(item)
        if type(item) in (tuple, list):
            inner = ", ".join(map(self.of, item))
            return f"[{inner}]" if isinstance(item, list) else f"({inner},)" if len(item) == 1 else f"({inner})"
        if type(item) is dict:
            return "{" + ", ".join(f"{k!r}: {self.of(v)}" for k, v in item.items()) + "}"
        if isinstance(item, float) and not math.isfinite(item):
            return f'float("{item}")'
        if item is None or item is Ellipsis or type(item) in (bool, int, float, complex, str):
            return "..." if item is Ellipsis else repr(item)
        raise NotWritable(f"an argument of type {type(item).__name__}")

    def call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
        return [*map(self.of, args), *(f"{k}={self.of(v)}" for k, v in kwargs.items())]

    def _tensor(self, tensor: torch.Tensor) -> str:
        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise NotWritable("a sparse tensor")
        if self.literal_tensors:
            return f"torch.tensor({tensor.tolist()!r}, dtype={tensor.dtype})"
        known = next((i for i, t in enumerate(self.tensors) if t is tensor), None)
        if known is None:
            known = len(self.tensors)
            self.tensors.append(tensor)
        return "x" if known == 0 else f"x{known}"

    def plain(self) -> tuple[torch.Tensor, ...]:
        """Contiguous copies without history; a conjugate or negative view is made real."""
        found = tuple(t.detach().resolve_conj().resolve_neg().clone().contiguous() for t in self.tensors)
        if sum(t.numel() for t in found) > LARGEST:
            raise NotWritable("inputs are large")
        return found


HEADER = "import torch\nfrom torch import nn\n\n\nclass Sample(nn.Module):\n"


def _forward(text: _Text, lines: Sequence[str], init: str = "") -> str:
    names = ["x" if i == 0 else f"x{i}" for i in range(len(text.tensors))]
    body = "".join(f"        {line}\n" for line in lines)
    return f"{HEADER}{init}    def forward({', '.join(['self', *names])}):\n{body}"


def spread(items: Sequence[Any], count: int) -> Iterator[tuple[int, Any]]:
    """``count`` items, evenly from the first to the last, with their places."""
    if len(items) <= count:
        yield from enumerate(items)
        return
    places = {round(i * (len(items) - 1) / max(count - 1, 1)) for i in range(count)}
    yield from ((i, items[i]) for i in sorted(places))


def op_dtype(op: Any) -> torch.dtype | None:
    """float32, or for an op that does not take it the first of a few others that it does."""
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64):
        if op.supports_dtype(dtype, "cpu"):
            return dtype
    return None


def op_name(op: Any) -> str:
    """The OpInfo's name with its variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def op_samples(op: Any, count: int) -> Iterator[Sample | tuple[str, str]]:
    """Samples of one OpInfo as functions, one as method and in place; ``(key, reason)`` where there is none."""
    name, dtype = op_name(op), op_dtype(op)
    if dtype is None:
        yield f"op:{name}:0", "takes none of the types tried"
        return
    torch.manual_seed(0)
    try:
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    except Exception as error:
        yield f"op:{name}:0", f"PyTorch makes no samples: {type(error).__name__}"
        return
    differentiable = bool(op.supports_autograd) and dtype is torch.float32
    for index, sample in spread(samples, count):
        yield _op_sample(op, f"op:{name}:{index}", sample, differentiable, dtype)
    yield from _other_styles(op, name, samples, differentiable, dtype)
    if dtype is torch.float32:
        yield from _other_types(op, name, count)


def _other_types(op: Any, name: str, count: int) -> Iterator[Sample | tuple[str, str]]:
    """The same op on integers and truth values: a few samples, no gradient."""
    for dtype in (torch.int64, torch.bool):
        if not op.supports_dtype(dtype, "cpu"):
            continue
        kind = f"op-{str(dtype).removeprefix('torch.')}"
        torch.manual_seed(0)
        try:
            samples = list(op.sample_inputs("cpu", dtype, requires_grad=False))
        except Exception as error:
            yield f"{kind}:{name}:0", f"PyTorch makes no samples: {type(error).__name__}"
            continue
        for index, sample in spread(samples, max(count // 2, 1)):
            yield _op_sample(op, f"{kind}:{name}:{index}", sample, False, dtype)


def _op_sample(op: Any, key: str, sample: Any, differentiable: bool, dtype: torch.dtype) -> Sample | tuple[str, str]:
    try:
        text = _Text()
        api, call = _call_text(op, text, (sample.input, *sample.args), sample.kwargs)
        source = _forward(text, [f"return {call}"])
        direct = partial(op.op, sample.input, *sample.args, **sample.kwargs)
        return Sample(key, api, source, text.plain(), differentiable, str(dtype), direct)
    except NotWritable as reason:
        return key, str(reason)


def _resolve(name: str) -> Any:
    item: Any = torch
    for part in name.split("."):
        item = getattr(item, part, None)
    return item


def _call_text(op: Any, text: _Text, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[str, str]:
    """The API and the call as a person writes it."""
    name = str(op.name)
    parts = text.call(args, kwargs)
    if name in _OTHER_ORDER:
        rest = "".join(f", {p}" for p in parts[2:])
        return f"torch.{name}", _OTHER_ORDER[name].format(*parts, rest=rest)
    if name in _OPERATORS:
        return f"torch.Tensor.{name}", _OPERATORS[name].format(*parts)
    if name in _ATTRIBUTES:
        return f"torch.Tensor.{name}", f"{parts[0]}.{name}"
    resolved = _resolve(name)
    lambda_ = getattr(op.op, "__name__", "") == "<lambda>"
    if name.endswith("_") or (hasattr(torch.Tensor, name) and (resolved is None or lambda_)):
        return f"torch.Tensor.{name}", f"{parts[0]}.{name}({', '.join(parts[1:])})"
    if resolved is not None and (resolved is op.op or lambda_):
        return f"torch.{name}", f"torch.{name}({', '.join(parts)})"
    raise NotWritable("no public function of this name")


def _other_styles(
    op: Any, name: str, samples: Sequence[Any], differentiable: bool, dtype: torch.dtype
) -> Iterator[Sample | tuple[str, str]]:
    """The last sample as ``x.op(...)`` and as ``y.op_(...)``."""
    short = str(op.name).rpartition(".")[2]
    if not samples or name in _OTHER_ORDER or short.startswith("_"):
        return
    sample = samples[-1]
    if not isinstance(sample.input, torch.Tensor):
        return
    if op.method_variant is not None and hasattr(torch.Tensor, short) and callable(getattr(torch.Tensor, short)):
        try:
            text = _Text()
            first, *parts = text.call((sample.input, *sample.args), sample.kwargs)
            source = _forward(text, [f"return {first}.{short}({', '.join(parts)})"])
            yield Sample(f"method:{name}:0", f"torch.Tensor.{short}", source, text.plain(), differentiable, str(dtype))
        except NotWritable as reason:
            yield f"method:{name}:0", str(reason)
    if op.inplace_variant is not None and hasattr(torch.Tensor, f"{short}_") and not sample.broadcasts_input:
        try:
            text = _Text()
            first, *parts = text.call((sample.input, *sample.args), sample.kwargs)
            lines = [f"y = {first}.clone()", f"y.{short}_({', '.join(parts)})", "return y"]
            api = f"torch.Tensor.{short}_"
            own = differentiable and bool(op.supports_inplace_autograd)
            yield Sample(f"inplace:{name}:0", api, _forward(text, lines), text.plain(), own, str(dtype))
        except NotWritable as reason:
            yield f"inplace:{name}:0", str(reason)


def module_samples(info: Any, count: int) -> Iterator[Sample | tuple[str, str]]:
    """Samples of one ModuleInfo in evaluation mode, and in training mode where that differs."""
    yield from _module_samples(info, count, "module", False)
    if info.train_and_eval_differ:
        yield from _module_samples(info, count, "module-train", True)


def _module_samples(info: Any, count: int, kind: str, training: bool) -> Iterator[Sample | tuple[str, str]]:
    torch.manual_seed(0)
    try:
        inputs = info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=False, training=training
        )
    except Exception as error:
        yield f"{kind}:{info.name}:0", f"PyTorch makes no samples: {type(error).__name__}"
        return
    for index, given in spread(list(inputs), count):
        key = f"{kind}:{info.name}:{index}"
        if given.forward_input is None:
            yield key, "no inputs for forward"
            continue
        try:
            made = _Text(literal_tensors=True)
            layer = ", ".join(made.call(given.constructor_input.args, given.constructor_input.kwargs))
            text = _Text()
            parts = text.call(given.forward_input.args, given.forward_input.kwargs)
            init = "    def __init__(self):\n        super().__init__()\n"
            init += f"        self.m = torch.{info.name}({layer})\n\n"
            source = _forward(text, [f"return self.m({', '.join(parts)})"], init)
            yield Sample(key, f"torch.{info.name}", source, text.plain(), True, "torch.float32")
        except NotWritable as reason:
            yield key, str(reason)
