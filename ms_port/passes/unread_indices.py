"""``for i, layer in enumerate(layers)`` where nothing reads ``i`` any more: ``for layer in layers``."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from ms_port.ir.program import FunctionDef, Program
from ms_port.ir.tree import copy
from ms_port.passes.rewrite import map_functions

_Loop = ast.For | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def drop_unread_indices(program: Program) -> Program:
    """The program whose loops count only where the count is read."""
    return map_functions(program, _without_unread)


def _without_unread(function: FunctionDef) -> FunctionDef:
    nodes = [n for statement in function.body for n in ast.walk(statement)]
    if not any(_index(n) for n in nodes):
        return function
    body = [copy(statement) for statement in function.body]
    nodes = [n for statement in body for n in ast.walk(statement)]
    loops = [n for n in nodes if isinstance(n, _Loop)]
    for loop in loops:
        for part in _parts(loop):
            index = _index(part)
            if index is not None and not _is_read(index, loop, loops, nodes):
                assert isinstance(part.target, ast.Tuple) and isinstance(part.iter, ast.Call)
                part.target, part.iter = part.target.elts[1], part.iter.args[0]
    return replace(function, body=tuple(body))


def _is_read(name: str, loop: _Loop, loops: Sequence[_Loop], nodes: Sequence[ast.AST]) -> bool:
    """Whether something reads the count of this loop: what stands in another one that binds the name reads that."""
    inside = {id(n) for n in ast.walk(loop)}
    others = {
        id(n)
        for other in loops
        if id(other) not in inside and not any(n is loop for n in ast.walk(other)) and name in _bound(other)
        for n in ast.walk(other)
    }
    reads = (n for n in nodes if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Store))
    return any(id(n) not in others for n in reads)


def _parts(loop: _Loop) -> Sequence[ast.For | ast.comprehension]:
    return [loop] if isinstance(loop, ast.For) else loop.generators


def _bound(loop: _Loop) -> set[str]:
    return {n.id for part in _parts(loop) for n in ast.walk(part.target) if isinstance(n, ast.Name)}


def _index(node: ast.AST) -> str | None:
    """The name that counts the rounds of a loop or a comprehension."""
    if not isinstance(node, ast.For | ast.comprehension):
        return None
    match node.target, node.iter:
        case ast.Tuple(elts=[ast.Name(id=name), _]), ast.Call(func=ast.Name(id="enumerate"), args=[value, *_]):
            return None if isinstance(value, ast.Starred) else name
    return None
