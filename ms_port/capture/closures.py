"""Closures over plain values that live as globals of their module, and decorated functions: each is one of its own.

``to_2tuple = _ntuple(2)`` and ``to_3tuple = _ntuple(3)`` share the body of the function that ``_ntuple`` makes.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ms_port.capture.recording import Activation, FunctionRecord

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def global_name(function: types.FunctionType) -> str | None:
    """The global name of a function that a call made while its module was imported; None for any other function."""
    if "<locals>" not in function.__qualname__ or _held(function) is None:
        return None
    return next((name for name, value in function.__globals__.items() if value is function), None)


def by_closure(record: FunctionRecord) -> Iterator[tuple[str | None, Sequence[Activation]]]:
    """The runs of a function's body, apart for each global that holds it; None for those under no such name."""
    named = dict(_globals(record))
    found: dict[str | None, list[Activation]] = {}
    for activation in record.activations:
        found.setdefault(_name_of(activation, record, named), []).append(activation)
    yield from found.items() if found else [(None, record.activations)]


def _name_of(activation: Activation, record: FunctionRecord, named: Mapping[str, types.FunctionType]) -> str | None:
    """The global whose run this is: by the object that was called, else by what its closure held."""
    called = activation.call.callee if activation.call is not None else None
    if type(called) is types.FunctionType and called.__code__ is record.code:
        if isinstance(wrapped := getattr(called, "__wrapped__", None), types.FunctionType):
            return f"{wrapped.__name__}_{record.name}"  # one decorator's code around several functions
        return next((name for name, function in named.items() if function is called), None)
    return next((name for name, function in named.items() if _same(_held(function), activation.closure)), None)


def _globals(record: FunctionRecord) -> Iterator[tuple[str, types.FunctionType]]:
    """Globals that hold the body, and only plain values in their closures."""
    if record.function is None or "<locals>" not in record.qualname or record.name == "<lambda>":
        return
    for name, value in record.function.__globals__.items():
        if type(value) is types.FunctionType and value.__code__ is record.code and _held(value) is not None:
            yield name, value


def _held(function: types.FunctionType) -> Mapping[str, Any] | None:
    """The closure's values by name; None where one is not plain."""
    try:
        values = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:
        return None
    if not all(type(value) in _PLAIN for value in values):
        return None
    return dict(zip(function.__code__.co_freevars, values, strict=True))


def _same(left: Mapping[str, Any] | None, right: Mapping[str, Any]) -> bool:
    return (
        left is not None
        and left.keys() == right.keys()
        and all(type(value) is type(right[name]) and repr(value) == repr(right[name]) for name, value in left.items())
    )
