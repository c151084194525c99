"""Parameters of cells that enter a container after it has its place: MindSpore names them without the container's name.

``self.layers = nn.CellList()`` and then ``self.layers.append(cell)`` gives ``0.weight`` where torch has
``layers.0.weight``. A cell that holds this one sets the names anew, so it is the root alone that needs it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace

from ms_port.ir.program import CellDef, FunctionDef, Program
from ms_port.ir.tree import expression

_FILLS = frozenset({"append", "extend", "insert", "update"})
_CONTAINERS = frozenset({"nn.CellList", "nn.CellDict", "nn.SequentialCell", "CellList", "LayerList", "LayerDict"})
_COMMENT = "# by their place: cells came into lists and dicts that had theirs"


def name_parameters_again(program: Program) -> Program:
    """``self.update_parameters_name()`` at the end of the root's constructor where cells come in late."""
    root = program.modules.get("")
    cell = program.cells.get(root.cls) if root is not None else None
    family = tuple(_with_bases(program, cell)) if cell is not None else ()
    owner = next((c for c in family if _constructor(c) is not None), None)
    children = {name for name, _ in root.children} if root is not None else set()
    methods = [m for c in family for m in c.methods if m.during_init or _is_init(m)]
    if owner is None or not any(_comes_late(m, children) for m in methods):
        return program
    named = tuple(_named_again(m) if _is_init(m) else m for m in owner.methods)
    return replace(program, cells={**program.cells, owner.key: replace(owner, methods=named)})


def _with_bases(program: Program, cell: CellDef) -> Iterator[CellDef]:
    yield cell
    for base in cell.bases:
        if base in program.cells:
            yield from _with_bases(program, program.cells[base])


def _is_init(method: FunctionDef) -> bool:
    return method.name == "__init__"


def _constructor(cell: CellDef) -> FunctionDef | None:
    return next((m for m in cell.methods if _is_init(m)), None)


def _comes_late(method: FunctionDef, children: AbstractSet[str]) -> bool:
    """Whether a child of ``self`` that was assigned before gets a cell, or an empty container waits for its cells."""
    nodes = [node for statement in method.body for node in ast.walk(statement)]
    return any(_fills(node, children) for node in nodes)


def _fills(node: ast.AST, children: AbstractSet[str]) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Attribute() | ast.Subscript() as held, attr=name)) if name in _FILLS:
            return _of_child(held, children)
        case ast.Assign(targets=[ast.Subscript(slice=ast.Tuple() | ast.Slice())]):
            return False  # a part of a tensor
        case ast.Assign(targets=[ast.Subscript(value=ast.Attribute() as held)], value=ast.Call()):
            return _of_child(held, children)
        case ast.Assign(targets=[ast.Attribute(value=ast.Attribute() as held)], value=ast.Call()):
            return _of_child(held, children)
        case ast.Assign(targets=[ast.Attribute() as target], value=ast.Call(args=[], keywords=[]) as made):
            return _of_child(target, children) and ast.unparse(made.func) in _CONTAINERS
    return False


def _of_child(node: ast.expr, children: AbstractSet[str]) -> bool:
    """``self.layers``, ``self.layers[0].blocks`` with ``layers`` a module of the root: a plain list has no names."""
    held = ""
    while isinstance(node, ast.Attribute | ast.Subscript):
        held = node.attr if isinstance(node, ast.Attribute) else held
        node = node.value
    return isinstance(node, ast.Name) and node.id == "self" and held.rstrip("_") in {c.rstrip("_") for c in children}


def _named_again(method: FunctionDef) -> FunctionDef:
    line = max((s.end_lineno or 0 for s in method.body if hasattr(s, "end_lineno")), default=method.loc.line) + 1
    call = ast.Expr(expression("self.update_parameters_name()"), lineno=line)
    return replace(method, body=(*method.body, call), beside={**method.beside, line: _COMMENT})
