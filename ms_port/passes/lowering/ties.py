"""Tied weights that a library ties in a method of its own, which the port leaves out (``post_init``)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import takewhile

from ms_port.ir.values import FunctionValue, ModuleValue, Value
from ms_port.passes.lowering.held import parameter_path
from ms_port.passes.lowering.scope import Scope


def left_out(scope: Scope, statement: ast.Expr) -> bool:
    """Whether the statement calls a method of a module that the op map drops as a whole."""
    facts = scope.calls(statement.value) if isinstance(statement.value, ast.Call) else ()
    return bool(facts) and all(_is_left_out(scope, fact.callee) for fact in facts)


def _is_left_out(scope: Scope, callee: Value) -> bool:
    if not isinstance(callee, FunctionValue) or callee.owner is None:
        return False
    row = scope.work.opmap.row(callee.name.replace(":", "."))
    return row is not None and bool(row.overloads) and row.overloads[0].forms[0].kind == "drop"


def tie_statements(scope: Scope) -> list[ast.stmt]:
    """``self.decoder.weight = self.embeddings.embedding_table`` for each pair whose common module this is."""
    owners = [v for v in scope.facts.parameters.get("self", ()) if isinstance(v, ModuleValue) and v.path is not None]
    versions: set[tuple[str, ...]] = set()
    made: list[ast.stmt] = []
    for path in dict.fromkeys(owner.path or "" for owner in owners):
        skip = path.count(".") + bool(path)
        made = [
            ast.Assign(
                [parameter_path(scope.work, tied, skip, ast.Store())],
                parameter_path(scope.work, first, skip, ast.Load()),
                lineno=scope.function.node.lineno,
            )
            for tied, first in _pairs(scope, path)
        ]
        versions.add(tuple(map(ast.unparse, made)))
    if len(versions) > 1:
        scope.flag(
            scope.function.node,
            "MSP105",
            "its instances tie different weights, which the port does not tie",
            "Tie them by hand after the model is built.",
        )
        return []
    return made


def _pairs(scope: Scope, path: str) -> Iterator[tuple[str, str]]:
    """Tied tensors of different modules below ``path``, with the one that each is tied to, save those that a module
    further down ties in the same way."""
    program = scope.work.program
    for name, tensor in program.parameters.items():
        if tensor.tied_to is None:
            continue
        left, right = (n.rpartition(".")[0] for n in (name, tensor.tied_to))
        if left not in program.modules or right not in program.modules:
            continue  # one module under two names
        steps = zip(left.split("."), right.split("."), strict=False)
        common = [a for a, _ in takewhile(lambda pair: pair[0] == pair[1], steps)]
        between = [".".join(common[: i + 1]) for i in range(path.count(".") + bool(path), len(common))]
        inside = not path or common[: path.count(".") + 1] == path.split(".")
        if inside and not any(_ties(scope, program.modules[p].cls) for p in between if p in program.modules):
            yield name, tensor.tied_to


def _ties(scope: Scope, cls: str) -> bool:
    """Whether the constructor of a class, or of a base, calls a method that the op map drops."""
    cell = scope.work.program.cells.get(cls)
    if cell is None:
        return False
    calls = (
        fact
        for method in cell.methods
        if method.name == "__init__"
        for facts in method.facts.calls.values()
        for fact in facts
    )
    return any(_is_left_out(scope, fact.callee) for fact in calls) or any(_ties(scope, b) for b in cell.bases)
