"""Which method stands for a class's forward: ``self.forward = self.forward_fast`` in a constructor, or ``__call__``."""

from __future__ import annotations

import types
from collections.abc import Iterable

from torch import nn


def chosen_method(module: nn.Module) -> types.FunctionType | None:
    """The method of its own class that a module holds as its ``forward``; None where it holds none."""
    if _has_no_forward(type(module)) and (call := own_call(type(module))) is not None:
        return call
    held = module.__dict__.get("forward")
    if not isinstance(held, types.MethodType) or held.__self__ is not module:
        return None
    function = held.__func__
    if not isinstance(function, types.FunctionType):
        return None
    own = any(member is function for cls in type(module).__mro__ for member in cls.__dict__.values())
    return function if own and function.__name__ != "forward" else None


def own_call(cls: type) -> types.FunctionType | None:
    """The ``__call__`` that a class of the person's puts before torch's; None where it has torch's."""
    call = next((c.__dict__["__call__"] for c in cls.__mro__ if "__call__" in c.__dict__), None)
    is_own = isinstance(call, types.FunctionType) and not (call.__module__ or "").startswith("torch.")
    return call if is_own else None


def chosen_forwards(modules: Iterable[nn.Module]) -> dict[type, types.FunctionType]:
    """Class without a forward -> the method that stands for it in every one of its instances."""
    found: dict[type, set[types.FunctionType | None]] = {}
    for module in modules:
        found.setdefault(type(module), set()).add(chosen_method(module))
    return {
        cls: function
        for cls, functions in found.items()
        if len(functions) == 1 and (function := next(iter(functions))) is not None and _has_no_forward(cls)
    }


def _has_no_forward(cls: type) -> bool:
    return getattr(cls, "forward", None) is nn.Module.forward
