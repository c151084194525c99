"""``torch.Tensor(2, 3)``, ``torch.LongTensor([1, 2])``: constructors that take sizes or values."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ms_port.ir.program import CallFact
from ms_port.ir.tree import expression, literal
from ms_port.ir.values import Literal, TensorValue, holds_tensor
from ms_port.passes.lowering.expressions import lower
from ms_port.passes.lowering.scope import Scope, Untranslatable

LEGACY = {
    "torch.Tensor": "float32",
    "torch.FloatTensor": "float32",
    "torch.DoubleTensor": "float64",
    "torch.HalfTensor": "float16",
    "torch.LongTensor": "int64",
    "torch.IntTensor": "int32",
    "torch.ShortTensor": "int16",
    "torch.CharTensor": "int8",
    "torch.ByteTensor": "uint8",
    "torch.BoolTensor": "bool_",
}


def legacy_tensor(scope: Scope, node: ast.Call, facts: Sequence[CallFact], name: str) -> ast.expr:
    """In a constructor an array, in the graph a constant. Raises Untranslatable for what is neither."""
    dtype = LEGACY[name]
    found = {f.result.dtype for f in facts if isinstance(f.result, TensorValue)}
    if found != {dtype.rstrip("_")}:  # torch.set_default_dtype
        raise Untranslatable(node, f"`{ast.unparse(node)}` is of another type than {dtype}")
    kinds = {_kind(fact) for fact in facts}
    kind = kinds.pop() if len(kinds) == 1 else ""
    if kind == "values":
        maker = f"np.array(0, np.{dtype})" if scope.host else f"Tensor(0, ms.{dtype})"
        given = lower(scope, node.args[0])
    elif kind == "sizes":
        maker = f"np.zeros(0, np.{dtype})" if scope.host else f"ops.zeros(0, ms.{dtype})"
        items = [lower(scope, a) for a in node.args]
        given = ast.Tuple(items, ast.Load())
    elif kind == "empty":
        maker = f"np.zeros(0, np.{dtype})" if scope.host else f"ops.zeros(0, ms.{dtype})"
        given = literal((0,))
    elif kind == "size":
        maker = f"np.zeros(0, np.{dtype})" if scope.host else f"ops.zeros(0, ms.{dtype})"
        given = lower(scope, node.args[0])
    else:
        raise Untranslatable(node, f"`{ast.unparse(node)}` takes what the port can't tell for sizes or values")
    made = expression(maker)
    assert isinstance(made, ast.Call)
    made.args[0] = given
    return made


def _kind(fact: CallFact) -> str:
    """``sizes``: numbers; ``size``: one tuple of them (a torch.Size); ``values``: what the tensor holds."""
    if fact.kwargs or not isinstance(fact.result, TensorValue):
        return ""
    if not fact.args:
        return "empty"
    numbers = [a.value for a in fact.args if isinstance(a, Literal) and type(a.value) is int]
    if len(numbers) == len(fact.args):
        return "sizes"
    if len(fact.args) != 1 or holds_tensor(fact.args[0]):
        return ""
    only = fact.args[0]
    if isinstance(only, Literal) and isinstance(only.value, tuple) and only.value == fact.result.shape:
        return "size" if only.value != (1,) else ""
    return "values"
