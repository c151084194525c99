"""Finds the function objects that hold given code objects."""

from __future__ import annotations

import functools
import gc
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

Found = dict[int, list[types.FunctionType]]
"""Functions by the id of their code object."""


def functions_in(
    namespaces: Iterable[Mapping[str, Any]], codes: Mapping[int, types.CodeType]
) -> tuple[Found, list[Callable[[], None]]]:
    """Functions that hold one of the codes, among those of module namespaces and of the classes in them.

    Looks through decorators (``__wrapped__``, closures), partials, properties, static and class methods. Also returns
    what empties the ``lru_cache`` of such functions.
    """
    found: Found = {}
    clear: list[Callable[[], None]] = []
    seen: set[int] = set()
    for namespace in namespaces:
        for item in list(namespace.values()):
            for holder in _holders(item, seen):
                function = holder.__wrapped__ if type(holder) is LRU else holder
                if id(getattr(function, "__code__", None)) not in codes:
                    continue
                if function is holder:
                    found.setdefault(id(function.__code__), []).append(function)
                else:
                    clear.append(holder.cache_clear)
    return found, clear


def functions_anywhere(codes: Mapping[int, types.CodeType]) -> Found:
    """All live function objects that hold one of the codes: one pass over the garbage collector's objects."""
    found: Found = {}
    function = types.FunctionType
    if not codes:
        return found
    # get_referrers is twice as fast as a loop over all objects, while it has few targets to compare with.
    few = len(codes) <= 16
    for item in gc.get_referrers(*codes.values()) if few else gc.get_objects():
        if type(item) is function and id(item.__code__) in codes:
            found.setdefault(id(item.__code__), []).append(item)
    return found


LRU = type(functools.lru_cache(lambda: None))
"""The type of what ``functools.lru_cache`` makes of a function."""
_FIELDS: dict[type, tuple[str, ...]] = {
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    types.MethodType: ("__func__",),
    property: ("fget", "fset", "fdel"),
    functools.cached_property: ("func",),
    functools.partial: ("func",),
}


def _holders(item: Any, seen: set[int]) -> Iterator[Any]:
    """The functions and caches in a namespace's value, by exact type: a user's object must not be asked anything."""
    kind = type(item)
    if id(item) in seen:
        return
    inner: Iterable[Any]
    if kind is types.FunctionType:
        seen.add(id(item))
        yield item
        inner = [cell.cell_contents for cell in item.__closure__ or () if _filled(cell)]
        inner.append(item.__dict__.get("__wrapped__"))
    elif kind is LRU:
        seen.add(id(item))
        yield item
        inner = [item.__dict__.get("__wrapped__")]
    elif kind in _FIELDS:
        inner = [getattr(item, name) for name in _FIELDS[kind]]
    elif issubclass(kind, type):
        seen.add(id(item))
        inner = list(type.__getattribute__(item, "__dict__").values())
    else:
        return
    for part in inner:
        yield from _holders(part, seen)


def _filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
