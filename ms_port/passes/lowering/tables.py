"""Tables of a module of the source (``ACTS = {"relu": nn.ReLU, ...}``): the port has the entries that were used."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ms_port.ir.tree import literal
from ms_port.ir.values import DictValue, Literal, Value
from ms_port.passes.lowering.names import of_value
from ms_port.passes.lowering.scope import Scope, Untranslatable


def is_asked(scope: Scope, key: ast.expr) -> bool:
    """Whether a table is asked by what a function was given or computed: the answer may be another one next time."""
    return isinstance(key, ast.Name) and key.id in scope.locals


def registry(scope: Scope, node: ast.Name, found: Sequence[Value], keys: Sequence[Value] = ()) -> ast.expr:
    """A table of the source's module, with the entries that were ``found``, or are under ``keys``.

    Raises Untranslatable.
    """
    tables = scope.values(node)
    table = tables[0] if tables else None
    if node.id in scope.locals or node.id in scope.facts.closure or not isinstance(table, DictValue):
        raise Untranslatable(node, f"`{node.id}` is no table of the module")
    known = scope.work.constants.get(node.id)
    entries: dict[str, tuple[ast.expr, ast.expr]] = {}
    if isinstance(known, ast.Assign) and isinstance(known.value, ast.Dict):
        rows = zip(known.value.keys, known.value.values, strict=True)
        entries = {ast.unparse(k): (k, v) for k, v in rows if k is not None}
    for key, value in table.items:
        if value in found or Literal(key) in keys:
            entries[repr(key)] = (literal(key), of_value(scope, node, value))
    pairs = [entries[text] for key, _ in table.items if (text := repr(key)) in entries]
    made = ast.Dict([k for k, _ in pairs], [v for _, v in pairs])
    scope.work.constants[node.id] = ast.Assign([ast.Name(node.id, ast.Store())], made, lineno=0)
    return ast.Name(node.id, ast.Load())


def membership(scope: Scope, node: ast.Compare) -> tuple[ast.Name, Sequence[Value]] | None:
    """The table and the keys of ``name in TABLE`` of a constructor: with these keys alone it says the same of them."""
    match node:
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[ast.Name() as table]) if scope.host:
            keys = scope.values(left)
            return (table, keys) if is_asked(scope, left) and keys else None
    return None
