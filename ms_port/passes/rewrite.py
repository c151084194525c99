"""Applying a change to every function of a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ms_port.ir.program import FunctionDef, Program


def map_functions(program: Program, change: Callable[[FunctionDef], FunctionDef]) -> Program:
    """The program with ``change`` applied to each method, free function and the factory."""
    cells = {
        key: replace(cell, methods=tuple(change(method) for method in cell.methods))
        for key, cell in program.cells.items()
    }
    functions = {key: change(function) for key, function in program.functions.items()}
    factory = change(program.factory) if program.factory is not None else None
    return replace(program, cells=cells, functions=functions, factory=factory)


def all_functions(program: Program) -> Iterator[FunctionDef]:
    """Every method and free function, and the factory."""
    for cell in program.cells.values():
        yield from cell.methods
    yield from program.functions.values()
    if program.factory is not None:
        yield program.factory


def parameters(function: FunctionDef) -> list[str]:
    """Names of positional and keyword parameters, without self."""
    args = function.node.args
    names = [a.arg for a in [*args.args, *args.kwonlyargs]]
    return names[1:] if function.kind in ("method", "property", "class") and names else names
