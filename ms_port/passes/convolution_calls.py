"""``self._conv_forward(x, w, b)``, torch's own method of a convolution, is the function that it calls."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ms_port.ir.program import CallFact, FunctionDef, ModuleInstance, Program
from ms_port.ir.tree import copy, literal, nid
from ms_port.ir.values import FunctionValue, Literal, Value
from ms_port.passes.rewrite import map_functions

_METHOD = "_conv_forward"
_FUNCTIONS = {"torch.nn.Conv1d": "conv1d", "torch.nn.Conv2d": "conv2d", "torch.nn.Conv3d": "conv3d"}
_SETTINGS = ("stride", "padding", "dilation", "groups")


def call_convolutions(program: Program) -> Program:
    """Write the function in its place, with the settings that the layer holds, where the layer pads with zeros."""

    def one(function: FunctionDef) -> FunctionDef:
        walks = (ast.walk(s) for s in function.body)
        if not any(isinstance(n, ast.Attribute) and n.attr == _METHOD for walk in walks for n in walk):
            return function
        change = _Change(program, function)
        body = tuple(change.visit(copy(s)) for s in function.body)
        facts = replace(function.facts, calls=change.calls, values=change.values)
        return replace(function, body=body, facts=facts)

    return map_functions(program, one)


@dataclass
class _Change(ast.NodeTransformer):
    program: Program
    function: FunctionDef
    calls: dict[int, tuple[CallFact, ...]] = field(init=False)
    values: dict[int, tuple[Value, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self.calls, self.values = dict(self.function.facts.calls), dict(self.function.facts.values)
        self._next = 1 + max((nid(n) for s in self.function.body for n in ast.walk(s)), default=0)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        facts = self.calls.get(nid(node), ())
        layers = [self._layer(fact) for fact in facts]
        kinds = {_kind(self.program, layer.cls) if layer is not None else None for layer in layers}
        known = [layer for layer in layers if layer is not None and _pads_zeros(layer)]
        kind = kinds.pop() if len(kinds) == 1 else None
        if not facts or kind is None or len(known) < len(facts) or node.keywords or not 2 <= len(node.args) <= 3:
            return node
        assert isinstance(node.func, ast.Attribute)
        settings = [self._setting(node.func.value, name, known) for name in _SETTINGS]
        bias = [] if len(node.args) == 3 else [literal(None)]
        name = _FUNCTIONS[kind]
        self.calls[nid(node)] = tuple(_of_function(f, name, held) for f, held in zip(facts, known, strict=True))
        node.func = ast.copy_location(ast.Attribute(ast.Name("F", ast.Load()), name, ast.Load()), node.func)
        node.args = [*node.args, *bias, *settings]
        return node

    def _layer(self, fact: CallFact) -> ModuleInstance | None:
        callee = fact.callee
        if not isinstance(callee, FunctionValue) or not callee.torch or not callee.name.endswith(f".{_METHOD}"):
            return None
        return self.program.modules.get(callee.owner.path or "") if callee.owner is not None else None

    def _setting(self, owner: ast.expr, name: str, layers: Sequence[ModuleInstance]) -> ast.expr:
        made = ast.copy_location(ast.Attribute(copy(owner), name, ast.Load()), owner)
        made.nid, self._next = self._next, self._next + 1  # type: ignore[attr-defined]
        self.values[nid(made)] = tuple(dict(layer.attributes)[name] for layer in layers)
        return made


def _of_function(fact: CallFact, name: str, layer: ModuleInstance) -> CallFact:
    held = dict(layer.attributes)
    args = (*fact.args, *([Literal(None)] if len(fact.args) == 2 else []), *(held[s] for s in _SETTINGS))
    return replace(fact, callee=FunctionValue(f"torch.nn.functional.{name}", True), args=args)


def _pads_zeros(layer: ModuleInstance) -> bool:
    held = dict(layer.attributes)
    return held.get("padding_mode") == Literal("zeros") and all(isinstance(held.get(s), Literal) for s in _SETTINGS)


def _kind(program: Program, cls: str) -> str | None:
    """The convolution that a class is or derives from."""
    if cls in _FUNCTIONS:
        return cls
    cell = program.cells.get(cls)
    found = (_kind(program, base) for base in cell.bases) if cell is not None else ()
    return next((kind for kind in found if kind is not None), None)
