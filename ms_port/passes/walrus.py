"""``:=`` does not compile in GRAPH_MODE: what it binds is bound in a statement before."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from ms_port.ir.program import Facts, FunctionDef, Program
from ms_port.ir.tree import copy, nid
from ms_port.passes.rewrite import map_functions

_HEADERS = {ast.If: "test", ast.Return: "value", ast.Assign: "value", ast.Expr: "value", ast.AugAssign: "value"}
"""Statement -> the expression that it evaluates first and once."""


def bind_before(program: Program) -> Program:
    """Hoist assignment expressions of graph functions, where they are evaluated whenever their statement is."""

    def one(function: FunctionDef) -> FunctionDef:
        walks = (ast.walk(s) for s in function.body)
        if function.during_init or not any(isinstance(n, ast.NamedExpr) for walk in walks for n in walk):
            return function
        return replace(function, body=tuple(_block(function.facts, [copy(s) for s in function.body])))

    return map_functions(program, one)


def _block(facts: Facts, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    made: list[ast.stmt] = []
    for statement in statements:
        for field in ("body", "orelse", "finalbody"):
            inner = getattr(statement, field, None)
            if isinstance(inner, list):
                setattr(statement, field, _block(facts, inner))
        header = _HEADERS.get(type(statement))
        whole = getattr(statement, header, None) if header is not None else None
        if header is not None and isinstance(whole, ast.expr):
            hoist = _Hoist(facts, whole, statement)
            setattr(statement, header, hoist.visit(whole))
            made += hoist.before
        made.append(statement)
    return made


class _Hoist(ast.NodeTransformer):
    """Replaces assignment expressions by the names that they bind, innermost first."""

    def __init__(self, facts: Facts, whole: ast.expr, statement: ast.stmt) -> None:
        self._facts, self._statement = facts, statement
        self._runs = len(facts.values.get(nid(whole), ()))
        self.before: list[ast.stmt] = []

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        if len(self._facts.values.get(nid(node), ())) != self._runs:
            return node  # evaluated in some runs only
        value = self.visit(node.value)
        bound = ast.copy_location(ast.Assign([ast.Name(node.target.id, ast.Store())], value), self._statement)
        bound.nid = nid(self._statement)  # type: ignore[attr-defined]
        self.before.append(bound)
        read = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
        read.nid = nid(node)  # type: ignore[attr-defined]
        return read

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        return node

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        return node

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp  # type: ignore[assignment]
