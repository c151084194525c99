"""Name: classes and functions of different modules share one file of the output, so their names become unique."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace

from ms_port.ir.program import CellDef, FunctionDef, Program
from ms_port.ir.tree import copy, names_stored
from ms_port.passes.rewrite import map_functions

RESERVED = frozenset(
    "Parameter Tensor build_model dataclass field functions initializer load_weights math mint ms nn np ops "
    "partial replace".split()
)
"""Names that the output imports or defines itself."""

_WRITTEN_BY_THE_OP_MAP = frozenset("Parameter Tensor initializer math mint ms nn np ops".split())


def unique_names(program: Program) -> Program:
    """Give the second class or function of a name another one (``Block`` of two files: ``Block`` and ``Block2``)."""
    taken = set(RESERVED)
    configs = {name.rpartition(".")[2] for name in program.config_classes}
    cells: dict[str, CellDef] = {}
    for key, cell in _first_root(program.cells, program.root).items():
        name = _free(cell.name, taken | (configs if key not in program.config_classes else set()))
        taken.add(name)
        cells[key] = replace(cell, name=name)
    functions: dict[str, FunctionDef] = {}
    for key, function in program.functions.items():
        if "<locals>" in key:
            functions[key] = function
            continue
        name = _free(function.name, taken)
        taken.add(name)
        functions[key] = replace(function, name=name)
    named = replace(program, cells={key: cells[key] for key in program.cells}, functions=functions)
    return map_functions(named, _free_locals)


def _free_locals(function: FunctionDef) -> FunctionDef:
    """A local variable called ``ops`` would stand before the package that the port's calls are written with."""
    args = function.node.args
    parameters = {a.arg for a in [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg] if a}
    stored = {name for statement in function.body for name in names_stored(statement)}
    shadowing = stored & _WRITTEN_BY_THE_OP_MAP - parameters
    if not shadowing:
        return function
    read = {n.id for s in function.body for n in ast.walk(s) if isinstance(n, ast.Name)}
    names = {name: _free(name, {*read, *parameters, name}) for name in sorted(shadowing)}
    body = tuple(map(copy, function.body))
    for node in (n for s in body for n in ast.walk(s)):
        if isinstance(node, ast.Name) and node.id in names:
            node.id = names[node.id]
    return replace(function, body=body)


def _first_root(cells: Mapping[str, CellDef], root: str) -> dict[str, CellDef]:
    """The root keeps its name."""
    return {**({root: cells[root]} if root in cells else {}), **cells}


def _free(name: str, taken: set[str]) -> str:
    if name not in taken:
        return name
    number = 2
    while f"{name}{number}" in taken:
        number += 1
    return f"{name}{number}"
