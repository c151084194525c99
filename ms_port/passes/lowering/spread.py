"""``def __init__(self, *args, **kwargs)`` that hands both to a torch layer: the port names the layer's parameters."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ms_port.ir.program import CallFact
from ms_port.ir.tree import literal
from ms_port.ir.values import Literal, Value
from ms_port.opmap import Argument
from ms_port.opmap.signature import MISSING, Parameter
from ms_port.passes.lowering.scope import Scope


def spread(
    scope: Scope, node: ast.Call, facts: Sequence[CallFact], api: str, settings: Sequence[str]
) -> list[Argument] | None:
    """The arguments that ``*args``, the last by position, stands for; None where they can't be named.

    ``settings`` are the entries of the function's own ``**kwargs`` that the call passes. Positions and entries become
    parameters of the function (``Scope.spread``), in torch's order and with torch's defaults.
    """
    row = scope.work.opmap.row(api)
    if row is None or not scope.host or not _is_only_passed_on(scope):
        return None
    named = [p for p in row.overloads[0].signature if p.kind == "positional"]
    first, count = len(node.args) - 1, max(len(f.args) for f in facts)
    given = named[first:count]
    wanted = [p for p in named[first:] if p in given or p.name in settings]
    if count > len(named) or not _has_room(scope, wanted):
        return None
    made = []
    for place, parameter in enumerate(given, first):
        values = [_value(f, place, parameter) for f in facts]
        if any(v is None for v in values):
            return None
        made.append(Argument(ast.Name(parameter.name, ast.Load()), tuple(v for v in values if v is not None)))
    for parameter in wanted:
        scope.spread[parameter.name] = None if parameter.default is MISSING else literal(parameter.default)
    return made


def _value(fact: CallFact, place: int, parameter: Parameter) -> Value | None:
    """What one run gave for a position, by position or by name, else torch's default."""
    if place < len(fact.args):
        return fact.args[place]
    given = dict(fact.kwargs)
    if parameter.name in given:
        return given[parameter.name]
    return None if parameter.default is MISSING else Literal(parameter.default)


def _is_only_passed_on(scope: Scope) -> bool:
    """Whether all that the function does with its ``*args`` is to hand them on, once."""
    loads = [n for s in scope.function.body for n in ast.walk(s) if isinstance(n, ast.Name) and n.id == scope.varargs]
    stars = [n for s in scope.function.body for n in ast.walk(s) if isinstance(n, ast.Starred)]
    return len(loads) == 1 and any(star.value is loads[0] for star in stars)


def _has_room(scope: Scope, wanted: Sequence[Parameter]) -> bool:
    """Whether the names are free, and stand where a parameter without a default may stand."""
    if any(p.name in scope.locals for p in wanted):
        return False
    return not scope.function.node.args.defaults or all(p.default is not MISSING for p in wanted)
