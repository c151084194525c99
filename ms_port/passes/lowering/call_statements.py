"""Calls that stand as statements: kept where they change something, dropped where they say nothing to the port."""

from __future__ import annotations

import ast

from ms_port.ir.tree import nid
from ms_port.ir.tree import statement as parse_statement
from ms_port.ir.values import TensorValue, holds_tensor
from ms_port.passes.lowering.assignments import as_assignment, bias_taken_away, set_buffer
from ms_port.passes.lowering.base_layers import layer_base
from ms_port.passes.lowering.container_statements import changes_tensors
from ms_port.passes.lowering.expressions import lower
from ms_port.passes.lowering.grad_modes import sets_grad_mode
from ms_port.passes.lowering.host_writes import host_write
from ms_port.passes.lowering.inert_calls import contributes_nothing
from ms_port.passes.lowering.instead import changed_container
from ms_port.passes.lowering.kept_settings import layer_settings
from ms_port.passes.lowering.scope import Scope, Untranslatable
from ms_port.passes.lowering.ties import left_out, tie_statements


def expression(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    """An expression as a statement. Raises Untranslatable where what it changes would be lost."""
    assert isinstance(statement, ast.Expr)
    if isinstance(statement.value, ast.Constant):
        return []
    if scope.host and left_out(scope, statement):
        scope.drop(statement, "has no effect in the port")
        return tie_statements(scope)
    if scope.host and contributes_nothing(scope, statement):
        scope.drop(statement, "adds nothing to the module")
        return []
    if not scope.host and sets_grad_mode(scope, statement.value):
        return []
    if scope.host and (written := host_write(scope, statement)) is not None:
        return written
    if scope.host and (buffer := set_buffer(scope, statement)) is not None:
        return [buffer]
    lowered = lower(scope, statement.value)
    if scope.host and (filled := _filled_container(scope, statement.value, lowered)) is not None:
        return filled
    match lowered:
        case ast.Call(func=ast.Attribute(attr="update"), args=[ast.Dict(keys=[])], keywords=[]) if scope.host:
            return []  # keywords of a partial that has none
    match statement.value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="detach_")):
            return [ast.Assign([ast.Name(name, ast.Store())], lowered)]
    if isinstance(lowered, ast.Constant | ast.Name | ast.Attribute):
        lost = (
            changed_container(statement) is not None or bool(scope.facts.effects.get(nid(statement)))
            if scope.host
            else (changes_tensors(scope, statement) or _may_change_arguments(scope, statement.value))
        )
        if lost and not isinstance(lowered, ast.Name):
            raise Untranslatable(statement, f"`{ast.unparse(statement)}` changes a container")
        scope.drop(statement, "has no effect in the port")
        return []
    match statement.value:
        case ast.Call(
            func=ast.Attribute(value=holder, attr="register_parameter"),
            args=[ast.Constant(value=str(name)), ast.Constant(value=None)],
        ) if scope.host and (taken := bias_taken_away(scope, holder, name)) is not None:
            return [taken]
    return [as_assignment(lowered), *layer_settings(scope, statement, lowered)]


def _filled_container(scope: Scope, source: ast.expr, lowered: ast.expr) -> list[ast.stmt] | None:
    """``super().__init__(layers)`` of a ModuleDict or ModuleList with a forward: a Cell that takes the children."""
    base = layer_base(scope.work.program, scope.function.owner or "")
    form = FILLED.get(base or "")
    cell = scope.work.program.cells.get(scope.function.owner or "")
    if form is None or cell is None or not any(m.name == "forward" for m in cell.methods):
        return None
    match source, lowered:
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")))), ast.Call(args=[given]):
            loop = parse_statement(form.format(given=ast.unparse(given)))
            return [ast.Expr(ast.Call(lowered.func, [], [])), loop]
    return None


FILLED = {
    "torch.nn.ModuleDict": "for name, cell in {given}.items(): setattr(self, name, cell)",
    "torch.nn.ModuleList": "for i, cell in enumerate({given}): setattr(self, str(i), cell)",
}
"""How a Cell takes the children of a container."""


def _may_change_arguments(scope: Scope, node: ast.expr) -> bool:
    """Whether a user function was given a container of tensors that it may have changed."""
    if not isinstance(node, ast.Call) or not any(f.entered for f in scope.calls(node)):
        return False
    given = [*node.args, *(k.value for k in node.keywords)]
    return any(
        not isinstance(v, TensorValue) and holds_tensor(v) and getattr(v, "kind", "dict") in ("list", "dict", "set")
        for argument in given
        for v in scope.values(argument)
    )
