"""Calls on tensors without elements: MindSpore's kernels refuse them or read what isn't there."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ms_port.ir.program import CallFact
from ms_port.ir.tree import literal
from ms_port.ir.values import DictValue, DType, Literal, SequenceValue, TensorValue, Value
from ms_port.opmap import Call
from ms_port.passes.lowering.scope import Scope, dtype_expression

VIEWS = frozenset(
    """reshape view flatten squeeze unsqueeze permute transpose swapaxes contiguous to float double half int long bool
    type type_as size dim numel clone detach expand shape item tolist new_zeros new_ones new_empty new_full zeros_like
    ones_like empty_like full_like split chunk unbind narrow T t is_floating_point __getitem__ __len__""".split()
)
"""Methods and functions that only look at the shape: MindSpore takes empty tensors there."""


def lower_empty(scope: Scope, node: ast.Call, facts: Sequence[CallFact], call: Call) -> ast.expr | None:
    """What a call gives of which every tensor is empty: a constant. None for any other call."""
    api = call.api
    if scope.host or api.rpartition(".")[2] in VIEWS or not facts:
        return None
    if call.receiver is not None and len(call.receiver.values or ()) == len(facts):
        own = zip(call.receiver.values or (), facts, strict=True)
        facts = [fact if fact.args[:1] == (value,) else replace(fact, args=(value, *fact.args)) for value, fact in own]
    results = {bare(fact.result) for fact in facts}
    if len(results) != 1 or not all(_all_empty(fact) for fact in facts):
        return None
    made = _constant(facts[0], results.pop())
    if made is None:
        return None
    scope.flag(
        node,
        "MSP106",
        f"{api} gets tensors without elements: its result is a constant here",
        "It holds for the traced sizes.",
        api,
        "info",
    )
    return made


def bare(value: Value) -> Value:
    """A value without the identity of its tensors."""
    match value:
        case TensorValue(shape=shape, dtype=dtype):
            return TensorValue(shape, dtype)
        case SequenceValue(kind=kind, items=items):
            return SequenceValue(kind, tuple(map(bare, items)))
    return value


def _tensors(values: Iterable[Value]) -> Iterator[TensorValue]:
    for value in values:
        match value:
            case TensorValue():
                yield value
            case SequenceValue(items=items):
                yield from _tensors(items)
            case DictValue(items=pairs):
                yield from _tensors(item for _, item in pairs)


def _all_empty(fact: CallFact) -> bool:
    """Whether tensors go in and all are empty, or one is and everything that comes out is."""
    given = list(_tensors([*fact.args, *(v for _, v in fact.kwargs)]))
    made = list(_tensors([fact.result]))
    empty = [0 in t.shape for t in given]
    return bool(made) and any(empty) and (all(empty) or all(0 in t.shape for t in made))


def _constant(fact: CallFact, result: Value) -> ast.expr | None:
    match result:
        case TensorValue(shape=shape) if 0 in shape:
            return _call("zeros", result)
        case TensorValue():
            return _filled(_evaluated(fact), result)
        case SequenceValue(items=items) if all(isinstance(i, TensorValue) for i in items):
            tensors = [i for i in items if isinstance(i, TensorValue)]
            made = () if all(0 in t.shape for t in tensors) else _evaluated(fact)
            made = made if isinstance(made, tuple) and len(made) == len(items) else (None,) * len(items)
            parts = [_call("zeros", t) if 0 in t.shape else _filled(m, t) for t, m in zip(tensors, made, strict=True)]
            if all(part is not None for part in parts):
                return ast.Tuple([part for part in parts if part is not None], ast.Load())
    return None


def _call(name: str, tensor: TensorValue, *more: ast.expr) -> ast.expr:
    function = ast.Attribute(ast.Name("ops", ast.Load()), name, ast.Load())
    kind = ast.keyword("dtype", dtype_expression(tensor.dtype))
    return ast.Call(function, [literal(tuple(tensor.shape)), *more], [kind])


def _evaluated(fact: CallFact) -> Any:
    """What torch gives for empty tensors; None where the call can't be made again."""
    import torch

    function: Any = torch
    for part in getattr(fact.callee, "name", "").split(".")[1:]:
        function = getattr(function, part, None)
    try:
        return function(*map(_torch, fact.args), **{k: _torch(v) for k, v in fact.kwargs})
    except Exception:  # whatever torch says: the call is lowered as any other
        return None


def _filled(made: Any, tensor: TensorValue) -> ast.expr | None:
    """The one number of which the result of empty tensors consists: 0 for a sum, 1 for a product, NaN for a mean."""
    import torch

    if not isinstance(made, torch.Tensor) or tuple(made.shape) != tensor.shape:
        return None
    value = made.reshape(-1)[0].item()
    same = made.isnan() if value != value else made == value
    return _call("full", tensor, literal(value)) if bool(same.all()) else None


def _torch(value: Value) -> Any:
    """The argument itself. Raises ValueError for what can't be made again."""
    import torch

    match value:
        case TensorValue(shape=shape, dtype=dtype):
            return torch.empty(shape, dtype=getattr(torch, dtype))
        case Literal(value=plain):
            return plain
        case DType(name=name):
            return getattr(torch, name)
        case SequenceValue(kind=kind, items=items):
            made = [_torch(i) for i in items]
            return made if kind == "list" else tuple(made)
    raise ValueError(f"{value} as an argument")
