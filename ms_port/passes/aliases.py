"""Aliases: a local name for a function or class of the port gives way to what it names.

``attend = ATTENTIONS[config.kind]`` was decided by the trace and reads ``attend = fused_attention``: the call names it.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from ms_port.ir.program import FunctionDef, Program
from ms_port.ir.tree import copy, names_stored
from ms_port.passes.finish import local_names
from ms_port.passes.rewrite import map_functions


def without_aliases(program: Program) -> Program:
    """The program with every local name that only stands for a function or class replaced by it."""
    named = {f.name for f in program.functions.values()} | {c.name for c in program.cells.values()}
    return map_functions(program, lambda function: _without(function, frozenset(named)))


def _without(function: FunctionDef, named: frozenset[str]) -> FunctionDef:
    found = _aliases(function, named - local_names(function))
    if not found:
        return function
    put = _Put(found)
    kept = [s for s in function.body if not (isinstance(s, ast.Assign) and _alias(s) in found)]
    return replace(function, body=tuple(put.visit(copy(s)) for s in kept))


def _alias(statement: ast.Assign) -> str | None:
    match statement.targets:
        case [ast.Name(id=name)]:
            return name
    return None


def _aliases(function: FunctionDef, named: frozenset[str]) -> dict[str, ast.Name]:
    """Names that one statement of the function's own body binds to a function or class, and nothing else binds."""
    arguments = {a.arg for a in [*function.node.args.args, *function.node.args.kwonlyargs]}
    bound = [n for s in function.body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    counts = {name: sum(n.id == name for n in bound) for name in {n.id for n in bound}}
    found: dict[str, ast.Name] = {}
    for statement in function.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=meant) as value) if meant in named:
                if counts[name] == 1 and name not in arguments and not _is_inner(function, name):
                    found[name] = value
    return found


def _is_inner(function: FunctionDef, name: str) -> bool:
    """Whether a function defined inside takes the name as its own."""
    inner = (n for s in function.body for n in ast.walk(s) if isinstance(n, ast.FunctionDef | ast.Lambda))
    return any(name in {a.arg for a in f.args.args} | names_stored(f) for f in inner)


class _Put(ast.NodeTransformer):
    def __init__(self, found: dict[str, ast.Name]) -> None:
        self._found = found

    def visit_Name(self, node: ast.Name) -> ast.AST:
        meant = self._found.get(node.id)
        return ast.copy_location(copy(meant), node) if meant is not None and isinstance(node.ctx, ast.Load) else node
