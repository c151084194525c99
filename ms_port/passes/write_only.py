"""Local containers that a function fills and nothing reads."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Sequence


def write_only(
    body: Sequence[ast.stmt], can_go: Callable[[ast.expr], bool], never_given: frozenset[str] = frozenset()
) -> set[str]:
    """Local lists and dicts that are made from plain values, filled with such, and never read.

    ``settings = settings or {}`` makes one too, of a parameter that is never given.
    """
    fresh, stores, reads, writes = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for node in (n for s in body for n in ast.walk(s)):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                if name in never_given and _own_or_new(name, value):
                    fresh[name] += 1
                    writes[name] += 1  # its reading there
                elif isinstance(value, ast.List | ast.Dict | ast.Set) and can_go(value):
                    fresh[name] += 1  # `settings = {**settings}` copies what it was given
                    writes[name] += sum(isinstance(n, ast.Name) and n.id == name for n in ast.walk(value))
            case ast.Name(id=name, ctx=ast.Load()):
                reads[name] += 1
            case ast.Name(id=name):
                stores[name] += 1
        if isinstance(node, ast.stmt) and (put := written(node)) is not None:
            writes[put[0]] += all(map(can_go, put[1]))
    return {name for name, count in stores.items() if fresh[name] == count and writes[name] == reads[name] > 0}


def _own_or_new(name: str, value: ast.expr) -> bool:
    match value:
        case ast.BoolOp(op=ast.Or(), values=[ast.Name(id=held), ast.Dict(keys=[]) | ast.List(elts=[])]):
            return held == name
    return False


def written(statement: ast.stmt) -> tuple[str, list[ast.expr]] | None:
    """The local container into which a statement puts something, and what: ``layers`` in ``layers.append(x)``."""
    match statement:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=key)], value=value):
            return name, [key, value]
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method), args=args, keywords=keywords)
        ) if method in _FILLS:
            return name, [*args, *(k.value for k in keywords)]
    return None


def filled_attribute(statement: ast.stmt) -> tuple[ast.Attribute, list[ast.expr]] | None:
    """``self.feature_info.append(x)``: the attribute of the cell that takes something up, and what."""
    match statement:
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self")) as holder, attr=method),
                args=args,
                keywords=keywords,
            )
        ) if method in _FILLS:
            return holder, [*args, *(k.value for k in keywords)]
    return None


_FILLS = frozenset("append extend insert update add setdefault".split())
