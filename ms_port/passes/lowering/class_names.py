"""``m.__class__.__name__``: a constructor that chooses by the names of layers' classes (``find("Linear")``)."""

from __future__ import annotations

import ast

from ms_port.ir.values import ModuleValue
from ms_port.passes.lowering.names import scope_lower
from ms_port.passes.lowering.scope import Scope, mark_functions

FUNCTION = "torch_class_name"
"""Of the port: gives the names that torch's layers have, so that what the source asks of them stays true."""


def class_name(scope: Scope, node: ast.Attribute) -> ast.expr | None:
    """The name of a module's class, in torch's words where a layer has another name here; None if it is none."""
    match node:
        case ast.Attribute(attr="__name__", value=ast.Attribute(attr="__class__", value=subject)):
            pass
        case ast.Attribute(attr="__name__", value=ast.Call(func=ast.Name(id="type"), args=[subject])):
            pass
        case _:
            return None
    seen = scope.values(subject)
    layers = {value.cls for value in seen if isinstance(value, ModuleValue)}
    if not scope.host or not layers or not all(isinstance(value, ModuleValue) for value in seen):
        return None
    module = scope_lower(scope, subject)
    if any(_other_name(scope, cls) for cls in layers):
        scope.work.op_functions.add(FUNCTION)
        return ast.Call(mark_functions(ast.Name(FUNCTION, ast.Load()), frozenset([FUNCTION])), [module], [])
    if isinstance(node.value, ast.Attribute):
        return ast.Attribute(ast.Attribute(module, "__class__", ast.Load()), "__name__", ast.Load())
    return ast.Attribute(ast.Call(ast.Name("type", ast.Load()), [module], []), "__name__", ast.Load())


def _other_name(scope: Scope, cls: str) -> bool:
    """Whether the port's class for a torch layer is called otherwise."""
    row = scope.work.opmap.row(cls)
    return row is not None and row.cell is not None and row.cell.rpartition(".")[2] != cls.rpartition(".")[2]
