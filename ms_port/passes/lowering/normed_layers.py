"""``weight_norm(nn.Conv1d(...))``: a layer made and given a norm of its weight is one layer of the port."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ms_port.ir.program import CallFact
from ms_port.ir.values import ClassValue, FunctionValue, ModuleValue
from ms_port.opmap import Call, NoLowering
from ms_port.passes.lowering.arguments import torch_arguments
from ms_port.passes.lowering.constructing import accept
from ms_port.passes.lowering.scope import Scope, Untranslatable


def weight_normed(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr | None:
    """``weight_norm(nn.Conv1d(...))``, ``spectral_norm(...)``: one layer, with the arguments of the inner call."""
    classes = {f.result.cls if isinstance(f.result, ModuleValue) else "" for f in facts}
    if (
        len(classes) != 1
        or not all(isinstance(f.callee, FunctionValue) and f.callee.torch and _norms(f.callee.name) for f in facts)
        or not node.args
        or not isinstance(node.args[0], ast.Call)
    ):
        return None
    inner, normed = node.args[0], classes.pop()
    made = scope.calls(inner)
    if not normed.startswith("torch.nn.utils.") or not made or not all(isinstance(f.callee, ClassValue) for f in made):
        return None
    args, keywords = torch_arguments(scope, inner, made, normed)
    try:
        return accept(scope, node, scope.work.opmap.lower(Call(normed, args, keywords)), normed)
    except NoLowering as error:
        raise Untranslatable(node, str(error)) from error


def _norms(name: str) -> bool:
    return name.startswith("torch.nn.utils.") and name.rpartition(".")[2] in ("weight_norm", "spectral_norm")
