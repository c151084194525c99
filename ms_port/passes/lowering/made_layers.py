"""Losses that ``construct`` makes from tensors: MindSpore makes a cell in the graph of constants only."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ms_port.ir.program import CallFact
from ms_port.ir.values import ClassValue, TensorValue
from ms_port.opmap import Argument, Call
from ms_port.passes.lowering.arguments import torch_arguments
from ms_port.passes.lowering.scope import Scope

_FUNCTIONS = {
    "torch.nn.BCELoss": "binary_cross_entropy",
    "torch.nn.BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "torch.nn.CrossEntropyLoss": "cross_entropy",
    "torch.nn.NLLLoss": "nll_loss",
    "torch.nn.MultiLabelSoftMarginLoss": "multilabel_soft_margin_loss",
}


def takes_tensors(facts: Sequence[CallFact]) -> bool:
    """Whether the loss is given weights."""
    return any(
        getattr(f.callee, "name", "") in _FUNCTIONS
        and any(isinstance(v, TensorValue) for v in (*f.args, *dict(f.kwargs).values()))
        for f in facts
    )


def as_function(scope: Scope, node: ast.Call) -> Call | None:
    """``nn.BCEWithLogitsLoss(pos_weight=w)(x, y)``, the loss under a name or not, as the function of the same name."""
    maker = _maker(scope, node.func)
    facts = scope.calls(maker) if maker is not None else ()
    if maker is None or not takes_tensors(facts):
        return None
    classes = {f.callee.name for f in facts if isinstance(f.callee, ClassValue)}
    if len(classes) != 1:
        return None
    cls = classes.pop()
    row = scope.work.opmap.row(cls)
    if row is None:
        return None
    names = [parameter.name for parameter in row.overloads[0].signature]
    given, named = torch_arguments(scope, maker, facts, cls)
    settings: list[tuple[str, Argument]] = [*zip(names, given, strict=False), *named]
    api = f"torch.nn.functional.{_FUNCTIONS[cls]}"
    args, keywords = torch_arguments(scope, node, scope.calls(node), api)
    return Call(api, args, (*keywords, *settings))


def _maker(scope: Scope, func: ast.expr) -> ast.Call | None:
    """The call that made the layer: the callee itself, or the one assignment to its name."""
    if isinstance(func, ast.Call):
        return func
    if not isinstance(func, ast.Name):
        return None
    stores = [
        n.value
        for statement in scope.function.body
        for n in ast.walk(statement)
        if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == func.id for t in n.targets)
    ]
    return stores[0] if len(stores) == 1 and isinstance(stores[0], ast.Call) else None
