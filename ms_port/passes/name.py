"""Name: classes and functions of different modules share one file of the output, so their names become unique."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace

from ms_port.ir.program import CellDef, FunctionDef, Program
from ms_port.ir.tree import copy, names_stored, nid
from ms_port.passes.lowering.inherited import find_method
from ms_port.passes.rewrite import all_functions, map_functions

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
        if "<locals>" in key or function.name == "<lambda>":  # called by the name that holds it
            functions[key] = function
            continue
        name = _free(function.name, taken)
        taken.add(name)
        functions[key] = replace(function, name=name)
    named = replace(program, cells={key: cells[key] for key in program.cells}, functions=functions)
    names = {function.key: _shadowing(function) for function in all_functions(named)}
    return _free_arguments(map_functions(named, lambda function: _free_locals(function, names)), names)


def _free_arguments(program: Program, renamed: Mapping[str, Mapping[str, str]]) -> Program:
    """What instances were made with is known by the names of their constructor's parameters."""

    def names(cls: str) -> Mapping[str, str]:
        init = find_method(program, cls, "__init__")
        return renamed.get(init.key, {}) if init is not None else {}

    modules = {
        path: replace(module, arguments=tuple((found.get(k, k), v) for k, v in module.arguments)) if found else module
        for path, module in program.modules.items()
        for found in [names(module.cls)]
    }
    root = names(program.root)
    given = tuple((root.get(k, k), v) for k, v in program.factory_arguments)
    return replace(program, modules=modules, factory_arguments=given)


def _shadowing(function: FunctionDef) -> dict[str, str]:
    """A local called ``ops`` would stand before the package that the port's calls are written with: its new name."""
    parameters = _parameters(function)
    stored = {name for statement in function.body for name in names_stored(statement)}
    shadowing = (stored | parameters) & _WRITTEN_BY_THE_OP_MAP
    read = {n.id for s in function.body for n in ast.walk(s) if isinstance(n, ast.Name)}
    return {name: _free(name, {*read, *parameters, name}) for name in sorted(shadowing)}


def _parameters(function: FunctionDef) -> set[str]:
    args = function.node.args
    return {a.arg for a in [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg] if a}


def _free_locals(function: FunctionDef, renamed: Mapping[str, Mapping[str, str]]) -> FunctionDef:
    """Give the function's own locals, those of the functions around it, and the keywords of its calls their names."""
    names: dict[str, str] = {}
    for key, found in renamed.items():
        if function.key.startswith(f"{key}.<locals>."):
            names |= found
    own = {name for s in function.body for name in names_stored(s)} | _parameters(function)
    names = {old: new for old, new in names.items() if old not in own} | dict(renamed[function.key])
    calls = {
        node: renamed[key]
        for node, facts in function.facts.calls.items()
        for key in {fact.entered for fact in facts}
        if key is not None and renamed.get(key)
    }
    if not names and not calls:
        return function
    body, node = tuple(map(copy, function.body)), copy(function.node)
    for part in (n for s in [*body, node.args] for n in ast.walk(s)):
        match part:
            case ast.Name(id=name) if name in names:
                part.id = names[name]
            case ast.arg(arg=name) if name in renamed[function.key] and _is_own(part, node):
                part.arg = names[name]
            case ast.Call(keywords=keywords) if nid(part) in calls:
                for keyword in keywords:
                    keyword.arg = calls[nid(part)].get(keyword.arg or "", keyword.arg)
    parameters = {names.get(name, name): values for name, values in function.facts.parameters.items()}
    return replace(function, body=body, node=node, facts=replace(function.facts, parameters=parameters))


def _is_own(argument: ast.arg, node: ast.FunctionDef) -> bool:
    return any(n is argument for n in ast.walk(node.args))


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
