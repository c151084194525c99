"""Dead code: locals that nothing reads, attributes that nothing reads."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from ms_port.ir.program import FunctionDef, Program
from ms_port.ir.tree import copy, is_self_attribute, names_read
from ms_port.passes.rewrite import all_functions, map_functions

_PURE = frozenset(
    "range len int float bool str tuple list dict set zip enumerate max min sum abs round sorted isinstance getattr "
    "hasattr".split()
)
_PURE_METHODS = frozenset("copy endswith get item items keys lower startswith tolist upper values".split())


def drop_dead(program: Program) -> Program:
    """Remove assignments to locals and attributes that nothing reads, until nothing is left to remove."""
    kept = _kept_attributes(program)
    inert = _inert(program)
    empty = frozenset(f.key for f in all_functions(program) if f.during_init and _does_nothing(f))
    return map_functions(program, lambda function: _clean(function, kept, empty, inert))


def _does_nothing(function: FunctionDef) -> bool:
    """Whether a helper of a constructor has nothing left but to hand back what it was given."""
    return function.name != "__init__" and all(
        isinstance(s, ast.Pass) or (isinstance(s, ast.Return) and isinstance(s.value, ast.Name | ast.Constant | None))
        for s in function.body
    )


def _kept_attributes(program: Program) -> frozenset[str]:
    """Attributes that are read somewhere, or that are children, parameters or buffers of the model."""
    read: set[str] = set()
    for function in all_functions(program):
        for statement in function.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                    if getattr(node, "of_config", None) is not None:
                        continue  # a field of the configuration, not of a cell
                    read.add(node.attr)
                elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
                    read |= {a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    children = {name for module in program.modules.values() for name, _ in module.children}
    tensors = {path.rpartition(".")[2] for path in program.parameters}
    return frozenset(read | children | tensors)


def _clean(function: FunctionDef, kept: frozenset[str], empty: frozenset[str], inert: frozenset[str]) -> FunctionDef:
    body = [copy(s) for s in function.body]
    while True:
        read = names_read(body)
        cleaned, changed = _block(body, read, kept, empty, function.during_init, inert)
        body = cleaned
        if not changed:
            return replace(function, body=tuple(body))


def _block(
    statements: Sequence[ast.stmt],
    read: set[str],
    kept: frozenset[str],
    empty: frozenset[str],
    host: bool,
    inert: frozenset[str],
) -> tuple[list[ast.stmt], bool]:
    result: list[ast.stmt] = []
    changed = False
    for statement in statements:
        if _is_dead(statement, read, kept, host, inert) or _calls_nothing(statement, empty):
            changed = True
            continue
        if isinstance(statement, ast.If | ast.For | ast.While):
            statement.body, one = _block(statement.body, read, kept, empty, host, inert)
            statement.orelse, two = _block(statement.orelse, read, kept, empty, host, inert)
            changed = changed or one or two
            if host and isinstance(statement, ast.If):
                statement.body = [] if one and _only_checks(statement.body) else statement.body
                statement.orelse = [] if two and _only_checks(statement.orelse) else statement.orelse
            if not statement.body and not statement.orelse:
                changed = True
                continue
            if not statement.body:
                if isinstance(statement, ast.If):
                    from ms_port.passes.prune import negate

                    statement.test, statement.body, statement.orelse = negate(statement.test), statement.orelse, []
                else:
                    changed = True
                    continue
        result.append(statement)
        if isinstance(statement, ast.Return | ast.Raise | ast.Continue | ast.Break):
            break
    return result, changed


def _only_checks(statements: Sequence[ast.stmt]) -> bool:
    """What is left of an arm that never ran once what it made is gone: checks of options that go with it."""
    return all(
        getattr(s, "never_ran", False)
        and (isinstance(s, ast.Raise | ast.Assert) or (isinstance(s, ast.If) and _only_checks([*s.body, *s.orelse])))
        for s in statements
    )


def _calls_nothing(statement: ast.stmt, empty: frozenset[str]) -> bool:
    """A statement that only calls a helper which does nothing."""
    callees = getattr(statement.value, "callees", ()) if isinstance(statement, ast.Expr) else ()
    return bool(callees) and all(key in empty for key in callees)


def _is_dead(statement: ast.stmt, read: set[str], kept: frozenset[str], host: bool, inert: frozenset[str]) -> bool:
    if isinstance(statement, ast.Assign):
        targets = statement.targets
        if isinstance(statement.value, ast.Name) and ast.unparse(targets[0]) == statement.value.id:
            return len(targets) == 1  # `x = x`
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign):
        targets = [statement.target]
    else:
        return False
    value = statement.value
    parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    if host and value is not None and not _is_pure(value, inert) and not getattr(statement, "never_ran", False):
        return False
    if not host and value is not None and _calls_cell(value):
        return False  # a cell may keep statistics
    for part in parts:
        if isinstance(part, ast.Name):
            if part.id in read:
                return False
        elif is_self_attribute(part):
            assert isinstance(part, ast.Attribute)
            if part.attr in kept:
                return False
        else:
            return False
    return True


def _calls_cell(value: ast.expr) -> bool:
    """Whether a child of the cell is called: ``self.bn(x)``, ``layer(x)`` of a loop is not told apart and stays."""
    return any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and ast.unparse(n.func).startswith("self.")
        for n in ast.walk(value)
    )


def _is_pure(value: ast.AST, inert: frozenset[str]) -> bool:
    """Whether leaving the expression out of a constructor changes nothing: it makes no layer and draws nothing."""
    return all(_is_pure_call(node, inert) for node in ast.walk(value) if isinstance(node, ast.Call))


def _is_pure_call(call: ast.Call, inert: frozenset[str]) -> bool:
    callees = getattr(call, "callees", ())
    if callees:
        return all(key in inert for key in callees)
    root = ast.unparse(call.func)
    return (
        root in _PURE
        or root.startswith(("np.", "math."))
        or root.endswith("Error")
        or root.rpartition(".")[2] in _PURE_METHODS
    )


def _inert(program: Program) -> frozenset[str]:
    """Functions of constructors that only compute: they make, change and draw nothing."""
    functions = {f.key: f for f in all_functions(program) if f.during_init and f.name != "__init__"}
    found = frozenset(functions)
    while True:
        left = frozenset(key for key in found if _only_computes(functions[key], found))
        if left == found:
            return found
        found = left


def _only_computes(function: FunctionDef, inert: frozenset[str]) -> bool:
    given = {a.arg for a in [*function.node.args.args, *function.node.args.kwonlyargs]}
    own = {n.name for s in function.body for n in ast.walk(s) if isinstance(n, ast.FunctionDef)}
    for node in (n for s in function.body for n in ast.walk(s)):
        match node:
            case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()) | ast.Global() | ast.Delete():
                return False
            case ast.AugAssign(target=ast.Name(id=name)) if name in given:
                return False
            case ast.Name(id="nn" | "ops" | "Parameter" | "Tensor" | "initializer"):
                return False
            case ast.Call(func=ast.Name(id=name)) if name in own:
                continue
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "extend")) if name not in given:
                continue
            case ast.Call() if not _is_pure_call(node, inert):
                return False
    return True
