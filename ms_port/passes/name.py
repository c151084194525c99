"""Name: classes and functions of different modules share one file of the output, so their names become unique."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ms_port.ir.program import CellDef, FunctionDef, Program

RESERVED = frozenset(
    "Parameter Tensor build_model dataclass field functions initializer load_weights math mint ms nn np ops "
    "partial".split()
)
"""Names that the output imports or defines itself."""


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
    return replace(program, cells={key: cells[key] for key in program.cells}, functions=functions)


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
