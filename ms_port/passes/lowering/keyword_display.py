"""``kwargs = {"x": x, "cache": cache}; f(**kwargs); g(**kwargs)``: each call is given the entries by name."""

from __future__ import annotations

import ast

from ms_port.ir.tree import names_stored
from ms_port.passes.lowering.scope import Scope


def keyword_display(scope: Scope, statement: ast.Assign) -> list[ast.stmt] | None:
    """No statement, the entries being noted in ``scope.displays``; None where the dict has to stay.

    It may go where it is only handed on as ``**name``, and where its entries are names or constants that are not bound
    anew afterwards: so a configuration in it need not be there.
    """
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(keys=keys, values=values)):
            pass
        case _:
            return None
    plain = {str(k.value): value for k, value in zip(keys, values, strict=True) if isinstance(k, ast.Constant)}
    if len(plain) != len(keys) or not _is_handed_on(scope, name):
        return None
    end = _last_use(scope, name, statement.lineno)
    later = _bound_between(scope, statement.lineno, end)
    for value in plain.values():
        if any(not isinstance(n, ast.Name | ast.Attribute | ast.Constant | ast.Load) for n in ast.walk(value)):
            return None
        if {n.id for n in ast.walk(value) if isinstance(n, ast.Name)} & (later - {name}):
            return None
    scope.displays[name] = plain
    return []


_END = 10**9
"""Line of what a pass made: it counts as standing last."""


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", _END))


def _bound_between(scope: Scope, start: int, end: int) -> set[str]:
    """Names bound by statements after ``start`` and up to ``end``, or by statements that a pass made."""
    bound: set[str] = set()
    for node in (n for s in scope.function.body for n in ast.walk(s)):
        if not (start < _line(node) <= end or _line(node) == _END):
            continue
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr | ast.Return):
            bound |= names_stored(node)
        elif isinstance(node, ast.For):
            bound |= names_stored(node.target)
    return bound


def _last_use(scope: Scope, name: str, start: int) -> int:
    """The last line on which the name is read; of a loop that does not bind it anew each time, the loop's last line."""
    nodes = [n for s in scope.function.body for n in ast.walk(s)]
    lines = [_line(n) for n in nodes if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    end = max(lines)
    for loop in nodes:
        if isinstance(loop, ast.For | ast.While) and start < _line(loop):
            last = getattr(loop, "end_lineno", None) or _END
            if any(_line(loop) <= line <= last for line in lines):
                end = max(end, last)
    return end


def _is_handed_on(scope: Scope, name: str) -> bool:
    """Whether the name is bound once, and every reading of it is a ``**name``."""
    nodes = [n for s in scope.function.body for n in ast.walk(s)]
    stores = [n for n in nodes if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)]
    reads = [n for n in nodes if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    handed = [k.value for n in nodes if isinstance(n, ast.Call) for k in n.keywords if k.arg is None]
    return len(stores) == 1 and bool(reads) and all(any(r is h for h in handed) for r in reads)
