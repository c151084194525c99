"""Tensors while the model is built: a constructor of the port computes with numpy's arrays.

What numpy has not, a layer or a function that torch runs there to find a size, is MindSpore's own between two arrays.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ms_port.ir.program import CallFact
from ms_port.ir.tree import is_self_attribute
from ms_port.ir.values import TensorValue
from ms_port.opmap import Argument, Call, NoLowering
from ms_port.passes.lowering.absent import ABSENT
from ms_port.passes.lowering.scope import Scope


def array_call(call: ast.expr, facts: Sequence[CallFact]) -> ast.expr:
    """``self.conv(torch.zeros(1, 3, n, n))`` while the model is built: there the port computes with numpy's arrays."""
    if not isinstance(call, ast.Call) or not all(isinstance(f.result, TensorValue) for f in facts):
        return call
    for place, given in enumerate(call.args):
        tensors = all(place < len(f.args) and isinstance(f.args[place], TensorValue) for f in facts)
        if tensors and not is_self_attribute(given) and not (isinstance(given, ast.Name) and given.id == ABSENT):
            call.args[place] = as_tensor(given)
    return ast.Call(ast.Attribute(call, "asnumpy", ast.Load()), [], [])


def as_tensor(array: ast.expr) -> ast.expr:
    """``Tensor(a)``; of ``t.asnumpy()`` it is t."""
    match array:
        case ast.Call(func=ast.Attribute(value=tensor, attr="asnumpy"), args=[]):
            return tensor
    return ast.Call(ast.Name("Tensor", ast.Load()), [array], [])


_ACTIVATIONS = frozenset(f"torch.{holder}{name}" for holder in ("", "Tensor.") for name in ("relu", "tanh", "sigmoid"))


def by_tensors(scope: Scope, node: ast.Call, facts: Sequence[CallFact], call: Call) -> ast.expr | None:
    """``F.relu(self.conv(x))`` while the model is built, to find a size: MindSpore's own between numpy's arrays."""
    if not call.api.startswith("torch.nn.functional.") and call.api not in _ACTIVATIONS:
        return None
    if not all(isinstance(f.result, TensorValue) for f in facts):
        return None
    try:
        lowering = scope.work.opmap.lower(of_tensors(call))
    except NoLowering:
        return None
    if lowering.random is not None:
        return None
    from ms_port.passes.lowering.constructing import accept

    made = accept(scope, node, lowering, call.api)
    return ast.Call(ast.Attribute(made, "asnumpy", ast.Load()), [], [])


def of_tensors(call: Call) -> Call:
    """The call with a Tensor of each numpy array."""

    def tensor(given: Argument) -> Argument:
        if not given.values or not all(isinstance(v, TensorValue) for v in given.values):
            return given
        return Argument(as_tensor(given.expression), given.values)

    receiver = tensor(call.receiver) if call.receiver is not None else None
    keywords = tuple((name, tensor(given)) for name, given in call.keywords)
    return Call(call.api, tuple(map(tensor, call.args)), keywords, receiver, result=call.result)
