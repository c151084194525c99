"""Subclasses of torch layers: a forward that makes exactly its base's call is its base's, and needs no construct.

A forward that does more than its base calls ``super().construct(x)`` where it repeats its base's call.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ms_port.ir.program import CallFact, FunctionDef, LedgerEntry, Program
from ms_port.ir.tree import nid
from ms_port.ir.values import Literal, TensorValue, Value
from ms_port.passes.lowering.inherited import find_method
from ms_port.passes.lowering.scope import Scope

_OWN_CALLS = {
    "torch.nn.LayerNorm": "layer_norm",
    "torch.nn.GroupNorm": "group_norm",
    "torch.nn.RMSNorm": "rms_norm",
    "torch.nn.Linear": "linear",
    "torch.nn.Conv1d": "conv1d",
    "torch.nn.Conv2d": "conv2d",
    "torch.nn.Conv3d": "conv3d",
    "torch.nn.Embedding": "embedding",
    "torch.nn.GELU": "gelu",
}


def is_base_forward(program: Program, cls: str) -> bool:
    """Whether the forward of a class, in every run, is the very call that its torch base would make."""
    base = _torch_base(program, cls)
    forward = find_method(program, cls, "forward")
    if base is None or forward is None or not forward.facts.activations:
        return False
    made = [entry for entry in program.ledger if entry.function == forward.key]
    if len(made) != forward.facts.activations:
        return False
    inputs = {v.key for values in forward.facts.parameters.values() for v in values if isinstance(v, TensorValue)}
    returned = _returned(forward)
    return all(_is_own_call(program, entry, _OWN_CALLS[base], inputs, returned) for entry in made)


def _is_own_call(program: Program, entry: LedgerEntry, name: str, inputs: set[int], returned: set[int]) -> bool:
    """The base's function on the input, with all of the layer's tensors and nothing but its own settings."""
    if entry.api.rpartition(".")[2] != name or not entry.args:
        return False
    if not isinstance(entry.result, TensorValue) or entry.result.key not in returned:
        return False
    given: list[Value] = [*entry.args, *(v for _, v in entry.kwargs)]
    first, rest = given[0], given[1:]
    if not (isinstance(first, TensorValue) and first.key in inputs):
        return False
    tensors = {v.parameter for v in rest if isinstance(v, TensorValue)}
    owner = next(iter(tensors), None)
    path = (owner or "").rpartition(".")[0]
    module = program.modules.get(path)
    if module is None or owner is None:
        return name == "gelu" and not rest
    prefix = f"{path}." if path else ""
    own = {p for p in program.parameters if p.startswith(prefix) and "." not in p[len(prefix) :]}
    settings = [v for _, v in module.attributes if isinstance(v, Literal)]
    plain = [v for v in rest if not isinstance(v, TensorValue)]
    return tensors == own and all(v == Literal(None) or v in settings for v in plain)


_BATCH_NORM = "torch.nn.functional.batch_norm"


def is_batch_norm_of_base(program: Program, owner: str | None, api: str, facts: Sequence[CallFact]) -> bool:
    """Whether a ``F.batch_norm`` is what the torch base of the class around it would do in the same mode."""
    base = layer_base(program, owner or "")
    if api != _BATCH_NORM or base is None or not base.startswith("torch.nn.BatchNorm"):
        return False
    return all(_is_batch_norm(program, fact) for fact in facts)


_BATCH_NORM_SIGNATURE = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")


def _is_batch_norm(program: Program, fact: CallFact) -> bool:
    """The layer's own tensors, momentum and eps; batch statistics while training, its own in evaluation."""
    given = dict(zip(_BATCH_NORM_SIGNATURE, fact.args, strict=False)) | dict(fact.kwargs)
    mean = given.get("running_mean")
    path = (mean.parameter or "").rpartition(".")[0] if isinstance(mean, TensorValue) else ""
    module = program.modules.get(path)
    if module is None or not path:
        return False
    settings = dict(module.attributes)
    for name in ("running_mean", "running_var", "weight", "bias"):
        own = f"{path}.{name}" if f"{path}.{name}" in program.parameters else None
        if getattr(given.get(name), "parameter", None) != own:
            return False
    return (
        given.get("training", Literal(False)) == Literal(fact.mode == "train")
        and given.get("momentum", Literal(0.1)) == settings.get("momentum")
        and given.get("eps", Literal(1e-5)) == settings.get("eps")
    )


def _returned(forward: FunctionDef) -> set[int]:
    """Keys of the tensors that the function returned."""
    keys = set()
    for statement in forward.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Return) and node.value is not None:
                values = forward.facts.values.get(nid(node.value), ())
                keys |= {v.key for v in values if isinstance(v, TensorValue)}
    return keys


def layer_base(program: Program, cls: str) -> str | None:
    """The torch layer or container from which a person's class derives; None for plain modules."""
    cell = program.cells.get(cls)
    for base in cell.bases if cell else ():
        if base.startswith("torch.nn.") and base != "torch.nn.Module":
            return base
        if (found := layer_base(program, base)) is not None:
            return found
    return None


def starts_layer(scope: Scope, node: ast.AST) -> bool:
    """Whether the node is the ``super().__init__(...)`` of a class that derives from a torch layer."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__")):
            base = layer_base(scope.work.program, scope.function.owner or "")
            return base is not None and scope.work.opmap.row(base) is not None
    return False


def _torch_base(program: Program, cls: str) -> str | None:
    cell = program.cells.get(cls)
    for base in cell.bases if cell else ():
        if base in _OWN_CALLS:
            return base
        if (found := _torch_base(program, base)) is not None:
            return found
    return None
