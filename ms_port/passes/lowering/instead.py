"""What stands for a statement that can't be kept: nothing, only where no tensor, return or write is lost."""

from __future__ import annotations

import ast

from ms_port.ir.tree import names_stored, nid
from ms_port.ir.values import ModuleValue, ObjectValue, holds_tensor
from ms_port.passes.lowering.base_layers import starts_layer
from ms_port.passes.lowering.container_statements import changes_tensors
from ms_port.passes.lowering.expressions import lower
from ms_port.passes.lowering.held import held_statements
from ms_port.passes.lowering.scope import Scope, Untranslatable


def instead(scope: Scope, statement: ast.stmt, error: Untranslatable) -> list[ast.stmt]:
    """What stands for a statement that can't be kept. Raises the error again where it must not be lost."""
    if scope.strict:
        raise error
    if scope.host:
        return _instead_in_constructor(scope, statement, error)
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr | ast.Assert):
        value = getattr(statement, "value", None)
        tensors = value is not None and any(holds_tensor(v) for v in scope.values(value))
        if not scope.host and changes_tensors(scope, statement):
            raise error
        if not tensors and (not _stores_beyond_names(statement) or _changes_what_is_missing(scope, statement)):
            scope.poison(names_stored(statement), error.reason)
            scope.drop(statement, error.reason)
            return []
    if isinstance(statement, ast.Raise):
        scope.drop(statement, error.reason)
        return []
    raise error


def _instead_in_constructor(scope: Scope, statement: ast.stmt, error: Untranslatable) -> list[ast.stmt]:
    if any(isinstance(n, ast.Return) for n in ast.walk(statement)):
        raise error  # what a helper returns must not be lost
    if isinstance(statement, ast.Expr) and starts_layer(scope, statement.value):
        raise error  # what the layer below is must not be lost
    added = {name for n in ast.walk(statement) for name in scope.facts.effects.get(nid(n), ())}
    made = held_statements(scope, statement, added, error)
    if made is None:
        if _makes_modules(scope, statement):
            raise error
        made = []
    stored = names_stored(statement) | {name for s in ast.walk(statement) if (name := changed_container(s))}
    stored |= _changed_objects(scope, statement)
    scope.poison(stored, error.reason)
    scope.work.poisoned += bool(stored)
    scope.drop(statement, error.reason)
    return made


def _changed_objects(scope: Scope, statement: ast.stmt) -> set[str]:
    """Local objects of a person's own classes that a call of the statement may have changed: ``builder(width)``."""
    found = set()
    for call in (n for n in ast.walk(statement) if isinstance(n, ast.Call)):
        func = call.func.value if isinstance(call.func, ast.Attribute) else call.func
        for given in (func, *call.args, *(k.value for k in call.keywords)):
            if isinstance(given, ast.Name) and given.id != "self" and _is_own_object(scope, given):
                found.add(given.id)
    return found


def _is_own_object(scope: Scope, node: ast.Name) -> bool:
    return any(isinstance(v, ObjectValue) and v.cls in scope.work.program.cells for v in scope.values(node))


def changed_container(statement: ast.AST) -> str | None:
    """The local name of a container that a statement changes: ``layers`` in ``layers.append(x)``."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method))) if (
            method in _CONTAINER_CHANGES and name != "self"
        ):
            return name
    return None


_CONTAINER_CHANGES = frozenset("append extend insert update add pop remove clear".split())


def _makes_modules(scope: Scope, statement: ast.stmt) -> bool:
    """Whether a module of the model is made or stored by the statement."""
    return any(
        isinstance(fact.result, ModuleValue) and fact.result.path is not None
        for n in ast.walk(statement)
        if isinstance(n, ast.Call)
        for fact in scope.calls(n)
    )


def _stores_beyond_names(statement: ast.stmt) -> bool:
    return any(
        isinstance(n, ast.Attribute | ast.Subscript) and not isinstance(n.ctx, ast.Load) for n in ast.walk(statement)
    )


def _changes_what_is_missing(scope: Scope, statement: ast.stmt) -> bool:
    """Whether a plain value is only put into objects that the port does not have: ``cache.is_updated[i] = True``."""
    if not isinstance(statement, ast.Assign):
        return False
    for target in statement.targets:
        if not isinstance(target, ast.Attribute | ast.Subscript):
            return False
        root: ast.expr = target
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        held = scope.values(root)
        if not held or not all(isinstance(v, ObjectValue) and v.kind != "output" for v in held):
            return False
        try:
            lower(scope, target.value)
        except Untranslatable:
            continue
        return False
    return True


def split(statement: ast.stmt) -> list[ast.stmt] | None:
    """``a, b = x, y`` as two assignments, where neither reads what the other binds."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(targets) == len(
            values
        ) and not any(isinstance(e, ast.Starred) for e in [*targets, *values]):
            bound = {n for t in targets for n in names_stored(t)}
            read = {n.id for v in values for n in ast.walk(v) if isinstance(n, ast.Name)}
            if bound & read:
                return None
            pairs = zip(targets, values, strict=True)
            return [ast.copy_location(ast.Assign([t], v), statement) for t, v in pairs]
    return None
