"""What a name that never ran refers to, told by name alone: globals, closures, builtins, attributes."""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from ms_port.capture.recording import FunctionRecord
from ms_port.ir.values import Value

_MISSING = object()


def resolve_statics(
    record: FunctionRecord, evaluated: Collection[int], abstract: Callable[[Any], Value]
) -> dict[int, Value]:
    """Values of the dotted names that were never evaluated and stand for a class, a function or a package."""
    scope = _scope(record)
    local = set(record.code.co_varnames)
    found: dict[int, Value] = {}
    arguments = record.tree.args
    defaults = {id(n) for d in [*arguments.defaults, *arguments.kw_defaults] if d is not None for n in ast.walk(d)}
    for node in ast.walk(record.tree):
        if not isinstance(node, ast.Name | ast.Attribute) or node.nid in evaluated:  # type: ignore[union-attr]
            continue
        value = _resolve(node, scope, set() if id(node) in defaults else local)
        if isinstance(value, type | types.ModuleType) or callable(value) or _is_plain(value):
            found[node.nid] = abstract(value)  # type: ignore[union-attr]
    return found


def _is_plain(value: Any) -> bool:
    return type(value) in (bool, int, float, str, tuple) or type(value).__module__ == "torch"


def _scope(record: FunctionRecord) -> dict[str, Any]:
    outer: FunctionRecord = record
    while outer.function is None and outer.outer is not None:
        outer = outer.outer
    scope: dict[str, Any] = dict(vars(builtins))
    function = outer.function
    if function is not None:
        scope.update(function.__globals__)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
            try:
                scope[name] = cell.cell_contents
            except ValueError:
                continue
    return scope


def _resolve(node: ast.expr, scope: dict[str, Any], local: set[str]) -> Any:
    if isinstance(node, ast.Name):
        return _MISSING if node.id in local else scope.get(node.id, _MISSING)
    if isinstance(node, ast.Attribute):
        base = _resolve(node.value, scope, local)
        if isinstance(base, type | types.ModuleType):
            with suppress(Exception):  # a module may look its names up when they are asked for: torch.classes
                return getattr(base, node.attr, _MISSING)
    return _MISSING
