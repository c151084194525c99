"""A function that writes its argument in place and returns nothing returns the argument: ``mask_(scores, 3)`` in the
person's source is ``scores = mask_(scores, 3)`` in the port, whose tensors are values.

Here the function gets its ``return`` and its calls the result that they then have; ``functionalize`` makes the
assignments, as it does for functions that return what they wrote.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, replace

from ms_port.ir.program import CallFact, FunctionDef, Program
from ms_port.ir.tree import copy, nid
from ms_port.ir.values import Literal, TensorValue
from ms_port.passes.rewrite import all_functions, map_functions


@dataclass(frozen=True, slots=True)
class _Use:
    """One evaluation of a call that entered a function."""

    fact: CallFact
    node: ast.Call
    alone: bool
    """Whether the call is a statement of its own, in graph code."""


def hand_back(program: Program) -> Program:
    """The program with a ``return`` in each function that only writes one of its arguments."""
    uses = _uses(program)
    handed: dict[str, tuple[str, int]] = {}
    for function in all_functions(program):
        used = uses.get(function.key, [])
        if used and all(use.alone for use in used) and (found := _written(program, function, used)) is not None:
            handed[function.key] = found
    if not handed:
        return program

    def one(function: FunctionDef) -> FunctionDef:
        function = _calls_given(function, handed)
        return _returning(function, handed[function.key][0]) if function.key in handed else function

    return map_functions(program, one)


def _uses(program: Program) -> dict[str, list[_Use]]:
    found: dict[str, list[_Use]] = defaultdict(list)
    for function in all_functions(program):
        nodes = [n for s in function.body for n in ast.walk(s)]
        alone = {id(n.value) for n in nodes if isinstance(n, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Call):
                for fact in function.facts.calls.get(nid(node), ()):
                    use = _Use(fact, node, id(node) in alone and not function.during_init)
                    found[fact.entered or ""].append(use)
    return found


def _places(program: Program, fact: CallFact) -> list[int]:
    """Positions of the arguments whose memory the call writes; a keyword's counts as beyond the last."""
    written = {s for i in fact.torch_calls for s in program.ledger[i].writes}
    given = [*fact.args, *(v for _, v in fact.kwargs)]
    return [i for i, v in enumerate(given) if isinstance(v, TensorValue) and v.storage in written]


def _written(program: Program, function: FunctionDef, uses: list[_Use]) -> tuple[str, int] | None:
    """The parameter that the function writes, and its position in the calls; None where it does more or less."""
    if function.during_init or function.kind not in ("function", "method", "static") or function.name == "<lambda>":
        return None
    places = {place for use in uses for place in _places(program, use.fact)}
    if len(places) != 1 or any(use.fact.result != Literal(None) or use.fact.opaque for use in uses):
        return None
    place = places.pop()
    if not all(place < len(use.node.args) and isinstance(use.node.args[place], ast.Name) for use in uses):
        return None
    keys = {v.key for use in uses if isinstance(v := use.fact.args[place], TensorValue)}
    given = function.facts.parameters
    names = [n for n, vs in given.items() if vs and all(isinstance(v, TensorValue) and v.key in keys for v in vs)]
    if len(names) != 1 or _rebinds(function, names[0]):
        return None
    return names[0], place


def _rebinds(function: FunctionDef, name: str) -> bool:
    """Whether the parameter's name comes to hold another tensor, or the function returns something."""
    nodes = [n for s in function.body for n in ast.walk(s)]
    in_place = {id(n.target) for n in nodes if isinstance(n, ast.AugAssign)}
    for node in nodes:
        if isinstance(node, ast.Yield | ast.YieldFrom) or (isinstance(node, ast.Return) and not _returns_none(node)):
            return True
    return any(
        isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id == name and id(n) not in in_place
        for n in nodes
    )


def _returns_none(node: ast.Return) -> bool:
    return node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None)


def _returning(function: FunctionDef, name: str) -> FunctionDef:
    body = [_Returns(name).visit(copy(s)) for s in function.body]
    if not isinstance(body[-1], ast.Return):
        body.append(ast.copy_location(ast.Return(ast.Name(name, ast.Load())), body[-1]))
    node = copy(function.node)
    node.returns = None
    return replace(function, node=node, body=tuple(body))


class _Returns(ast.NodeTransformer):
    def __init__(self, name: str) -> None:
        self._name = name

    def visit_Return(self, node: ast.Return) -> ast.Return:
        node.value = ast.copy_location(ast.Name(self._name, ast.Load()), node)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        return node


def _calls_given(function: FunctionDef, handed: dict[str, tuple[str, int]]) -> FunctionDef:
    """The function whose calls of those have the argument as their result."""
    changed = {
        number: tuple(
            replace(f, result=f.args[handed[f.entered][1]]) if f.entered is not None and f.entered in handed else f
            for f in facts
        )
        for number, facts in function.facts.calls.items()
        if any(f.entered in handed for f in facts)
    }
    if not changed:
        return function
    values = {number: tuple(f.result for f in facts) for number, facts in changed.items()}
    facts = replace(
        function.facts, calls={**function.facts.calls, **changed}, values={**function.facts.values, **values}
    )
    return replace(function, facts=facts)
