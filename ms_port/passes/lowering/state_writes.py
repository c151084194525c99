"""Writes in the graph to parameters, to buffers and through ``.data``.

``self.mean.mul_(0.9).add_(m)`` -> ``ops.assign(self.mean, self.mean.mul(0.9).add(m))``; ``self.queue[i] = k`` is made
on a copy that is then assigned. ``h.data = v`` of a local tensor gives ``h`` the content of ``v`` and leaves its
gradient.
"""

from __future__ import annotations

import ast

from ms_port.ir.tree import copy, ported
from ms_port.ir.values import ModuleValue, TensorValue
from ms_port.passes.lowering.expressions import lower
from ms_port.passes.lowering.scope import Scope, Untranslatable


def state_write(scope: Scope, statement: ast.stmt) -> list[ast.stmt] | None:
    """The statement as assignments in MindSpore's words; None where it writes neither state nor ``.data``."""
    match statement:
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript() as place], value=value):
            operator: ast.operator | None = None
        case ast.AugAssign(target=ast.Attribute() | ast.Subscript() as place, op=operator, value=value):
            pass
        case _:
            return None
    holder: ast.expr = place
    while isinstance(holder, ast.Subscript):
        holder = holder.value
    through_data = isinstance(holder, ast.Attribute) and _is_data(scope, holder)
    if through_data:
        assert isinstance(holder, ast.Attribute)
        holder = holder.value
    state = _is_state(scope, holder)
    if not state and not (through_data and isinstance(holder, ast.Name)):
        return None
    if state and _is_left_out(scope, holder):
        scope.drop(statement, "writes a buffer that the port does not have")
        return []
    target = lower(scope, _load(holder))
    if isinstance(place, ast.Subscript):
        name = _fresh(scope, holder)
        made: list[ast.stmt] = [ast.Assign([ast.Name(name, ast.Store())], _stop_gradient(target))]
        index = lower(scope, place.slice)
        part = ast.Subscript(ast.Name(name, ast.Load()), index, ast.Store())
        if isinstance(place.value, ast.Subscript):
            raise Untranslatable(statement, "an item of an item of a buffer is written")
        new = lower(scope, value)
        made.append(ast.Assign([part], new) if operator is None else ast.AugAssign(part, operator, new))
        content: ast.expr = ast.Name(name, ast.Load())
    else:
        made = []
        content = lower(scope, value)
        if operator is not None:
            content = ast.BinOp(copy(target), operator, content)
    if state:
        return [*made, ast.Expr(ast.Call(_ops("assign"), [target, content], []))]
    assert isinstance(holder, ast.Name)
    if not isinstance(place, ast.Subscript):
        content = _stop_gradient(content)
    flow = ast.BinOp(copy(target), ast.Sub(), _stop_gradient(copy(target)))
    return [*made, ast.Assign([ast.Name(holder.id, ast.Store())], ast.BinOp(content, ast.Add(), flow))]


def _is_data(scope: Scope, node: ast.Attribute) -> bool:
    if node.attr != "data":
        return False
    seen = scope.values(node.value)
    return bool(seen) and all(isinstance(v, TensorValue) for v in seen)


def _is_state(scope: Scope, node: ast.expr) -> bool:
    """Whether a place holds a parameter or buffer of the model in every run."""
    seen = scope.values(node)
    if seen:
        return all(isinstance(v, TensorValue) and v.parameter is not None for v in seen)
    if not isinstance(node, ast.Attribute):
        return False
    owners = scope.values(node.value)
    if not owners and isinstance(node.value, ast.Name):
        owners = scope.facts.parameters.get(node.value.id, ())
    paths = [o.path for o in owners if isinstance(o, ModuleValue)]
    return bool(paths) and all(
        path is not None and (f"{path}.{node.attr}" if path else node.attr) in scope.work.program.parameters
        for path in paths
    )


def _is_left_out(scope: Scope, node: ast.expr) -> bool:
    """Whether the port has no such tensor: ``num_batches_tracked`` of a normalisation."""
    paths = [v.parameter for v in scope.values(node) if isinstance(v, TensorValue) and v.parameter is not None]
    if isinstance(node, ast.Attribute) and not paths:
        holders = scope.values(node.value) or scope.facts.parameters.get(ast.unparse(node.value), ())
        paths = [f"{h.path}.{node.attr}".lstrip(".") for h in holders if isinstance(h, ModuleValue)]
    return bool(paths) and all(_has_no_counterpart(scope, path) for path in paths)


def _has_no_counterpart(scope: Scope, path: str) -> bool:
    owner, _, name = path.rpartition(".")
    module = scope.work.program.modules.get(owner)
    todo = [module.cls] if module is not None else []
    while todo:
        cls = todo.pop()
        if cls in scope.work.program.cells:
            todo.extend(scope.work.program.cells[cls].bases)
        elif (row := scope.work.opmap.row(cls)) is not None:
            try:
                return row.weight(name).mindspore is None
            except KeyError:
                continue
    return False


def _load(node: ast.expr) -> ast.expr:
    read = copy(node)
    read.ctx = ast.Load()  # type: ignore[attr-defined]
    if isinstance(read, ast.Attribute) and not hasattr(read, "nid"):
        return ported(read)
    return read


def _fresh(scope: Scope, node: ast.expr) -> str:
    base = "state"
    if isinstance(node, ast.Attribute | ast.Name):
        base = node.attr if isinstance(node, ast.Attribute) else f"{node.id}_data"
    name, number = base, 2
    while name in scope.locals:
        name, number = f"{base}{number}", number + 1
    scope.locals.add(name)
    return name


def _ops(name: str) -> ast.expr:
    return ast.Attribute(ast.Name("ops", ast.Load()), name, ast.Load())


def _stop_gradient(node: ast.expr) -> ast.expr:
    return ast.Call(_ops("stop_gradient"), [node], [])
