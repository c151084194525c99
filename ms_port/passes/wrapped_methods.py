"""Decorated methods of the model's classes: the wrapper that stands under the name, the method inside, their runs."""

from __future__ import annotations

import os
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ms_port.capture.abstract import canonical_class, is_torch_module
from ms_port.capture.recording import Activation, FunctionRecord, Recording


@dataclass(frozen=True, slots=True, eq=False)
class WrappedMethod:
    """A method and the wrapper that its decorators put in its place."""

    cls: type
    name: str
    outer: types.FunctionType
    inner: FunctionRecord
    wrappers: Sequence[Activation]
    """The runs of the wrapper, of this method's and of others' that the same decorator made."""

    @property
    def key(self) -> str:
        """The key of the method in the program."""
        return f"{self.cls.__module__}:{self.cls.__qualname__}.{self.name}"

    def runs(self) -> Iterator[tuple[Activation, Activation | None]]:
        """The runs of the wrapper, each with the method's run inside; None where it did not call the method."""
        for wrapper in self.wrappers:
            if _leads_to(wrapper, self.inner.function):  # else the decorator around a method that calls this one
                yield wrapper, _within(wrapper, self.inner)


def wrapped_methods(recording: Recording) -> Iterator[WrappedMethod]:
    """All methods of the model's classes whose decorator is not torch's own, class by class."""
    by_code = _activations(recording)
    classes = {c for m in recording.model.modules() for c in type(m).__mro__ if not is_torch_module(c.__module__)}
    for cls in sorted(classes, key=canonical_class):
        for name, member in cls.__dict__.items():
            outer = plain_function(member)
            if outer is None or outer.__code__.co_qualname == f"{cls.__qualname__}.{name}":
                continue
            if _is_torch_code(outer.__code__):
                continue
            inner = _record(recording, cls, name)
            code = outer.__code__
            if inner is not None and inner.code is not code:
                wrappers = [a for a in by_code.get(code, ()) if a.function.code is code or a.code is code]
                yield WrappedMethod(cls, name, outer, inner, wrappers)


def _activations(recording: Recording) -> Mapping[types.CodeType, list[Activation]]:
    found: dict[types.CodeType, list[Activation]] = {}
    for record in recording.functions:
        for activation in record.activations:
            if activation.mode != "init":
                found.setdefault(activation.code or record.code, []).append(activation)
    return found


_TORCH = os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), "")


def _is_torch_code(code: types.CodeType) -> bool:
    """Wrappers of torch (``no_grad``, ``autocast``) and of context managers pass arguments and results on."""
    return code.co_filename.startswith(_TORCH) or os.path.basename(code.co_filename) == "contextlib.py"


def _record(recording: Recording, cls: type, name: str) -> FunctionRecord | None:
    qualname = f"{cls.__qualname__}.{name}"
    for record in recording.functions:
        if record.qualname == qualname and record.function is not None and record.function.__module__ == cls.__module__:
            return record
    return None


def _leads_to(wrapper: Activation, method: types.FunctionType | None) -> bool:
    """Whether a run of a decorator's wrapper is one around the method, told by the functions that its closure holds."""
    pending = [v for v in wrapper.closure.values() if isinstance(v, types.FunctionType)]
    if not pending:
        return True
    seen: set[int] = set()
    while pending:
        function = pending.pop()
        if function is method:
            return True
        if id(function) in seen:
            continue
        seen.add(id(function))
        held = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        held.append(getattr(function, "__wrapped__", None))
        pending.extend(v for v in held if isinstance(v, types.FunctionType))
    return False


def _is_filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _within(wrapper: Activation, inner: FunctionRecord) -> Activation | None:
    """The run of the method inside a run of its wrapper, through further wrappers."""
    pending = list(reversed(wrapper.children))
    while pending:
        activation = pending.pop()
        if activation.function is inner:
            return activation
        if activation.self is None or activation.self is wrapper.self or wrapper.self is None:
            pending.extend(reversed(activation.children))
    return None


def plain_function(member: Any) -> types.FunctionType | None:
    """The function of a method, property, static or class method; None for anything else."""
    if isinstance(member, property):
        member = member.fget
    member = getattr(member, "__func__", member)
    return member if isinstance(member, types.FunctionType) else None
