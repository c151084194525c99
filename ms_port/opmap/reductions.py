"""torch's old arguments of losses, ``size_average`` and ``reduce``, as the ``reduction`` that they mean."""

from __future__ import annotations

import ast
from dataclasses import replace

from ms_port.ir.values import Literal
from ms_port.opmap.calls import Argument, Call
from ms_port.opmap.errors import BindError
from ms_port.opmap.rows import Row
from ms_port.opmap.signature import bind

_OLD = ("size_average", "reduce")


def with_reduction(row: Row, call: Call) -> Call:
    """The call with ``reduction`` in place of the old arguments; as it is where it gives none of them, or their
    values are not known."""
    signature = row.overloads[0].signature if row.overloads else ()
    names = [parameter.name for parameter in signature]
    if not {*_OLD, "reduction"} <= set(names):
        return call
    try:
        bound = bind(signature, call, partial=True)
    except BindError:
        return call
    given = {name: bound[name].arguments[0] for name in _OLD if name in bound}
    values = {name: set(argument.values or ()) for name, argument in given.items()}
    if not given or any(len(seen) != 1 for seen in values.values()):
        return call
    found = {name: seen.pop() for name, seen in values.items()}
    if not all(isinstance(v, Literal) for v in found.values()):
        return call
    average, reduce = (getattr(found.get(name), "value", None) for name in _OLD)
    kept = {name: one.arguments[0] for name, one in bound.items() if name not in _OLD}
    if average is not None or reduce is not None:  # torch: None means True, and the two go before `reduction`
        word = "none" if reduce is not None and not reduce else "mean" if average is None or average else "sum"
        kept["reduction"] = Argument(ast.Constant(word), (Literal(word),))
    front = names[: min(names.index(name) for name in _OLD)]
    positional = [kept.pop(name) for name in front if name in kept and bound[name].positional]
    return replace(call, args=tuple(positional), keywords=tuple(kept.items()))
