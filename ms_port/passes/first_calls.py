"""What a model does in its first call only: ``if not self.ready: ...; self.ready = True``.

A trace sees one call of a fresh model, so it takes the way of the first call, and the port would take it in every call.
GRAPH_MODE keeps no Python state on a cell that could tell them apart: such a branch is flagged.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from ms_port.ir.flags import Flag, Place
from ms_port.ir.program import FunctionDef, Program
from ms_port.ir.tree import is_self_attribute, nid
from ms_port.ir.values import Literal, ModuleValue
from ms_port.passes.rewrite import all_functions

_Key = tuple[str, str]
"""(class, attribute)."""


def flag_first_calls(program: Program) -> Program:
    """A flag (MSP402) for each condition on a truth value of ``self`` that the same call turns round."""
    graph = [f for f in all_functions(program) if not f.during_init]
    written = {key: value for function in graph for key, value in _written(function)}
    flags = [
        _flag(function, test, key)
        for function in graph
        for test, key, value in _decided(function)
        if key in written and written[key] is not value
    ]
    return replace(program, flags=(*program.flags, *dict.fromkeys(flags)))


def _owners(function: FunctionDef) -> set[str]:
    return {v.cls for v in function.facts.parameters.get("self", ()) if isinstance(v, ModuleValue)}


def _written(function: FunctionDef) -> Iterator[tuple[_Key, bool]]:
    """``self.ready = True`` that ran."""
    for node in (n for statement in function.body for n in ast.walk(statement)):
        if isinstance(node, ast.Assign) and nid(node) in function.facts.ran and isinstance(node.value, ast.Constant):
            for target in node.targets:
                if is_self_attribute(target) and isinstance(node.value.value, bool):
                    assert isinstance(target, ast.Attribute)
                    for owner in _owners(function):
                        yield (owner, target.attr), node.value.value


def _decided(function: FunctionDef) -> Iterator[tuple[ast.expr, _Key, bool]]:
    """Conditions on ``self.ready`` with the truth value that was seen there."""
    for node in (n for statement in function.body for n in ast.walk(statement)):
        if not isinstance(node, ast.If | ast.IfExp):
            continue
        for part in ast.walk(node.test):
            if isinstance(part, ast.Attribute) and is_self_attribute(part):
                seen = [v.value for v in function.facts.values.get(nid(part), ()) if isinstance(v, Literal)]
                if seen and isinstance(value := seen[0], bool) and all(v is value for v in seen):
                    yield from ((node.test, (owner, part.attr), value) for owner in _owners(function))


def _flag(function: FunctionDef, test: ast.expr, key: _Key) -> Flag:
    return Flag(
        rule="MSP402",
        severity="warning",
        message=f"`{ast.unparse(test)}` holds in the first call only, which sets `self.{key[1]}`: "
        "the port does in every call what torch does in the first",
        module=key[0],
        source=Place(function.loc.file, test.lineno),
        advice="Take the branch out of construct: run it once before training, on the cell that build_model() made.",
    )
