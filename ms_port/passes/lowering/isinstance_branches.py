"""Branches by class, where one statement of the source is several in the port: each class has its own names."""

from __future__ import annotations

import ast
from collections.abc import Sequence


def isinstance_branch(name: str, body: list[ast.stmt], kinds: list[ast.expr]) -> ast.stmt:
    """``if isinstance(name, (kinds)): body``."""
    match body:
        case [
            ast.If(test=ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=tested), _]), orelse=[]) as inner
        ] if tested == name:
            body = inner.body  # the test only widened what each branch now says
    test = ast.Call(
        ast.Name("isinstance", ast.Load()),
        [ast.Name(name, ast.Load()), kinds[0] if len(kinds) == 1 else ast.Tuple(kinds, ast.Load())],
        [],
    )
    return ast.If(test, body, [])


def merged_branches(statements: list[ast.stmt]) -> list[ast.stmt]:
    """``if isinstance(m, (A, B)):`` around a branch for A and one for B -> these two, joined by ``elif``."""
    match statements:
        case [ast.If(test=test, body=body, orelse=orelse)] if len(body) > 1:
            name, kinds = _tested(test)
            inner = [_tested(s.test) if isinstance(s, ast.If) and not s.orelse else ("", []) for s in body]
            found = [kind for _, part in inner for kind in part]
            if not name or {n for n, _ in inner} != {name} or sorted(found) != sorted(kinds):
                return statements
            ordered = sorted(zip(body, inner, strict=True), key=lambda pair: kinds.index(pair[1][1][0]))
            return _chain([s for s, _ in ordered if isinstance(s, ast.If)], orelse)
    return statements


def _tested(test: ast.expr) -> tuple[str, list[str]]:
    """The name and the classes of ``isinstance(name, classes)``."""
    match test:
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), ast.Tuple(elts=kinds)]):
            return name, [ast.unparse(kind) for kind in kinds]
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), kind]):
            return name, [ast.unparse(kind)]
    return "", []


def _chain(branches: Sequence[ast.If], orelse: list[ast.stmt]) -> list[ast.stmt]:
    made: list[ast.stmt] = orelse
    for branch in reversed(branches):
        made = [ast.copy_location(ast.If(branch.test, branch.body, made), branch)]
    return made
