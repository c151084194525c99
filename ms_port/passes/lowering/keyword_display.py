"""``kwargs = {"x": x, "cache": cache}; f(**kwargs); g(**kwargs)``: each call is given the entries by name."""

from __future__ import annotations

import ast

from ms_port.ir.tree import names_stored
from ms_port.ir.values import entries_of
from ms_port.passes.lowering.scope import Scope


def keyword_display(scope: Scope, statement: ast.Assign) -> list[ast.stmt] | None:
    """No statement, the entries being noted in ``scope.displays``; None where the dict has to stay.

    It may go where it is only handed on as ``**name``, and where its entries are names or constants (in a constructor
    also arithmetic of them) that are not bound anew afterwards: so a configuration in it need not be there.
    """
    if not scope.host and _is_selection(scope, statement):
        scope.drop(statement, "each call is given the entries that it took")
        return []
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_handed_on(scope, name):
            plain = _entries(scope, value)
        case _:
            return None
    if plain is None:
        return None
    end = _last_use(scope, name, statement.lineno)
    later = _bound_between(scope, statement.lineno, end)
    allowed = _COMPUTED if scope.host else _PLAIN
    for entry in plain.values():
        if any(not isinstance(n, allowed) for n in ast.walk(entry)) and not _is_own_keyword(scope, entry):
            return None
        if {n.id for n in ast.walk(entry) if isinstance(n, ast.Name)} & (later - {name}):
            return None
    scope.displays[name] = plain
    return []


_PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.Load)
_COMPUTED = (
    *(*_PLAIN, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Subscript),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)


def _is_own_keyword(scope: Scope, entry: ast.expr) -> bool:
    """``kwargs.get("norm_layer")`` in a constructor: a parameter of the port's."""
    match entry:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get"), args=args, keywords=[]):
            return scope.host and name == scope.varkw and all(isinstance(a, ast.Constant) for a in args)
    return False


def _entries(scope: Scope, value: ast.expr) -> dict[str, ast.expr] | None:
    """Keys and values of ``{"a": x}``, in a constructor also of ``dict(a=x, **others)``; None for other expressions."""
    match value:
        case ast.Dict(keys=keys, values=values):
            pairs = [(k.value if isinstance(k, ast.Constant) else k, v) for k, v in zip(keys, values, strict=True)]
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords) if (
            scope.host and "dict" not in scope.locals
        ):
            pairs = [(k.arg, k.value) for k in keywords]
        case _:
            return None
    found: dict[str, ast.expr] = {}
    for key, entry in pairs:
        if key is None and scope.host:
            others = _unpacked_entries(scope, entry)
            if others is None or others.keys() & found.keys():
                return None
            found |= others
        elif isinstance(key, str) and key not in found:
            found[key] = entry
        else:
            return None
    return found


def _unpacked_entries(scope: Scope, container: ast.expr) -> dict[str, ast.expr] | None:
    """Entries of ``**container``: another such dict, or the function's own ``**kwargs``, by the keys that were seen."""
    if not isinstance(container, ast.Name):
        return None
    if container.id in scope.displays:
        return scope.displays[container.id]
    seen = scope.values(container)
    if container.id != scope.varkw or not seen:
        return None
    keys = dict.fromkeys(key for value in seen for key in entries_of(value))
    return {key: ast.Subscript(container, ast.Constant(key), ast.Load()) for key in keys}


def _is_selection(scope: Scope, statement: ast.Assign) -> bool:
    """``kwargs = {k: v for k, v in kwargs.items() if k in known}`` of the function's own ``**kwargs``."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.DictComp(
                key=ast.Name(id=key),
                value=ast.Name(id=value),
                generators=[
                    ast.comprehension(
                        target=ast.Tuple(elts=[ast.Name(id=first), ast.Name(id=second)]),
                        iter=ast.Call(func=ast.Attribute(value=ast.Name(id=held), attr="items")),
                    )
                ],
            ),
        ):
            return name == held == scope.varkw and (key, value) == (first, second)
    return False


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
