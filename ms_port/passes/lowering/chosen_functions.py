"""``{"full": lambda: f(x), "local": lambda: g(x)}[kind]()``: the call of the lambda that was chosen."""

from __future__ import annotations

import ast

from ms_port.ir.tree import copy
from ms_port.ir.values import Literal
from ms_port.passes.lowering.expressions import lambda_body, lower
from ms_port.passes.lowering.scope import Scope


def chosen_function(scope: Scope, node: ast.Call) -> ast.expr | None:
    """``f(x) if kind == "full" else g(x)`` of the keys that were seen; None for other calls."""
    match node:
        case ast.Call(func=ast.Subscript(value=ast.Name(id=name), slice=key), args=[], keywords=[]):
            table = _tables(scope).get(name)
        case _:
            return None
    if table is None:
        return None
    seen = list(
        dict.fromkeys(v.value for v in scope.values(key) if isinstance(v, Literal) and isinstance(v.value, str))
    )
    if not seen or any(k not in table for k in seen):
        return None
    *front, last = [(k, lambda_body(scope, table[k])) for k in seen]
    made = last[1]
    for name, body in reversed(front):
        made = ast.IfExp(ast.Compare(copy(lower(scope, key)), [ast.Eq()], [ast.Constant(name)]), body, made)
    return made


def is_table(scope: Scope, statement: ast.Assign) -> bool:
    """Whether the statement only binds such a dict, which the port does without."""
    target = statement.targets[0]
    return isinstance(target, ast.Name) and target.id in _tables(scope) and isinstance(statement.value, ast.Dict)


def _tables(scope: Scope) -> dict[str, dict[str, ast.Lambda]]:
    """Local dicts of lambdas without arguments, bound once and used for nothing but such calls."""
    if scope.host:
        return {}
    nodes = [n for statement in scope.function.body for n in ast.walk(statement)]
    found: dict[str, dict[str, ast.Lambda]] = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(keys=keys, values=values)) if keys:
                made = {
                    k.value: v
                    for k, v in zip(keys, values, strict=True)
                    if isinstance(k, ast.Constant) and isinstance(k.value, str) and _is_plain(v)
                }
                if len(made) == len(keys):
                    found[name] = made  # type: ignore[assignment]
    uses = [n.id for n in nodes if isinstance(n, ast.Name)]
    calls = [
        n.func.value.id
        for n in nodes
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Subscript) and isinstance(n.func.value, ast.Name)
    ]
    return {name: table for name, table in found.items() if name in calls and uses.count(name) == calls.count(name) + 1}


def _is_plain(node: ast.expr) -> bool:
    return isinstance(node, ast.Lambda) and not ast.unparse(node.args)
