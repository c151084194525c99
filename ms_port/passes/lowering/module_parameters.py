"""``m.parameters()`` and ``m.requires_grad_()``: MindSpore also lists what torch holds as buffers."""

from __future__ import annotations

import ast

from ms_port.ir.program import Program
from ms_port.ir.tree import literal, nid
from ms_port.passes.lowering.expressions import lower
from ms_port.passes.lowering.scope import Scope, mark_functions

_STATISTICS = frozenset({"running_mean", "running_var", "num_batches_tracked"})
"""Buffers that the op functions know themselves."""


def lower_parameters(scope: Scope, node: ast.Call, name: str) -> ast.expr:
    """``m.parameters()``, ``m.named_parameters()``: MindSpore's own method where a buffer in it does no harm."""
    assert isinstance(node.func, ast.Attribute)
    cell = lower(scope, node.func.value)
    if _only_frozen(scope, node) or not _has_buffers(scope.work.program):
        own = {"parameters": "get_parameters", "named_parameters": "parameters_and_names"}[name]
        return ast.Call(ast.Attribute(cell, own, ast.Load()), [], [])
    return _called(scope, f"{name}_of", [cell], _own_buffers(scope.work.program))


def lower_requires_grad(scope: Scope, node: ast.Call) -> ast.expr:
    """``m.requires_grad_(flag)``."""
    assert isinstance(node.func, ast.Attribute)
    given = [k.value for k in node.keywords if k.arg == "requires_grad"] + node.args
    wanted = lower(scope, given[0]) if given else literal(True)
    buffers = () if _is_false(wanted) else _own_buffers(scope.work.program)
    return _called(scope, "set_requires_grad", [lower(scope, node.func.value), wanted], buffers)


def _called(scope: Scope, name: str, args: list[ast.expr], buffers: tuple[str, ...]) -> ast.expr:
    func = mark_functions(ast.Name(name, ast.Load()), frozenset([name]))
    scope.work.op_functions.add(name)
    return ast.Call(func, args, [ast.keyword("buffers", literal(buffers))] if buffers else [])


def _has_buffers(program: Program) -> bool:
    return any(p.kind != "parameter" for p in program.parameters.values())


def _own_buffers(program: Program) -> tuple[str, ...]:
    """Buffers of the model's own classes: by name, with the class where a parameter elsewhere has the name too."""
    parameters = {p.path.rpartition(".")[2] for p in program.parameters.values() if p.kind == "parameter"}
    found: set[str] = set()
    for tensor in program.parameters.values():
        path, _, name = tensor.path.rpartition(".")
        module = program.modules.get(path)
        if tensor.kind == "parameter" or name in _STATISTICS or module is None or module.cls not in program.cells:
            continue
        found.add(f"{program.cells[module.cls].name}.{name}" if name in parameters else name)
    return tuple(sorted(found))


def _only_frozen(scope: Scope, node: ast.Call) -> bool:
    """Whether the loop over the parameters does nothing but ``p.requires_grad = False``: buffers are so already."""
    loops = (n for s in scope.function.body for n in ast.walk(s) if isinstance(n, ast.For))
    loop = next((n for n in loops if nid(n.iter) == nid(node)), None)
    return loop is not None and all(map(_freezes, loop.body))


def _freezes(statement: ast.stmt) -> bool:
    match statement:
        case ast.If():
            return all(map(_freezes, [*statement.body, *statement.orelse]))
        case ast.Assign(targets=[ast.Attribute(attr="requires_grad")], value=value):
            return _is_false(value)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="requires_grad_"), args=[value], keywords=[])):
            return _is_false(value)
    return False


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is False
