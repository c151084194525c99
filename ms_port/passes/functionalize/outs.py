"""``torch.add(x, 1, out=y)``: where it is ``y = torch.add(x, 1)``."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ms_port.ir.program import CallFact
from ms_port.ir.values import FunctionValue, SequenceValue, TensorValue, Value, is_whole

_TRUTHS = ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not", "logical_xor")
_DIVIDE = ("div", "divide", "true_divide", "mean")


def out_argument(call: ast.Call) -> ast.expr | None:
    """The name, attribute or element that a call is told to write its result to."""
    found = next((k.value for k in call.keywords if k.arg == "out"), None)
    return found if isinstance(found, ast.Name | ast.Attribute | ast.Subscript) else None


def without_out(call: ast.Call) -> None:
    """Take ``out`` from a call whose result is bound to it."""
    if out_argument(call) is not None:
        call.keywords = [k for k in call.keywords if k.arg != "out"]


def gives_dtype_of_out(fact: CallFact) -> bool:
    """Whether one tensor is written, and the call gives its type of itself (torch casts what it writes to ``out``)."""
    out = dict(fact.kwargs).get("out")
    if not (isinstance(out, TensorValue) and isinstance(fact.callee, FunctionValue) and fact.callee.torch):
        return False
    name = fact.callee.name.rpartition(".")[2]
    given = list(_leaves([*fact.args, *(v for k, v in fact.kwargs if k != "out")]))
    kinds = {v.dtype for v in given if isinstance(v, TensorValue)}
    floats = {kind for kind in kinds if "float" in kind}
    if name in _TRUTHS:
        return out.dtype == "bool"
    if not kinds:
        whole = name == "arange" and all(map(is_whole, given))
        return out.dtype == ("int64" if whole else "float32") and name != "full"
    if floats:
        return floats == {out.dtype} or (name.startswith("arg") and out.dtype == "int64")
    return kinds == {"int64"} and out.dtype == "int64" and name not in _DIVIDE


def _leaves(values: Iterable[Value]) -> Iterator[Value]:
    for value in values:
        if isinstance(value, SequenceValue):
            yield from _leaves(value.items)
        else:
            yield value
