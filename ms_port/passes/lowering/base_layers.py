"""Subclasses of torch layers: one whose forward makes exactly its base's call is its base, and needs no construct."""

from __future__ import annotations

from ms_port.ir.program import CallFact, FunctionDef, Program
from ms_port.ir.values import FunctionValue, Literal, ModuleValue, TensorValue, Value

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
    forward = _forward(program, cls)
    if base is None or forward is None:
        return False
    made = [fact for facts in forward.facts.calls.values() for fact in facts if _is_torch(fact)]
    if not made or len(made) != forward.facts.activations:
        return False
    inputs = {v.key for values in forward.facts.parameters.values() for v in values if isinstance(v, TensorValue)}
    owners = [v.path for v in forward.facts.parameters.get("self", ()) if isinstance(v, ModuleValue)]
    return all(_is_own_call(fact, _OWN_CALLS[base], inputs, [o or "" for o in owners]) for fact in made)


def _is_torch(fact: CallFact) -> bool:
    return isinstance(fact.callee, FunctionValue) and fact.callee.torch and bool(fact.torch_calls)


def _is_own_call(fact: CallFact, name: str, inputs: set[int], owners: list[str]) -> bool:
    assert isinstance(fact.callee, FunctionValue)
    if fact.callee.name.rpartition(".")[2] != name or not fact.args:
        return False
    given: list[Value] = [*fact.args, *(v for _, v in fact.kwargs)]
    first, rest = given[0], given[1:]
    if not (isinstance(first, TensorValue) and first.key in inputs):
        return False
    return all(isinstance(v, Literal) or (isinstance(v, TensorValue) and _is_owned(v, owners)) for v in rest)


def _is_owned(value: TensorValue, owners: list[str]) -> bool:
    return value.parameter is not None and value.parameter.rpartition(".")[0] in owners


def layer_base(program: Program, cls: str) -> str | None:
    """The torch layer or container from which a person's class derives; None for plain modules."""
    cell = program.cells.get(cls)
    for base in cell.bases if cell else ():
        if base.startswith("torch.nn.") and base != "torch.nn.Module":
            return base
        if (found := layer_base(program, base)) is not None:
            return found
    return None


def _torch_base(program: Program, cls: str) -> str | None:
    cell = program.cells.get(cls)
    for base in cell.bases if cell else ():
        if base in _OWN_CALLS:
            return base
        if (found := _torch_base(program, base)) is not None:
            return found
    return None


def _forward(program: Program, cls: str) -> FunctionDef | None:
    cell = program.cells.get(cls)
    for method in cell.methods if cell else ():
        if method.name == "forward":
            return method
    for base in cell.bases if cell else ():
        if (found := _forward(program, base)) is not None:
            return found
    return None
