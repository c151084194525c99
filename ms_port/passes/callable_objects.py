"""An object of a person's plain class that is called like a function becomes one: ``self.processor(self, x)``.

GRAPH_MODE calls no such object. Its ``__call__`` is a free function of the port, where it reads nothing of the object
but settings that never varied.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from ms_port.ir.program import FunctionDef, Program
from ms_port.ir.tree import copy, literal, nid
from ms_port.ir.values import FunctionValue, Literal, ObjectValue
from ms_port.passes.rewrite import map_functions


def call_objects_as_functions(program: Program) -> Program:
    """The program with a free function for each ``__call__`` of a plain class."""
    methods = [m for cell in program.cells.values() for m in cell.methods]
    methods += program.functions.values()
    made = {m.key: function for m in methods if (function := _function(m)) is not None}
    rest = {key: f for key, f in program.functions.items() if f.kind != "method"}
    if not made:
        return replace(program, functions=rest)
    cells = {
        key: replace(cell, methods=tuple(m for m in cell.methods if m.key not in made))
        for key, cell in program.cells.items()
    }
    changed = replace(program, cells=cells, functions={**rest, **made})
    return map_functions(changed, lambda function: _calling(function, set(made)))


def _function(method: FunctionDef) -> FunctionDef | None:
    """The function without its object; None where it is no such method, or needs the object."""
    args = method.node.args.args
    if method.name != "__call__" or method.kind != "method" or not args or method.during_init:
        return None
    own = args[0].arg
    objects = method.facts.parameters.get(own, ())
    if not objects or not all(isinstance(v, ObjectValue) and v.kind in ("opaque", "config") for v in objects):
        return None
    settings = _Settings(method, own)
    body = tuple(settings.visit(copy(statement)) for statement in method.body)
    if any(isinstance(n, ast.Name) and n.id == own for s in body for n in ast.walk(s)):
        return None
    node = copy(method.node)
    node.args.args = node.args.args[1:]
    parameters = {name: values for name, values in method.facts.parameters.items() if name != own}
    assert isinstance(objects[0], ObjectValue)
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", objects[0].cls.rpartition(".")[2]).lower()
    facts = replace(method.facts, parameters=parameters)
    return replace(method, name=name, node=node, body=body, facts=facts, owner=None, kind="function")


class _Settings(ast.NodeTransformer):
    """``self.scale`` of an object as the number that it always was."""

    def __init__(self, method: FunctionDef, own: str) -> None:
        self._values, self._own = method.facts.values, own

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        seen = self._values.get(nid(node), ())
        if isinstance(node.value, ast.Name) and node.value.id == self._own and isinstance(node.ctx, ast.Load):
            first = seen[0] if seen else None
            if isinstance(first, Literal) and all(v == first for v in seen) and _is_plain(first.value):
                made = ast.copy_location(literal(first.value), node)
                made.nid = nid(node)  # type: ignore[attr-defined]
                return made
        return self.generic_visit(node)


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _calling(function: FunctionDef, keys: set[str]) -> FunctionDef:
    """The function whose calls of such objects are calls of functions."""
    calls = {
        number: tuple(replace(f, callee=FunctionValue(f.entered)) if f.entered in keys else f for f in facts)
        for number, facts in function.facts.calls.items()
        if any(isinstance(f.callee, ObjectValue) and f.entered in keys for f in facts)
    }
    if not calls:
        return function
    body = tuple(map(copy, function.body))
    for node in (n for s in body for n in ast.walk(s)):
        if isinstance(node, ast.Call) and nid(node) in calls:
            node.func = ast.copy_location(ast.Name("the_object", ast.Load()), node.func)
    return replace(function, body=body, facts=replace(function.facts, calls={**function.facts.calls, **calls}))
