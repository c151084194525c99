"""The hooks that instrumented code calls, and the activations that they build."""

from __future__ import annotations

import sys
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from operator import is_
from typing import Any, cast

from torch import nn

from ms_port.capture.functions import LRU
from ms_port.capture.recording import Activation, CallRecord, FunctionRecord, Mode
from ms_port.capture.rewrite import HOOKS

_MODULE_KEYS = frozenset(nn.Module().__dict__)
_REGISTRIES = ("_modules", "_parameters", "_buffers")
_INTERNAL = _MODULE_KEYS - {"training"}
_SIZED = (list, dict, set)
_MODULE_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)
_SNAPSHOTS: dict[type, Callable[[Any], Any]] = {
    list: list,
    dict: dict,
    set: set,
    OrderedDict: OrderedDict,
    defaultdict: dict,
}


def snapshot(value: Any) -> Any:
    """A shallow copy of a list, dict or set (which may change later); any other value itself."""
    copy = _SNAPSHOTS.get(type(value))
    return value if copy is None else copy(value)


class Recorder:
    """State shared by the hooks of all instrumented functions: the stack of running activations."""

    def __init__(self) -> None:
        self.stack: list[Activation] = []
        self.functions: list[FunctionRecord] = []
        self.roots: list[Activation] = []
        """Activations entered from outside of user code, in order."""
        self.mode: Mode = "init"
        self.enabled = True
        self.clock = 0
        """Number of torch calls recorded so far (kept by the torch mode)."""
        self.made: list[tuple[types.FunctionType, types.CodeType]] = []
        """Functions made by instrumented code, with the original code that they must get back."""

    def announce(self, record: FunctionRecord) -> dict[str, Callable[..., Any]]:
        """Register a function record; returns its hooks by name."""
        self.functions.append(record)
        reporter = _Reporter(self, record)
        return {name: getattr(reporter, name) for name in HOOKS}

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing inside the block."""
        self.enabled = False
        try:
            yield
        finally:
            self.enabled = True

    def forget(self, modes: Collection[Mode]) -> None:
        """Drop all activations of these modes."""
        self.stack.clear()
        self.roots[:] = [item for item in self.roots if item.mode not in modes]
        for record in self.functions:
            record.activations[:] = [item for item in record.activations if item.mode not in modes]

    def marked(self) -> tuple[int, list[int]]:
        """How much was recorded so far."""
        return len(self.roots), [len(record.activations) for record in self.functions]

    def rewind(self, mark: tuple[int, list[int]]) -> None:
        """Drop all activations since the mark."""
        roots, counts = mark
        self.stack.clear()
        del self.roots[roots:]
        for index, record in enumerate(self.functions):
            del record.activations[counts[index] if index < len(counts) else 0 :]

    def restore_made(self) -> None:
        """Functions that were made while recording and live on get their original code."""
        for function, code in self.made:
            function.__code__ = code
        self.made.clear()


class _Reporter:
    """The hooks of one function record.

    A hook that fires while another function's activation is on top (a generator expression that is consumed
    elsewhere, a leftover closure) records nothing and passes its value through.
    """

    __slots__ = ("free", "is_method", "positional", "record", "recorder", "stack", "variadic")

    def __init__(self, recorder: Recorder, record: FunctionRecord) -> None:
        code = record.code
        self.recorder = recorder
        self.record = record
        self.stack = recorder.stack
        self.free = frozenset(code.co_freevars)
        self.positional = code.co_varnames[0] if code.co_argcount else None
        has_variadic = code.co_flags & 4
        self.variadic = code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if has_variadic else None
        self.is_method = self.positional in ("self", "cls")

    # ---- functions

    def enter(self) -> None:
        """A function begins; reads its arguments from the calling frame."""
        recorder, stack = self.recorder, self.stack
        arguments: dict[str, Any] = {}
        closure: dict[str, Any] = {}
        for name, value in sys._getframe(1).f_locals.items():
            (closure if name in self.free else arguments)[name] = snapshot(value)
        owner = arguments.get(self.positional) if self.positional is not None else None
        if self.positional is None and self.variadic is not None and arguments[self.variadic]:
            owner = arguments[self.variadic][0]
        is_module = issubclass(type(owner), nn.Module)  # isinstance would ask the object's own __getattribute__
        if not self.is_method and not is_module:
            owner = None
        parent = stack[-1] if stack else None
        call = parent.current if parent is not None else None
        activation = Activation(self.record, recorder.mode, owner, arguments, closure, parent, call)
        activation.code = self.record.code
        activation.raised = True  # until a result arrives
        stack.append(activation)
        if not recorder.enabled:
            return
        self.record.activations.append(activation)
        if parent is None:
            recorder.roots.append(activation)
        else:
            parent.children.append(activation)
            if call is not None:
                call.children.append(activation)
        if recorder.mode == "init" and is_module:
            activation.registries = _registries(cast(nn.Module, owner))

    def leave(self) -> None:
        """A function ends, by return or by exception."""
        stack = self.stack
        while stack:
            activation = stack.pop()
            if activation.registries is not None:
                _note_effects(activation)
            if activation.function is self.record:
                break

    def result(self, value: Any) -> Any:
        """The value that a function returns."""
        activation = self.stack[-1] if self.stack else None
        if activation is not None and activation.function is self.record:
            activation.result = value
            activation.raised = False
        return value

    def lambda_result(self, entered: None, value: Any, /) -> Any:
        """The value of a lambda, which ends here (one that raises is removed by the next statement around it)."""
        self.result(value)
        self.leave()
        return value

    def made(self, function: types.FunctionType, /) -> types.FunctionType:
        """Instrumented code made this function; it must not keep its instrumented code for ever."""
        self.recorder.made.append((function, self.record.code))
        return function

    # ---- what runs inside

    def statement(self, nid: int, /) -> None:
        """A statement begins."""
        stack = self.stack
        while stack and stack[-1].function is not self.record and stack[-1].function.code.co_name == "<lambda>":
            stack.pop()  # it raised, and the exception was caught here
        if not stack or stack[-1].function is not self.record:
            return
        activation = stack[-1]
        if activation.registries is not None:
            _note_effects(activation)
            activation.last_statement = nid
        activation.statements.add(nid)
        activation.times.setdefault(nid, []).append(self.recorder.clock)

    def value(self, nid: int, value: Any, /) -> Any:
        """An expression has this value."""
        stack = self.stack
        if stack and (activation := stack[-1]).function is self.record:
            copy = _SNAPSHOTS.get(type(value))
            kept = value if copy is None else copy(value)
            values = activation.values
            if nid in values:
                values[nid].append(kept)
            else:
                values[nid] = [kept]
        return value

    def call(self, nid: int, callee: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Make a call and record it; activations that begin inside belong to it."""
        stack = self.stack
        if not stack or (activation := stack[-1]).function is not self.record:
            return callee(*args, **kwargs)
        recorder = self.recorder
        if type(callee) is LRU and recorder.mode != "init":
            callee = callee.__wrapped__  # a hit would hide what the port has to compute
        record = CallRecord(
            nid,
            callee,
            tuple([snapshot(item) for item in args]),
            {name: snapshot(item) for name, item in kwargs.items()},
            recorder.clock,
        )
        activation.calls.setdefault(nid, []).append(record)
        around, activation.current = activation.current, record
        record.raised = True
        try:
            result = callee(*args, **kwargs)
            record.raised = False
        finally:
            activation.current = around
            record.stop = recorder.clock
        kept = record.result = snapshot(result)
        activation.values.setdefault(nid, []).append(kept)
        return result


def _registries(module: nn.Module) -> tuple[dict[str, Any], ...]:
    """Shallow copies of what a module holds by name, and last the sizes of the containers among that."""
    own = object.__getattribute__(module, "__dict__")
    registries = [dict(own[name]) if name in own else {} for name in _REGISTRIES]
    sizes = {name: len(value) for name, value in own.items() if type(value) in _SIZED}
    for name, child in registries[0].items():
        if isinstance(child, _MODULE_CONTAINERS):
            sizes[name] = len(child._modules) + len(child._parameters)
    return (dict(own), *registries, sizes)


def _note_effects(activation: Activation) -> None:
    """Attribute what changed in self's registries since the last look to the statement that ran."""
    before, after = activation.registries, _registries(activation.self)
    activation.registries = after
    if before is None or activation.last_statement is None:
        return
    names: set[str] = set()
    for old, new in zip(before[:-1], after[:-1], strict=True):
        if len(old) == len(new) and all(map(is_, old, new)) and all(map(is_, old.values(), new.values())):
            continue
        names.update(name for name, value in new.items() if name not in old or old[name] is not value)
        names.update(name for name in old if name not in new)
    if before[-1] != after[-1]:
        names.update(name for name, size in after[-1].items() if before[-1].get(name) != size)
    if "_modules" not in before[0]:
        names -= _MODULE_KEYS
    if names:
        activation.effects.setdefault(activation.last_statement, set()).update(names - _INTERNAL)
