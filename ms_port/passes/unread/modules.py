"""The modules of a recorded model by path, and where a person finds each."""

from __future__ import annotations

from typing import Any

import torch

from ms_port.capture.abstract import is_torch_module
from ms_port.capture.class_source import class_loc
from ms_port.capture.recording import Recording
from ms_port.ir.flags import Place
from ms_port.passes.wrapped_methods import plain_function


class LiveModel:
    """The modules of a recorded model by path, and where a person finds each."""

    def __init__(self, recording: Recording) -> None:
        self.root = recording.model
        self.modules = dict(self.root.named_modules())
        self.scripted = {p for p, m in self.modules.items() if isinstance(m, torch.jit.ScriptModule)}

    def place(self, path: str) -> Place | None:
        """The class of the module, or of the nearest module around it that is not torch's own."""
        while True:
            module = self.modules.get(path)
            if module is not None and not is_torch_module(type(module).__module__):
                loc = class_loc(type(module))
                return loc if loc.line else None
            if not path:
                return None
            path = path.rpartition(".")[0]

    def name(self, path: str) -> str:
        """How a message names a module."""
        return f"`{path}`" if path else "the model itself"


def described(function: Any) -> str:
    """A callable by its name and place."""
    inner = getattr(function, "func", function)
    inner = getattr(inner, "__func__", inner)
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    code = getattr(inner, "__code__", None)
    return f"`{name}`, {code.co_filename}:{code.co_firstlineno}" if code is not None else f"`{name}`"


def function_place(member: Any) -> Place | None:
    """Where a method is written; None for what is no Python function."""
    function = plain_function(member)
    if function is None:
        return None
    return Place(function.__code__.co_filename, function.__code__.co_firstlineno)
