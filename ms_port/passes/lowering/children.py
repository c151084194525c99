"""A module's children, which torch lists anywhere and a graph only where its class holds them as a list.

``self.children()``, ``self.base._modules.items()``, ``len(self._modules)``: the constructor that has the children sets
``cell_list``, ``cell_items`` or ``cell_names`` last, and graph code reads that.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from ms_port.ir.program import EMPTY_FACTS, CellDef, FunctionDef, Program
from ms_port.ir.tree import copy, statement
from ms_port.ir.values import ModuleValue
from ms_port.passes.lowering.base_layers import layer_base
from ms_port.passes.lowering.names import scope_lower
from ms_port.passes.lowering.scope import Scope, Untranslatable
from ms_port.passes.rewrite import all_functions

_KINDS = {"children": "values", "named_children": "items", "values": "values", "items": "items", "keys": "keys"}
_ATTRIBUTES = {"values": "list", "items": "items", "keys": "names"}
_LISTED = {"values": "list({}.values())", "items": "list({}.items())", "keys": "list({})"}


def of_registry(scope: Scope, node: ast.AST) -> ast.expr | None:
    """``m._modules.values()``, ``.items()``, ``.keys()``, or ``m._modules`` alone, whose elements are the names."""
    match node:
        case ast.Call(func=ast.Attribute(ast.Attribute(holder, "_modules"), ("values" | "items" | "keys") as kind)):
            return children(scope, holder, kind, unique=False)
        case ast.Attribute(holder, "_modules", ast.Load()) if not scope.host and _modules(scope, holder):
            return children(scope, holder, "keys", unique=False)
    return None


def children(scope: Scope, holder: ast.expr, method: str, unique: bool = True) -> ast.expr:
    """What ``holder.children()``, or another of ``_KINDS``, lists; ``unique``: a child under two names once.

    Raises Untranslatable where the holder is no module that a class of the port holds.
    """
    kind, modules = _KINDS[method], _modules(scope, holder)
    made, twice = scope_lower(scope, holder), any(_is_twice(scope, m) for m in modules)
    source = "_cells" if twice and not unique else "name_cells()"
    if scope.host:
        listed = ast.Attribute(made, "_cells", ast.Load())
        table = listed if source == "_cells" else ast.Call(ast.Attribute(made, "name_cells", ast.Load()), [], [])
        return table if kind == "keys" else ast.Call(ast.Attribute(table, kind, ast.Load()), [], [])
    classes = {module.cls for module in modules}
    if kind == "values" and classes == {"torch.nn.ModuleList"}:
        return made
    sequential = all(layer_base(scope.work.program, c) == "torch.nn.Sequential" for c in classes)
    if kind == "values" and (sequential or classes == {"torch.nn.Sequential"}) and classes and not (unique and twice):
        return ast.Attribute(made, "cell_list", ast.Load())  # SequentialCell's own
    owner, path = scope.function.owner, ast.unparse(made)
    name = _unused(scope, f"{'unique' if unique and twice else 'cell'}_{_ATTRIBUTES[kind]}")
    if path == "self" and owner is not None:
        scope.work.listed.setdefault(owner, {})[name] = _LISTED[kind].format(f"self.{source}")
    elif classes and classes <= scope.work.program.cells.keys():
        for cls in classes:
            scope.work.listed.setdefault(cls, {})[name] = _LISTED[kind].format(f"self.{source}")
    elif _is_path(made) and owner is not None:
        name = _unused(scope, f"{path.removeprefix('self.').replace('.', '_').lstrip('_')}_{_ATTRIBUTES[kind]}")
        scope.work.listed.setdefault(owner, {})[name] = _LISTED[kind].format(f"{path}.{source}")
        return ast.Attribute(ast.Name("self", ast.Load()), name, ast.Load())
    else:
        raise Untranslatable(holder, f"the children of `{path}` in the graph")
    return ast.Attribute(copy(made), name, ast.Load())


def _unused(scope: Scope, name: str) -> str:
    """The name, longer where some class has an attribute of this name."""
    program = scope.work.program
    taken = {child for module in program.modules.values() for child, _ in module.children}
    taken |= {
        n.attr
        for function in all_functions(program)
        for s in function.body
        for n in ast.walk(s)
        if isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load)
    }
    while name in taken:
        name += "_"
    return name


def with_lists(program: Program, listed: dict[str, dict[str, str]]) -> Program:
    """The program in which the constructors set these lists (class -> attribute -> expression) last."""
    cells = dict(program.cells)
    for owner, lists in listed.items():
        holders = {_constructing(cells, key) for key in cells if owner in _line(cells, key)} - {None}
        if not holders:
            cells[owner] = _with_constructor(cells[owner])
            holders = {owner}
        for key in holders:
            cell = cells[key or ""]
            made = tuple(statement(f"self.{name} = {text}") for name, text in sorted(lists.items()))
            methods = [replace(m, body=(*m.body, *made)) if m.name == "__init__" else m for m in cell.methods]
            cells[cell.key] = replace(cell, methods=tuple(methods))
    return replace(program, cells=cells)


def _modules(scope: Scope, holder: ast.expr) -> list[ModuleValue]:
    return [v for v in scope.values(holder) if isinstance(v, ModuleValue)]


def _is_twice(scope: Scope, module: ModuleValue) -> bool:
    """Whether a module holds one child under two names."""
    held = scope.work.program.modules.get(module.path or "")
    paths = [path for _, path in held.children] if held is not None else []
    return len(set(paths)) < len(paths)


def _is_path(node: ast.expr) -> bool:
    """``self.encoder.layers``: what the constructor can read too."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id == "self"


def _line(cells: dict[str, CellDef], key: str) -> list[str]:
    return [key, *(name for base in cells[key].bases if base in cells for name in _line(cells, base))]


def _constructing(cells: dict[str, CellDef], key: str) -> str | None:
    """The class whose constructor builds the instances of this one; None where it has none, or no instance."""
    if not cells[key].instances:
        return None
    own = (name for name in _line(cells, key) if any(m.name == "__init__" for m in cells[name].methods))
    return next(own, None)


def _with_constructor(cell: CellDef) -> CellDef:
    """``__init__(self, *cells)`` of a Sequential with a forward that has torch's."""
    arguments: Sequence[ast.arg] = [ast.arg("self")]
    node = ast.FunctionDef(
        "__init__",
        ast.arguments([], list(arguments), ast.arg("cells"), [], [], None, []),
        [],
        [],
        None,
        lineno=cell.loc.line,
    )
    init = FunctionDef(
        key=f"{cell.key}.__init__ (lists)",
        name="__init__",
        node=node,
        body=(statement("super().__init__(*cells)"),),
        facts=EMPTY_FACTS,
        loc=cell.loc,
        owner=cell.key,
        kind="method",
        during_init=True,
    )
    return replace(cell, methods=(init, *cell.methods))
