"""Canonical names of torch functions: the name under which a user would look an API up."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import resolve_name

_ALIASES = (
    ("torch.functional.", "torch."),
    ("torch._C._nn.", "torch.nn.functional."),
    ("torch._C._linalg.", "torch.linalg."),
    ("torch._C._fft.", "torch.fft."),
    ("torch._C._special.", "torch.special."),
    ("torch._C.TensorBase.", "torch.Tensor."),
    ("torch._C._TensorBase.", "torch.Tensor."),
    ("torch._C._VariableFunctions.", "torch."),
    ("torch._tensor.Tensor.", "torch.Tensor."),
)


_HOLDERS = ((torch, "torch"), (torch.nn.functional, "torch.nn.functional"), (torch.linalg, "torch.linalg"))


@functools.cache
def canonical_name(func: Callable[..., Any]) -> str:
    """``torch.cat``, ``torch.Tensor.view``, ``torch.nn.functional.gelu``, ``torchvision.ops.nms`` ...

    A property read is named as the property (``torch.Tensor.T``), a property write ends in ``.__set__``.
    """
    registered = isinstance(func, (torch._ops.OpOverload, torch._ops.OpOverloadPacket))
    name = (None if registered else resolve_name(func)) or _fallback(func)
    for old, new in _ALIASES:
        if name.startswith(old):
            name = new + name[len(old) :]
            break
    if getattr(func, "__module__", "") == "torch.functional" and getattr(torch, func.__name__, None) is func:
        name = f"torch.{func.__name__}"  # somebody may have put it beside the functions of torch.nn.functional
    return name.removesuffix(".__get__")


def _fallback(func: Callable[..., Any]) -> str:
    """Where torch has no name of its own: a registered operator, a factory function, an undocumented built-in."""
    if isinstance(func, torch._ops.OpOverload):
        func = func.overloadpacket
    if isinstance(func, torch._ops.OpOverloadPacket):
        namespace, _, op = func._qualified_op_name.partition("::")
        if namespace == "torchvision":
            return f"torchvision.ops.{op}"
        return f"torch.{op}" if namespace == "aten" and hasattr(torch, op) else f"torch.ops.{namespace}.{op}"
    name = getattr(func, "__name__", None) or type(func).__name__
    owner = getattr(func, "__self__", None)
    if name == "__get__" or name == "__set__":
        return f"torch.Tensor.{getattr(owner, '__name__', '?')}.{name}"
    for holder, prefix in _HOLDERS:
        if getattr(holder, name, None) is func:
            return f"{prefix}.{name}"
    if isinstance(owner, type) and owner.__name__ == "_VariableFunctionsClass":
        return f"torch.{name}"
    module = getattr(func, "__module__", None) or getattr(getattr(func, "__objclass__", None), "__module__", "")
    return f"{module}.{getattr(func, '__qualname__', name)}" if module else name
