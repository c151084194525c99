"""Builds the model by its factory and notes the constructor arguments of every module."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from ms_port.capture.errors import CaptureError
from ms_port.capture.inputs import Inputs, map_tensors
from ms_port.capture.recorder import Recorder, snapshot
from ms_port.capture.recording import ModuleArguments
from ms_port.capture.user_code import UserCode


def build(factory: Callable[..., Any], arguments: Mapping[str, Any], user: UserCode) -> nn.Module:
    """Call the factory. Raises CaptureError where it raises or returns no module."""
    name = getattr(factory, "__qualname__", None) or repr(factory)
    function = factory.__dict__.get("__init__") if isinstance(factory, type) else factory
    code = getattr(function, "__code__", None)
    own_file, own_line = (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)
    try:
        model = factory(**arguments)
    except Exception as error:
        file, line = user.raised_at(error)
        if not file:
            file, line = own_file, own_line
        message = f"{name} raised {type(error).__name__}: {error}"
        raise CaptureError(message, file, line, _advice(factory, name)) from error
    if not isinstance(model, nn.Module):
        kind = type(model).__name__
        advice = "name a class, a factory or an instance of torch.nn.Module"
        raise CaptureError(f"{name} returned {kind}, not a torch.nn.Module", own_file, own_line, advice)
    return model


def _advice(factory: Callable[..., Any], name: str) -> str:
    """What to do where the factory raised: its arguments, and how they are given."""
    try:
        taken = ", ".join(str(p.replace(annotation=p.empty)) for p in inspect.signature(factory).parameters.values())
    except (TypeError, ValueError):
        return f"call {name} yourself with the same arguments"
    return f"{name} takes ({taken}): give one with --arg NAME=VALUE, and call it yourself with the same arguments"


def unwrapped(model: nn.Module) -> nn.Module:
    """The user's model inside ``torch.compile`` and data-parallel wrappers."""
    while True:
        inner = model.__dict__.get("_modules", {}).get("_orig_mod")
        if inner is None and isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            inner = model.module
        if inner is None:
            return model
        model = inner


def materialized(model: nn.Module, inputs: Inputs, built: bool) -> nn.Module:
    """Give lazy layers their parameters, by one run on the real inputs; an instance must come with them."""
    if not any(is_lazy(item) for item in (*model.parameters(), *model.buffers())):
        return model
    if not built:
        raise CaptureError(
            f"{type(model).__name__} has lazy layers without parameters",
            advice="run the model once on an example before it is converted",
        )
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            model(*map_tensors(torch.clone, inputs.args), **map_tensors(torch.clone, inputs.kwargs))
    finally:
        for module, flag in training.items():
            module.training = flag
    return model


class ConstructorArguments:
    """While active, ``nn.Module.__init__`` looks up the outermost ``__init__`` frame of the module being made."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.found: dict[int, ModuleArguments] = {}
        """Arguments by id of the module."""
        self.modules: list[nn.Module] = []
        """All modules that were made; they must stay alive for the ids' sake."""

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Wrap ``nn.Module.__init__`` inside the block. (``__new__`` must never be set: that can't be undone.)"""
        original = nn.Module.__dict__["__init__"]
        note = self._note

        def __init__(self: nn.Module, *args: Any, **kwargs: Any) -> None:
            note(self, sys._getframe(1))
            original(self, *args, **kwargs)

        try:
            nn.Module.__init__ = __init__  # type: ignore[method-assign]
            yield
        finally:
            nn.Module.__init__ = original  # type: ignore[method-assign]

    def _note(self, module: nn.Module, frame: types.FrameType | None) -> None:
        if id(module) in self.found:
            return
        outermost: types.FrameType | None = None
        while frame is not None and frame.f_code is not _BUILD:
            code = frame.f_code
            if code.co_name == "__init__" and code.co_argcount and _first(frame) is module:
                outermost = frame
            frame = frame.f_back
        arguments = self._on_entry(module, outermost) if outermost is not None else {}
        self.modules.append(module)
        self.found[id(module)] = ModuleArguments(type(module), arguments)

    def _on_entry(self, module: nn.Module, frame: types.FrameType) -> dict[str, Any]:
        """Arguments of an ``__init__`` frame: as they came in where it is instrumented, else as they are bound now."""
        code = frame.f_code
        for activation in self._recorder.stack:
            if activation.self is module and activation.function.name == "__init__":
                original = activation.function.code
                if (original.co_filename, original.co_firstlineno) == (code.co_filename, code.co_firstlineno):
                    items = list(activation.arguments.items())
                    return {name: snapshot(value) for name, value in items[1:]}
                break
        count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
        values = frame.f_locals
        return {name: snapshot(values[name]) for name in code.co_varnames[1:count] if name in values}


def _first(frame: types.FrameType) -> Any:
    return frame.f_locals.get(frame.f_code.co_varnames[0])


_BUILD = build.__code__


@contextmanager
def written_functions(target: object) -> Iterator[None]:
    """Inside the block ``torch.jit.script`` and ``torch.compile`` give back what they are given, and the scripted
    functions of all loaded modules, and of the target's own (it may be loaded under no name), are the Python functions
    that they were made of: those have a source."""
    held: list[tuple[dict[str, Any], str, Any]] = []
    namespaces = [getattr(module, "__dict__", None) for module in list(sys.modules.values())]
    known = set(map(id, namespaces))
    for namespace in (*namespaces, *(own for own in _namespaces_of(target) if id(own) not in known)):
        if type(namespace) is not dict or str(namespace.get("__name__", "")).partition(".")[0] == "torch":
            continue
        for name, value in list(namespace.items()):
            written = getattr(value, "_torchdynamo_inline", None) if type(value) is torch.jit.ScriptFunction else None
            if written is not None:
                held.append((namespace, name, value))
                namespace[name] = written
    held += [(torch.jit.__dict__, "script", torch.jit.script), (torch.__dict__, "compile", torch.compile)]
    torch.jit.script = torch.compile = as_written  # type: ignore[assignment]
    try:
        yield
    finally:
        for namespace, name, value in held:
            namespace[name] = value


def _namespaces_of(target: object) -> list[dict[str, Any]]:
    """The globals of the functions that a class, a factory or an instance consists of."""
    classes = target.__mro__ if isinstance(target, type) else type(target).__mro__
    functions = [target, *(value for cls in classes for value in vars(cls).values())]
    found = {id(f.__globals__): f.__globals__ for f in functions if isinstance(f, types.FunctionType)}
    return list(found.values())


def as_written(given: Any = None, *args: Any, **options: Any) -> Any:
    """Stands for ``torch.jit.script`` and ``torch.compile``, as a call and as a decorator with options."""
    given = options.get("obj", options.get("model", given))
    return given if given is not None else lambda function: function
