"""``Base.__init__(self, x)`` in a constructor is ``super().__init__(x)``: the base of a cell is set up once.

So is ``nn.LayerNorm.forward(self, x)`` of a class whose base is that torch layer.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from ms_port.ir.program import CallFact, FunctionDef, Program
from ms_port.ir.tree import copy, expression, nid
from ms_port.ir.values import FunctionValue, ModuleValue
from ms_port.passes.rewrite import map_functions


def call_bases_by_super(program: Program) -> Program:
    """Rewrite the calls in classes whose one base is a class of the person's, or whose first is a torch layer."""
    return map_functions(program, lambda function: _by_super(program, function))


@dataclass(frozen=True, slots=True)
class _Base:
    """What a call of a base's method is told by."""

    keys: frozenset[str] = frozenset()
    """Keys of a person's own constructors."""
    layer: str = ""
    """Name of a torch layer."""

    def method(self, function: FunctionDef, node: ast.AST) -> str | None:
        """``__init__`` or ``forward``, where the node is a call that names the base and enters its method."""
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name() | ast.Attribute(), attr="__init__" | "forward" as name),
                args=[ast.Name(id="self"), *_],
            ):
                facts = function.facts.calls.get(nid(node), ())
                ending = f".{self.layer}.{name}"
                if self.keys and facts and {fact.entered for fact in facts} <= self.keys:
                    return name if name == "__init__" else None
                callees = [fact.callee for fact in facts if isinstance(fact.callee, FunctionValue)]
                if self.layer and callees and all(c.torch and c.name.endswith(ending) for c in callees):
                    return name
        return None


def _by_super(program: Program, function: FunctionDef) -> FunctionDef:
    cell = program.cells.get(function.owner or "")
    if cell is None or not cell.bases or function.kind != "method":
        return function
    base = program.cells.get(cell.bases[0])
    if base is None and cell.bases[0].startswith("torch.nn.") and cell.bases[0] != "torch.nn.Module":
        found = _Base(layer=cell.bases[0].rpartition(".")[2])
    elif base is not None and function.name == "__init__" and len(cell.bases) == 1:
        found = _Base(frozenset(m.key for m in base.methods if m.name == "__init__"))
    else:
        return function
    if not any(found.method(function, n) for s in function.body for n in ast.walk(s)):
        return function
    body = tuple(map(copy, function.body))
    calls = dict(function.facts.calls)
    for node in (n for s in body for n in ast.walk(s)):
        if isinstance(node, ast.Call) and (name := found.method(function, node)) is not None:
            calls[nid(node)] = tuple(_bound(fact, cell.bases[0], name) for fact in calls[nid(node)])
            node.func, node.args = expression(f"super().{name}"), node.args[1:]
    return replace(function, body=body, facts=replace(function.facts, calls=calls))


def _bound(fact: CallFact, base: str, name: str) -> CallFact:
    """The call as a method of its first argument."""
    owner = fact.args[0]
    if not base.startswith("torch.nn.") or not isinstance(owner, ModuleValue):
        return replace(fact, args=fact.args[1:])
    return replace(fact, callee=FunctionValue(f"{base}.{name}", True, owner), args=fact.args[1:])
