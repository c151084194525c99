"""``Base.__init__(self, x)`` in a constructor is ``super().__init__(x)``: the base of a cell is set up once."""

from __future__ import annotations

import ast
from dataclasses import replace

from ms_port.ir.program import FunctionDef, Program
from ms_port.ir.tree import copy, expression, nid
from ms_port.passes.rewrite import map_functions


def call_bases_by_super(program: Program) -> Program:
    """Rewrite the calls in classes that have one base, which is a class of the person's."""
    return map_functions(program, lambda function: _by_super(program, function))


def _by_super(program: Program, function: FunctionDef) -> FunctionDef:
    cell = program.cells.get(function.owner or "")
    if function.name != "__init__" or cell is None or len(cell.bases) != 1:
        return function
    base = program.cells.get(cell.bases[0])
    keys = {m.key for m in base.methods if m.name == "__init__"} if base is not None else set()
    if not keys or not any(_is_explicit(function, n, keys) for s in function.body for n in ast.walk(s)):
        return function
    body = tuple(map(copy, function.body))
    calls = dict(function.facts.calls)
    for node in (n for s in body for n in ast.walk(s)):
        if isinstance(node, ast.Call) and _is_explicit(function, node, keys):
            calls[nid(node)] = tuple(replace(fact, args=fact.args[1:]) for fact in calls[nid(node)])
            node.func, node.args = expression("super().__init__"), node.args[1:]
    return replace(function, body=body, facts=replace(function.facts, calls=calls))


def _is_explicit(function: FunctionDef, node: ast.AST, keys: set[str]) -> bool:
    """Whether a call names the base whose constructor it enters."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute(), attr="__init__"), args=[first, *_]):
            facts = function.facts.calls.get(nid(node), ())
            entered = {fact.entered for fact in facts}
            return isinstance(first, ast.Name) and first.id == "self" and bool(facts) and entered <= keys
    return False
