"""Examples as test cases: the MindSpore source, the arrays that go in, and what must come out."""

from __future__ import annotations

import ast
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ms_port.opmap.calls import Lowering
from ms_port.opmap.inputs import make_input
from ms_port.opmap.opmap import OpMap
from ms_port.opmap.rows import Example, Row, WeightRule
from ms_port.opmap.translate import Translator, namespace, normalised
from ms_port.opmap.truth import Array, Run, Side, evaluate, perturb

Rules = Mapping[str, Callable[[Array], Array]]
Renames = Callable[[str], WeightRule]


@dataclass
class Case:
    """One example made ready."""

    name: str
    row: Row
    example: Example
    text: str
    """MindSpore expression (of a layer: its constructor)."""
    call: str
    """What construct returns, over the inputs' names (and ``self.m``)."""
    inputs: dict[str, Array]
    functions: frozenset[str]
    random: str | None
    layer: bool
    initializer: bool
    """Whether the text is a statement that sets the only input, a parameter."""
    paths: list[str] = field(default_factory=list)
    truth: list[Any] = field(default_factory=list)
    single: list[Any] = field(default_factory=list)
    projections: list[Array | None] = field(default_factory=list)
    gradients: dict[str, tuple[Array, Array]] = field(default_factory=dict)
    """Input or MindSpore parameter -> truth and float32 of the gradient."""
    buffers: dict[str, tuple[Array, Array]] = field(default_factory=dict)
    weights: dict[str, Array] = field(default_factory=dict)
    """MindSpore parameter -> array."""


def make_case(op_map: OpMap, row: Row, index: int, rules: Rules) -> Case:
    """Translate an example and compute torch's side. Raises NoLowering, AssertionError (text) or what torch raises."""
    example = row.examples[index]
    name = f"{row.api}[{index}]"
    seed = zlib.crc32(name.encode())
    inputs = {key: make_input(spec, key, seed) for key, spec in (example.inputs or {"x": "float32[2,3,4]"}).items()}
    names = {**namespace(), **inputs}
    with torch.random.fork_rng():
        torch.manual_seed(seed % 2**31)
        translator = Translator(op_map, names)
        text = normalised(ast.unparse(translator.translate(example.torch)))
        if text != normalised(example.mindspore):
            raise AssertionError(f"expected {normalised(example.mindspore)}\n     got {text}")
        made = eval(example.torch, dict(names)) if _is_layer(example.torch, row) else None
        expression, call, lowerings = example.torch, text, translator.lowerings
        if made is not None:
            expression = example.call or f"m({', '.join(inputs)})"
            calling = Translator(op_map, {**names, "m": made})
            call = re.sub(r"\bm\b", "self.m", ast.unparse(calling.translate(expression)))
            lowerings = lowerings + calling.lowerings
        case = _case(name, row, example, text, call, inputs, lowerings, made is not None)
        if example.untested is None:
            fixed = frozenset(key for key, spec in example.inputs.items() if spec.endswith("#fixed"))
            run = Run(expression, made, inputs, names, fixed, example.gradient, case.initializer, seed)
            _compute(case, run, layer_rules(made, lowerings, op_map) if made is not None else _no_weights, rules)
    return case


def _case(
    name: str,
    row: Row,
    example: Example,
    text: str,
    call: str,
    inputs: Mapping[str, torch.Tensor],
    lowerings: list[Lowering],
    layer: bool,
) -> Case:
    random = next((part.random for part in lowerings if part.random), None)
    if random:
        call = re.sub(r"(?<!self\.)\brand\b", "self.rand", normalised(call))
    initializer = ".set_data(initializer(" in text
    if initializer:
        call = f"self.{next(iter(inputs))} * 1"
    arrays = {key: tensor.numpy() for key, tensor in inputs.items()}
    functions = frozenset[str]().union(*(part.functions for part in lowerings))
    return Case(name, row, example, text, call, arrays, functions, random, layer, initializer)


def _is_layer(text: str, row: Row) -> bool:
    """Whether an example builds a layer (rather than calls a function)."""
    return row.api.rpartition(".")[2][:1].isupper() or text.startswith(("nn.Sequential", "nn.Module"))


def _compute(case: Case, run: Run, rename: Renames, rules: Rules) -> None:
    """Torch in float64 and float32; gradients, buffers and weights under MindSpore's names."""

    def carried(name: str, *arrays: Array) -> tuple[str, list[Array]] | None:
        rule = rename(name)
        if rule.mindspore is None:
            return None
        return rule.mindspore, [a if rule.rule == "same" else rules[rule.rule](a) for a in arrays]

    if run.module is not None:
        perturb(run.module, run.seed)
        run.module.train(case.example.train)
        states = {name: tensor.numpy() for name, tensor in run.module.state_dict().items()}
        found = [carried(name, array) for name, array in states.items()]
        case.weights = {item[0]: item[1][0] for item in found if item}
    wide: Side = evaluate(run, torch.float64)
    narrow = evaluate(run, torch.float32)
    case.paths, case.truth, case.single = wide.paths, wide.outputs, narrow.outputs
    case.projections = wide.projections
    for key, gradient in wide.gradients.items():
        item = (key, [gradient, narrow.gradients[key]])
        target = item if key in run.inputs else carried(key, *item[1])
        if target:
            case.gradients[target[0]] = (target[1][0], target[1][1])
    if case.example.train and run.module is not None:
        for key, _ in run.module.named_buffers():
            target = carried(key, wide.state[key], narrow.state[key])
            if target:
                case.buffers[target[0]] = (target[1][0], target[1][1])


def _no_weights(name: str) -> WeightRule:
    raise KeyError(name)


def layer_rules(module: torch.nn.Module, lowerings: list[Lowering], op_map: OpMap) -> Renames:
    """Torch tensor name -> rule, for a layer or for the layers in a container."""
    api = f"torch.nn.{type(module).__name__}"
    used = [part.row for part in lowerings if part.row.api == api]
    row = used[-1] if used else op_map.row(api)
    if row is not None and (row.weights or not list(module.children())):
        return row.weight
    children = {name: layer_rules(child, lowerings, op_map) for name, child in module.named_children()}

    def rename(name: str) -> WeightRule:
        child, _, rest = name.partition(".")
        rule = children[child](rest)
        to = None if rule.mindspore is None else f"{child}.{rule.mindspore}"
        return WeightRule(name, to, rule.rule)

    return rename
