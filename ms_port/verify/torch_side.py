"""Run a torch model in float32 and in float64 and keep what each of its modules gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ms_port.errors import one_line
from ms_port.verify.double import double_precision
from ms_port.verify.draws import Draws
from ms_port.verify.judge import Array, Truth, make_truth
from ms_port.verify.ties import StableSorts

CallKey = tuple[str, int]
"""Dotted path of a module and the number of its call, from 0."""


class NotDifferentiable(Exception):
    """Torch itself can't differentiate the model; nothing else is called so."""


def differentiate(value: Tensor, by: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    """``torch.autograd.grad``, None where no gradient reaches. Raises NotDifferentiable."""
    try:
        return torch.autograd.grad(value, by, allow_unused=True)
    except RuntimeError as error:
        raise NotDifferentiable(f"torch can't differentiate the model here: {one_line(error)}") from error


def tensors(value: Any) -> list[Tensor]:
    """All tensors in a nesting of tuples, lists, dicts, dataclasses and ModelOutputs, in field order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Mapping):
        return [t for item in value.values() for t in tensors(item)]
    if isinstance(value, (tuple, list)):
        return [t for item in value for t in tensors(item)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [t for f in dataclasses.fields(value) for t in tensors(getattr(value, f.name))]
    return []


@dataclass
class Record:
    """What one run of the model gave. ``values`` holds float32, int64 or float64 arrays, or truths of them."""

    order: list[CallKey] = field(default_factory=list)
    """Calls in the order in which they ended: children before their parents."""
    began: list[str] = field(default_factory=list)
    """Recorded modules in the order in which they were first called: parents before their children."""
    values: dict[CallKey, list[Any]] = field(default_factory=dict)
    arguments: dict[CallKey, list[Any]] = field(default_factory=dict)
    outputs: list[Tensor] = field(default_factory=list)
    buffers: dict[str, Array] = field(default_factory=dict)
    """Float buffers after the run."""
    single: set[str] = field(default_factory=set)
    """Ops that had no float64 kernel."""
    draws: Draws = field(default_factory=Draws)
    """The random numbers that the model was given."""
    random: bool = False
    """It drew others too, which can't be replayed."""


@contextmanager
def state_of(model: nn.Module, state: Mapping[str, Tensor] | None = None, double: bool = False) -> Iterator[None]:
    """Give the model other values for a while; afterwards it is as it was, with its own tensors.

    Args:
        state: values by name; what is not named keeps its value (as a copy, so that nothing written stays).
        double: all floating-point parameters, buffers and plain tensor attributes as float64.
    """
    owned = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    stray = plain_tensors(model) if double else []
    saved = {name: t.data for name, t in owned.items()}
    flags = {module: module.training for module in model.modules()}
    try:
        for name, tensor in owned.items():
            value = (state or {}).get(name, tensor.data)
            wider = double and value.is_floating_point()
            tensor.data = value.detach().to(torch.float64 if wider else value.dtype, copy=True)
        for module, name, tensor in stray:
            object.__setattr__(module, name, tensor.double())
        yield
    finally:
        for name, tensor in owned.items():
            tensor.data = saved[name]
        for module, name, tensor in stray:
            object.__setattr__(module, name, tensor)
        for module, training in flags.items():
            module.training = training


def run(
    model: nn.Module,
    call: Callable[[nn.Module, bool], Any],
    paths: Iterable[str],
    *,
    train: bool,
    double: bool = False,
    single: Record | None = None,
    stride: int = 1,
    inputs_of: Sequence[str] = (),
    gradient: bool = False,
    watch: Callable[[nn.Module], AbstractContextManager[None]] | None = None,
) -> Record:
    """Run the model once and record the modules at ``paths``.

    Args:
        call: calls the model with the inputs (second argument: in float64).
        single: the float32 record. Given, the values of the new record are truths, made from both; the float32 arrays
            are taken out of ``single`` as they are used up.
        stride: keep every so-manieth element of each flattened tensor.
        inputs_of: modules whose arguments are recorded too.
        watch: entered around the run, inside all that this function does to it.
    """
    record = Record()
    modules = dict(model.named_modules())
    model.train(train)
    before = torch.get_rng_state()
    with ExitStack() as stack:
        stack.enter_context(torch.set_grad_enabled(gradient))
        keep = _Keeper(record, single, stride)
        for path in dict.fromkeys(paths):
            if path in modules:
                handle = modules[path].register_forward_hook(partial(keep.output, path), with_kwargs=True)
                stack.callback(handle.remove)
                handle = modules[path].register_forward_pre_hook(partial(keep.began, path))
                stack.callback(handle.remove)
        for path in dict.fromkeys(inputs_of):
            handle = modules[path].register_forward_pre_hook(partial(keep.arguments, path), with_kwargs=True)
            stack.callback(handle.remove)
        mode = stack.enter_context(double_precision()) if double else None
        stack.enter_context(StableSorts())
        stack.enter_context(record.draws.replaying(model))
        if watch is not None:
            stack.enter_context(watch(model))
        record.outputs = tensors(call(model, double))
    record.random = not torch.equal(before, torch.get_rng_state())
    torch.set_rng_state(before)
    record.single = mode.single if mode else set()
    record.buffers = {k: t.detach().numpy().copy() for k, t in model.named_buffers() if t.is_floating_point()}
    return record


def plain_tensors(model: nn.Module) -> list[tuple[nn.Module, str, Tensor]]:
    """Float tensors that modules hold as plain attributes: (module, attribute, tensor)."""
    return [
        (module, name, value)
        for module in model.modules()
        for name, value in vars(module).items()
        if isinstance(value, Tensor) and value.is_floating_point()
    ]


class _Keeper:
    """Forward hooks that put snapshots into a record; what a parent hands on from its child is kept once."""

    def __init__(self, record: Record, single: Record | None, stride: int) -> None:
        self.record, self.single, self.stride = record, single, stride
        self.last: tuple[Tensor, int, Any] | None = None
        self.counts: dict[str, int] = {}
        self.started: dict[str, int] = {}

    def began(self, path: str, module: nn.Module, args: Any) -> None:
        if path not in self.counts and path not in self.record.began:
            self.record.began.append(path)

    def output(self, path: str, module: nn.Module, args: Any, kwargs: Any, out: Any) -> None:
        key = path, self.counts.get(path, 0)
        self.counts[path] = key[1] + 1
        near = self.single.values.pop(key, None) if self.single else None
        self.record.values[key] = self._kept(tensors(out), near)
        self.record.order.append(key)

    def arguments(self, path: str, module: nn.Module, args: Any, kwargs: Any) -> None:
        key = path, self.started.get(path, 0)
        self.started[path] = key[1] + 1
        near = self.single.arguments.pop(key, None) if self.single else None
        self.record.arguments[key] = self._kept(tensors((args, kwargs)), near)

    def _kept(self, found: list[Tensor], near: list[Any] | None) -> list[Any]:
        if near is None:
            return [self._snapshot(tensor, None) for tensor in found]
        return [self._snapshot(tensor, n) for tensor, n in zip(found, near, strict=True)]

    def _snapshot(self, tensor: Tensor, near: Array | None) -> Any:
        version = tensor._version
        if self.last and self.last[0] is tensor and self.last[1] == version:
            return self.last[2]
        kept: Any = as_array(tensor, self.stride)
        if self.single is not None and near is not None:
            kept = small_truth(kept, near)
        self.last = tensor, version, kept
        return kept


def as_array(tensor: Tensor, stride: int = 1) -> Array:
    """A copy as float32, float64 or int64 (integers and booleans); complex numbers get an axis of two."""
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if stride > 1:
        tensor = tensor.reshape(-1)[::stride]
    kinds = {torch.float64: torch.float64}
    kind = kinds.get(tensor.dtype, torch.float32 if tensor.is_floating_point() else torch.int64)
    array: Array = tensor.to(kind, copy=True).numpy()
    return array


def small_truth(double: Array, single: Array) -> Truth:
    """The truth of an inner tensor, kept in float32: the half ulp lost is small beside the 16 ulp allowed."""
    truth = make_truth(double, single)
    if truth.exact:
        return truth
    with np.errstate(over="ignore"):
        return dataclasses.replace(truth, values=double.astype(np.float32))
