"""Calls of a function whose decorator passes other arguments on: ``resnet18(True)``, which takes keywords only."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ms_port.ir.program import FunctionDef
from ms_port.ir.tree import defaults_of
from ms_port.ir.values import Literal, Value
from ms_port.passes.lowering.absent import absent_name
from ms_port.passes.lowering.names import of_value
from ms_port.passes.lowering.scope import Scope, Untranslatable, same

Arguments = tuple[list[ast.expr], list[ast.keyword]]


def as_entered(scope: Scope, node: ast.Call, function: FunctionDef, given: Arguments) -> Arguments:
    """The arguments of a call; those that the function itself got, where it has no place for what the call writes.

    Raises Untranslatable where what it got can't be told from what is written.
    """
    if _fits(function, given):
        return given
    args, keywords = given
    written = [(a.value if isinstance(a, ast.keyword) else a, m) for a, m in _beside(node, args, keywords)]
    got = []
    for name, default in _parameters(function):
        values = function.facts.parameters.get(name, ())
        if values and same(values) and values[0] == default:
            continue
        got.append(ast.keyword(name, _argument(scope, node, name, values, written)))
    return [], got


def _fits(function: FunctionDef, given: Arguments) -> bool:
    args, keywords = given
    taken = function.node.args
    if taken.vararg is not None or any(isinstance(a, ast.Starred) for a in args) or not function.facts.parameters:
        return True
    own = [a.arg for a in [*taken.posonlyargs, *taken.args]]
    names = {*own, *(a.arg for a in taken.kwonlyargs)}
    known = taken.kwarg is not None or all(k.arg in names for k in keywords)
    return len(args) <= len(own) and known


def _beside(
    node: ast.Call, args: list[ast.expr], keywords: list[ast.keyword]
) -> Iterator[tuple[ast.expr | ast.keyword, ast.expr]]:
    """The arguments as the source writes them, each with what stands for it in the port."""
    yield from zip(node.args, args, strict=True)
    made = {k.arg: k.value for k in keywords}
    yield from ((k, made[k.arg]) for k in node.keywords if k.arg is not None and k.arg in made)


def _parameters(function: FunctionDef) -> Iterator[tuple[str, Value | None]]:
    """Each parameter with its default where that is a literal."""
    args = function.node.args
    defaults = defaults_of(args)
    for arg in [*args.posonlyargs, *args.args, *args.kwonlyargs]:
        default = defaults.get(arg.arg)
        yield arg.arg, Literal(default.value) if isinstance(default, ast.Constant) else None


def _argument(
    scope: Scope, node: ast.Call, name: str, values: Sequence[Value], written: Sequence[tuple[ast.expr, ast.expr]]
) -> ast.expr:
    """What the call writes for a parameter, told by its values; else the value, where it was always the same."""
    meant = [made for source, made in written if (seen := scope.values(source)) and set(seen) <= set(values)]
    if len(meant) == 1:
        return meant[0]
    if not values or not same(values):
        raise Untranslatable(node, f"a decorator gives `{name}`, and not always the same")
    try:
        return of_value(scope, node, values[0])
    except Untranslatable as error:
        return absent_name(error)
