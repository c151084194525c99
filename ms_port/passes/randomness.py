"""Randomness: an op that draws becomes a call of a cell, so that verification can replay its draws.

Each class that draws owns such a cell (``self.rand = Rand()``); a free function that draws takes it as its last
parameter.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import cast

from ms_port.ir.program import CellDef, FunctionDef, Program
from ms_port.ir.tree import statement
from ms_port.opmap import RANDOM_NAME
from ms_port.passes.rewrite import all_functions, map_functions

_ATTRIBUTES = {"Rand": "rand", "Randn": "randn"}


def own_draws(program: Program) -> Program:
    """Give every drawing function its cell."""
    drawing = _drawing(program)
    if not drawing:
        return program
    taking = {f.key for f in all_functions(program) if f.key in drawing and f.kind != "method"}
    program = map_functions(program, lambda f: _rewritten(f, drawing, taking) if _touches(f, drawing) else f)
    cells = {key: _with_cells(program, cell, drawing) for key, cell in program.cells.items()}
    names = {name for kinds in drawing.values() for name in kinds}
    return replace(program, cells=cells, op_functions=program.op_functions | names)


def attribute_of(kind: str) -> str:
    """Name under which a cell keeps its drawing cell."""
    return _ATTRIBUTES.get(kind, kind.lower())


def _drawing(program: Program) -> dict[str, set[str]]:
    """Function -> classes of drawing cells that it needs, itself or through free functions that it calls."""
    found: dict[str, set[str]] = {}
    functions = {f.key: f for f in all_functions(program)}
    for key, function in functions.items():
        kinds = {
            n.random  # type: ignore[attr-defined]
            for s in function.body
            for n in ast.walk(s)
            if getattr(n, "random", None)
        }
        if kinds:
            found[key] = kinds
    while True:
        added = False
        for key, function in functions.items():
            for callee in _free_callees(function, functions):
                more = found.get(callee, set()) - found.get(key, set())
                if more:
                    found.setdefault(key, set()).update(more)
                    added = True
        if not added:
            return found


def _free_callees(function: FunctionDef, functions: dict[str, FunctionDef]) -> set[str]:
    return {
        key
        for s in function.body
        for n in ast.walk(s)
        if isinstance(n, ast.Call)
        for key in getattr(n, "callees", ())
        if key in functions and functions[key].kind != "method"
    }


def _touches(function: FunctionDef, drawing: dict[str, set[str]]) -> bool:
    return function.key in drawing


def _rewritten(function: FunctionDef, drawing: dict[str, set[str]], taking: set[str]) -> FunctionDef:
    is_method = function.kind == "method"
    visitor = _Own(is_method, drawing, taking)
    body = tuple(cast(ast.stmt, visitor.visit(s)) for s in function.body)
    node = function.node
    if not is_method:
        for kind in sorted(drawing[function.key]):
            hint = ast.parse("Optional[nn.Cell]", mode="eval").body
            node.args.args.append(ast.arg(attribute_of(kind), hint))
            node.args.defaults.append(ast.Constant(None))
    return replace(function, node=node, body=body)


class _Own(ast.NodeTransformer):
    def __init__(self, is_method: bool, drawing: dict[str, set[str]], taking: set[str]) -> None:
        self._is_method, self._drawing, self._taking = is_method, drawing, taking

    def _cell(self, kind: str) -> ast.expr:
        name = attribute_of(kind)
        if self._is_method:
            return ast.Attribute(ast.Name("self", ast.Load()), name, ast.Load())
        return ast.Name(name, ast.Load())

    def visit(self, node: ast.AST) -> ast.AST:
        kind = getattr(node, "random", None)
        node = super().visit(node)
        if kind is None:
            return node
        return _Fill(self._cell(kind)).visit(node)  # type: ignore[no-any-return]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        for key in getattr(node, "callees", ()):
            if key in self._drawing and key in self._taking:
                for kind in sorted(self._drawing[key]):
                    if node.keywords:
                        node.keywords.append(ast.keyword(attribute_of(kind), self._cell(kind)))
                    else:
                        node.args.append(self._cell(kind))
                break
        return node


class _Fill(ast.NodeTransformer):
    def __init__(self, cell: ast.expr) -> None:
        self._cell = cell

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._cell if node.id == RANDOM_NAME else node


def _with_cells(program: Program, cell: CellDef, drawing: dict[str, set[str]]) -> CellDef:
    kinds = {k for m in cell.methods for k in drawing.get(m.key, ())}
    if not kinds:
        return cell
    made = [statement(f"self.{attribute_of(kind)} = {kind}()") for kind in sorted(kinds)]
    methods = list(cell.methods)
    for index, method in enumerate(methods):
        if method.name == "__init__":
            methods[index] = replace(method, body=(*method.body, *made))
            break
    else:
        node = statement("def __init__(self) -> None: pass")
        assert isinstance(node, ast.FunctionDef) and methods
        body = (statement("super().__init__()"), *made)
        init = replace(
            methods[0], key=f"{cell.key}.__init__ (draws)", name="__init__", node=node, body=body, docstring=None
        )
        methods.insert(0, replace(init, kind="method", during_init=True, comments={}, beside={}, above=()))
    return replace(cell, methods=tuple(methods))
