"""What a statement reads, binds and calls, told from its text; reading the same place again; renaming."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ms_port.ir.tree import copy, names_stored, nid
from ms_port.passes.holders import Put, puts

COMPOUND = ast.If | ast.For | ast.While | ast.With | ast.Try


def is_loop(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.For | ast.While)


def origin(statement: ast.stmt) -> int:
    """What tells two copies of one statement from others."""
    return next((nid(n) for n in ast.walk(statement) if nid(n) >= 0), -1)


def is_store(statement: ast.stmt) -> bool:
    """``x += 1`` or ``x[i] = 1``."""
    if isinstance(statement, ast.Assign):
        return isinstance(statement.targets[0], ast.Subscript)
    return isinstance(statement, ast.AugAssign)


def load(node: ast.expr) -> ast.expr:
    """The same place, read."""
    read = copy(node)
    read.ctx = ast.Load()  # type: ignore[attr-defined]
    return read


def element(made: Sequence[ast.stmt]) -> ast.expr | None:
    """``c["a"]`` of ``c["a"] = ...``: the place of the new tensor, where reading it again is harmless."""
    match made:
        case [
            ast.Assign(
                targets=[ast.Subscript(value=ast.Name(), slice=ast.Constant()) as place], value=ast.Call() | ast.BinOp()
            )
        ]:
            return place
    return None


def name_first(store: ast.stmt, name: ast.stmt) -> list[ast.stmt]:
    """``c["a"] = new; h = c["a"]`` as ``h = new; c["a"] = h``."""
    assert isinstance(store, ast.Assign) and isinstance(name, ast.Assign)
    named = ast.copy_location(ast.Assign(name.targets, store.value), store)
    return [named, ast.copy_location(ast.Assign(store.targets, load(name.targets[0])), store)]


def later_puts(later: Sequence[ast.stmt]) -> Iterator[Put]:
    for statement in later:
        for inner in ast.walk(statement):
            if isinstance(inner, ast.stmt) and not isinstance(inner, COMPOUND):
                yield from puts(inner)


def root_name(node: ast.expr) -> str | None:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) and node.id != "self" else None


def reads(node: ast.AST, name: str) -> bool:
    """Whether a name is read anywhere below, also by ``name += 1``."""
    for part in ast.walk(node):
        match part:
            case ast.Name(id=found, ctx=ast.Load()) if found == name:
                return True
            case ast.AugAssign(target=ast.Name(id=found)) if found == name:
                return True
    return False


def is_read_in(statements: Sequence[ast.stmt], name: str) -> bool:
    """Whether the name is read before a plain statement binds it anew."""
    for statement in statements:
        if reads(statement, name):
            return True
        if not isinstance(statement, COMPOUND) and name in names_stored(statement):
            return False
    return False


def stored(statements: Sequence[ast.stmt], name: str) -> bool:
    return any(name in names_stored(s) for s in statements)


def is_read(name: str, statement: ast.stmt, call: ast.Call, later: Sequence[ast.stmt]) -> bool:
    """Whether a name is read elsewhere in the statement than in the call, or later."""
    inside = {id(n) for n in ast.walk(call)}
    around = any(
        isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) and id(n) not in inside
        for n in ast.walk(statement)
    )
    rebound = name in names_stored(statement)
    return around or (not rebound and is_read_in(later, name))


def read_before(name: str, statement: ast.stmt, call: ast.Call) -> bool:
    """Whether something is computed of the name in the statement before the call, in the order of the source.

    In ``torch.cat([x, self.relu(x)])`` nothing is: the list holds the tensor itself, which torch's call has written.
    """
    place = (getattr(call, "lineno", 0), getattr(call, "col_offset", 0))
    inside = {id(n) for n in ast.walk(call)}
    around = [n for n in ast.walk(statement) if isinstance(n, _TAKES_AT_END) and any(c is call for c in ast.walk(n))]
    held = {id(child) for n in around for child in ast.iter_child_nodes(n)}
    return any(
        isinstance(n, ast.Name)
        and n.id == name
        and isinstance(n.ctx, ast.Load)
        and id(n) not in inside | held
        and (getattr(n, "lineno", 0), getattr(n, "col_offset", 0)) < place
        for n in ast.walk(statement)
    )


_TAKES_AT_END = ast.BinOp | ast.List | ast.Tuple | ast.Call | ast.keyword
"""What evaluates all its operands before it does anything with one."""


def calls_in_order(statement: ast.stmt) -> Iterator[tuple[ast.Call, bool]]:
    """The calls of a statement, innermost first, and whether each is evaluated once and always."""
    conditional = ast.Lambda | ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp | ast.IfExp | ast.BoolOp
    found: list[tuple[ast.Call, bool]] = []

    def visit(node: ast.AST, movable: bool) -> None:
        for child in ast.iter_child_nodes(node):
            visit(child, movable and not isinstance(node, conditional))
        if isinstance(node, ast.Call):
            found.append((node, movable))

    visit(statement, True)
    yield from found


def can_rename(name: str, target: str, rest: Sequence[ast.stmt]) -> bool:
    """Whether reads of ``name`` may become ``target`` until it is bound anew: plain code, and ``target`` stays."""
    for index, statement in enumerate(rest):
        stored = names_stored(statement)
        if isinstance(statement, COMPOUND):
            if stored & {name, target} or (is_loop(statement) and reads(statement, name) and target in stored):
                return False
            continue
        if name in stored:
            return True
        if target in stored and is_read_in(rest[index + 1 :], name):
            return False
    return True


def renamed(name: str, target: str, rest: Sequence[ast.stmt]) -> list[ast.stmt]:
    """``rest`` with the reads renamed up to and including the statement that binds ``name`` anew."""
    result = []
    active = True
    for statement in rest:
        result.append(Rename(name, target).visit(statement) if active else statement)
        if name in names_stored(statement):
            active = False
    return result


class Rename(ast.NodeTransformer):
    def __init__(self, name: str, target: str) -> None:
        self._name, self._target = name, target

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if isinstance(node.ctx, ast.Load) and node.id == self._name:
            node.id = self._target
        return node


class Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.expr) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else super().visit(node)
