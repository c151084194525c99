"""Writes through a mask of bools whose values are tensors: ``h[m] = y[m]``, ``h[m] *= 2``, ``h[m] = f(x[m])``.

GRAPH_MODE takes numbers there only. The first two have a static form; the third is written at the mask's positions.
"""

from __future__ import annotations

import ast

from ms_port.ir.values import Literal, TensorValue
from ms_port.passes.lowering.expressions import lower
from ms_port.passes.lowering.scope import Scope, mark_functions

STATIC = "written with `where`, whose sizes are fixed"


def mask_write(scope: Scope, statement: ast.stmt) -> list[ast.stmt] | None:
    """The statement in MindSpore's words; None where it is of another form."""
    operator: ast.operator | None = None
    match statement:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name() as holder, slice=mask)], value=value):
            pass
        case ast.AugAssign(target=ast.Subscript(value=ast.Name() as holder, slice=mask), op=operator, value=value):
            pass
        case _:
            return None
    masks, held = _tensors(scope, mask), _tensors(scope, holder)
    if not masks or not held or any(m.dtype != "bool" or m.ndim == 0 for m in masks):
        return None
    whole = _same_mask(scope, value, mask, held[0])
    is_number = not any(isinstance(v, TensorValue) and v.ndim > 0 for v in scope.values(value))
    if operator is None and is_number:
        return None  # a number: GRAPH_MODE takes it
    if whole is None and not (operator is not None and is_number):
        places = ast.Call(_ops("nonzero"), [lower(scope, mask)], [ast.keyword("as_tuple", ast.Constant(True))])
        target = ast.Subscript(ast.Name(holder.id, ast.Load()), places, ast.Store())
        new = lower(scope, value)
        return [ast.Assign([target], new) if operator is None else ast.AugAssign(target, operator, new)]
    scope.drop(statement, STATIC)
    new = lower(scope, whole if whole is not None else value)
    condition = lower(scope, mask)
    if masks[0].ndim < held[0].ndim:
        scope.work.op_functions.add("expand_mask")
        name = mark_functions(ast.Name("expand_mask", ast.Load()), frozenset(["expand_mask"]))
        condition = ast.Call(name, [condition, ast.Name(holder.id, ast.Load())], [])
    if operator is not None:
        new = _computed(ast.Name(holder.id, ast.Load()), operator, new, condition, whole is not None)
    chosen = ast.Call(_ops("where"), [condition, new, ast.Name(holder.id, ast.Load())], [])
    return [ast.Assign([ast.Name(holder.id, ast.Store())], chosen)]


def _computed(
    holder: ast.expr, operator: ast.operator, value: ast.expr, condition: ast.expr, by_element: bool
) -> ast.expr:
    """The whole tensor's result. Where the mask is not set, 1 stands for a divisor or a base.

    `where` drops what comes out there, but not its derivative: that of h / 0 and 0 ** 0.5 is infinite, and 0 times it
    is NaN.
    """
    one = ast.Constant(1)
    if isinstance(operator, ast.Pow):
        holder = ast.Call(_ops("where"), [condition, holder, one], [])
    elif isinstance(operator, (ast.Div, ast.FloorDiv, ast.Mod)) and by_element:
        value = ast.Call(_ops("where"), [condition, value, one], [])
    return ast.BinOp(holder, operator, value)


def _same_mask(scope: Scope, value: ast.expr, mask: ast.expr, held: TensorValue) -> ast.expr | None:
    """``y * 2`` of ``y[m] * 2`` under the mask of the target, where y has the target's shape and type.

    Only operators whose gradient is finite everywhere: what the mask leaves out is computed too.
    """
    match value:
        case ast.Subscript(value=whole, slice=other) if ast.unparse(other) == ast.unparse(mask):
            seen = _tensors(scope, whole)
            if seen and all((v.shape, v.dtype) == (held.shape, held.dtype) for v in seen):
                return whole
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as op, right=right):
            parts = [_same_mask(scope, side, mask, held) for side in (left, right)]
            numbers = [_is_number(scope, side) for side in (left, right)]
            if any(parts) and all(part or number for part, number in zip(parts, numbers, strict=True)):
                return ast.copy_location(ast.BinOp(parts[0] or left, op, parts[1] or right), value)
        case ast.UnaryOp(op=ast.USub() as sign, operand=operand):
            part = _same_mask(scope, operand, mask, held)
            return ast.copy_location(ast.UnaryOp(sign, part), value) if part is not None else None
    return None


def _is_number(scope: Scope, node: ast.expr) -> bool:
    values = scope.values(node)
    known = isinstance(node, ast.Constant) or bool(values)
    return known and all(isinstance(v, Literal) and isinstance(v.value, int | float) for v in values)


def _tensors(scope: Scope, node: ast.expr) -> list[TensorValue]:
    values = [v for v in scope.values(node) if isinstance(v, TensorValue)]
    return values if len(values) == len(scope.values(node)) else []


def _ops(name: str) -> ast.expr:
    return ast.Attribute(ast.Name("ops", ast.Load()), name, ast.Load())
