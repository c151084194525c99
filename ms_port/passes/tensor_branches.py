"""Branches on a tensor's truth of which both ways were seen: whether GRAPH_MODE can compile them as they are.

Both ways must leave every name that is read later, and every result, with one shape and type.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ms_port.ir.program import FunctionDef
from ms_port.ir.tree import names_stored, nid
from ms_port.ir.values import SequenceValue, TensorValue, Value

_PLAIN = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return | ast.Break | ast.Continue | ast.Pass | ast.If


def is_compilable(function: FunctionDef, statement: ast.If | ast.While) -> bool:
    """Whether the statement can stay a branch of the graph."""
    inside = [n for part in (*statement.body, *statement.orelse) for n in ast.walk(part)]
    if not all(isinstance(n, _PLAIN) for n in inside if isinstance(n, ast.stmt)):
        return False
    stores = [n for n in inside if isinstance(n, ast.Attribute | ast.Subscript) and isinstance(n.ctx, ast.Store)]
    if any(isinstance(n, ast.Attribute) for n in stores):
        return False
    after = (statement.end_lineno or statement.lineno) + 1
    stored = names_stored(statement)
    known = _known_before(function, statement)
    for name in stored:
        later = [n for n in _loads(function, name) if n.lineno >= after]
        if later and (name not in known or not _one_kind(function, later)):
            return False
    if any(isinstance(n, ast.Return) for n in inside):
        returns = [n.value for s in function.body for n in ast.walk(s) if isinstance(n, ast.Return)]
        return None not in returns and _one_kind(function, [r for r in returns if r is not None])
    return True


def _known_before(function: FunctionDef, statement: ast.stmt) -> set[str]:
    """Names bound before the statement, or on both of its sides."""
    args = function.node.args
    known = {a.arg for a in [*args.posonlyargs, *args.args, *args.kwonlyargs]}
    for outer in function.body:
        for node in ast.walk(outer):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.lineno < statement.lineno:
                known.add(node.id)
    if isinstance(statement, ast.If):
        sides = [{n for s in part for n in names_stored(s)} for part in (statement.body, statement.orelse)]
        known |= sides[0] & sides[1]
        if any(isinstance(n, ast.Return) for s in statement.body for n in ast.walk(s)):
            known |= sides[1]
    return known


def _loads(function: FunctionDef, name: str) -> Iterator[ast.Name]:
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
                yield node


def _one_kind(function: FunctionDef, nodes: list[ast.Name] | list[ast.expr]) -> bool:
    kinds = {_kind(value) for node in nodes for value in function.facts.values.get(nid(node), ())}
    return len(kinds) <= 1 and None not in kinds


def _kind(value: Value) -> object:
    """Shapes and types of tensors; None where something else takes part."""
    match value:
        case TensorValue(shape=shape, dtype=dtype):
            return shape, dtype
        case SequenceValue(kind="tuple", items=items):
            kinds = tuple(map(_kind, items))
            return None if None in kinds else kinds
    return None
