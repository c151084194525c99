"""Calls in a constructor that leave nothing behind for the port: logging, registration, the setting up of hooks."""

from __future__ import annotations

import ast

from ms_port.ir.program import FunctionDef, Program
from ms_port.ir.tree import nid
from ms_port.ir.values import ClassValue, FunctionValue, Literal
from ms_port.passes.lowering.scope import Scope

_MUTATORS = frozenset("append extend insert update add pop remove clear setdefault setattr".split())


def contributes_nothing(scope: Scope, statement: ast.Expr) -> bool:
    """In a constructor: a call into user code that made, changed, drew and returned nothing (logging, registration).

    So does one that registers hooks and notes that it did: what hooks do in a forward pass is flagged there.
    """
    facts = scope.calls(statement.value) if isinstance(statement.value, ast.Call) else ()
    if not facts or not all(f.result == Literal(None) for f in facts):
        return False
    noted = scope.facts.effects.get(nid(statement), frozenset())
    if not noted and all(_is_inert(scope, f.entered, set()) for f in facts):
        return True
    hooks = all(not f.torch_calls and _registers_hooks(scope, f.entered, set()) for f in facts)
    return hooks and not _are_read(scope.work.program, noted)


def _registers_hooks(scope: Scope, key: str | None, seen: set[str]) -> bool:
    """Whether a user function, or one that it calls, registers hooks of modules."""
    function = scope.work.all_functions.get(key or "")
    if function is None or function.key in seen:
        return False
    seen.add(function.key)
    facts = [f for found in function.facts.calls.values() for f in found]
    return any(isinstance(f.callee, FunctionValue) and f.callee.name in _HOOKS for f in facts) or any(
        _registers_hooks(scope, entered, seen) for entered in {f.entered for f in facts if f.entered is not None}
    )


_HOOKS = {f"torch.nn.Module.register_{kind}_hook" for kind in ("forward", "forward_pre", "full_backward", "backward")}


def _are_read(program: Program, names: frozenset[str]) -> bool:
    """Whether some class of the model reads one of these attributes of a module."""
    methods = [m for cell in program.cells.values() for m in cell.methods]
    nodes = (n for function in methods for s in function.body for n in ast.walk(s)) if names else ()
    return any(isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load) and n.attr in names for n in nodes)


def _is_inert(scope: Scope, key: str | None, seen: set[str]) -> bool:
    """Whether a user function and all that it calls leave modules, tensors and containers as they are."""
    function = scope.work.all_functions.get(key or "")
    if function is None or function.name == "__init__":
        return False
    if function.key in seen:
        return True
    seen.add(function.key)
    if any(function.facts.effects.values()):
        return False
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
                return False
            if isinstance(node, ast.Call) and not _is_inert_call(scope, function, node, seen):
                return False
    return True


def _is_inert_call(scope: Scope, function: FunctionDef, node: ast.Call, seen: set[str]) -> bool:
    for fact in function.facts.calls.get(nid(node), ()):
        callee = fact.callee
        if fact.entered is not None:
            if not _is_inert(scope, fact.entered, seen):
                return False
        elif isinstance(callee, FunctionValue):
            writes = callee.name.rpartition(".")[2] in _MUTATORS
            if (callee.torch and callee.name not in ("torch._C._log_api_usage_once",)) or writes:
                return False
        elif not isinstance(callee, ClassValue):
            return False
    return True
