"""In which order definitions stand: as in the source, and every class after its bases and what its header reads."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from ms_port.ir.program import CellDef, FunctionDef, Program


def ordered(program: Program) -> list[CellDef | FunctionDef]:
    """Cells and free functions: files in the order of their dependencies, inside a file by line."""
    own = {key: f for key, f in program.functions.items() if f.kind != "expanded"}
    definitions: dict[str, CellDef | FunctionDef] = {**own, **program.cells}
    by_name = {d.name: k for k, d in definitions.items()}
    reads = {key: _reads(d, by_name) | _base_keys(d, definitions) for key, d in definitions.items()}
    files = _file_order(definitions, reads, program.root)
    ranked = sorted(definitions, key=lambda k: (files[definitions[k].loc.file], definitions[k].loc.line, k))
    placed: list[str] = []
    for key in ranked:
        _place(key, definitions, placed, by_name)
    return [definitions[k] for k in placed]


def _place(
    key: str, definitions: Mapping[str, CellDef | FunctionDef], placed: list[str], by_name: Mapping[str, str]
) -> None:
    """Append a definition after those that must exist when its header runs: bases, defaults, class attributes."""
    if key in placed:
        return
    definition = definitions[key]
    for needed in sorted(_base_keys(definition, definitions) | _header_reads(definition, by_name)):
        if needed != key and needed not in placed:
            _place(needed, definitions, placed, by_name)
    if key not in placed:
        placed.append(key)


def _base_keys(definition: CellDef | FunctionDef, known: Mapping[str, object]) -> set[str]:
    return {b for b in definition.bases if b in known} if isinstance(definition, CellDef) else set()


def _header_reads(definition: CellDef | FunctionDef, by_name: Mapping[str, str]) -> set[str]:
    functions = definition.methods if isinstance(definition, CellDef) else (definition,)
    nodes: list[ast.AST] = [n for f in functions for n in [*f.node.args.defaults, *f.node.args.kw_defaults] if n]
    for function in functions:
        nodes.extend(a.annotation for a in function.node.args.args if a.annotation)
        if function.node.returns is not None:
            nodes.append(function.node.returns)
    if isinstance(definition, CellDef):
        nodes.extend(definition.attributes)
    return {by_name[n.id] for root in nodes for n in ast.walk(root) if isinstance(n, ast.Name) and n.id in by_name}


def _reads(definition: CellDef | FunctionDef, by_name: Mapping[str, str]) -> set[str]:
    functions = definition.methods if isinstance(definition, CellDef) else (definition,)
    return {
        by_name[n.id]
        for f in functions
        for s in f.body
        for n in ast.walk(s)
        if isinstance(n, ast.Name) and n.id in by_name
    }


def _file_order(
    definitions: Mapping[str, CellDef | FunctionDef], reads: Mapping[str, set[str]], root: str
) -> dict[str, int]:
    """Files, each after the files that it reads from (depth first from the root)."""
    order: dict[str, int] = {}
    visiting: set[str] = set()

    def visit(file: str) -> None:
        if file in order or file in visiting:
            return
        visiting.add(file)
        for key in sorted(definitions, key=lambda k: (definitions[k].loc.file, definitions[k].loc.line)):
            if definitions[key].loc.file == file:
                for other in sorted(reads[key]):
                    visit(definitions[other].loc.file)
        order[file] = len(order)

    if root in definitions:
        visit(definitions[root].loc.file)
    for key in sorted(definitions):
        visit(definitions[key].loc.file)
    return order
