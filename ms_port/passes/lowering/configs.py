"""Configuration objects: the port keeps a small dataclass with the fields that are read."""

from __future__ import annotations

import ast

from ms_port.ir.tree import literal
from ms_port.ir.values import ClassValue, FunctionValue, Literal, ObjectValue, PartialValue, Value
from ms_port.passes.lowering.scope import Untranslatable, Work, mark_functions


def argument_value(work: Work, value: Value) -> ast.expr:
    """An argument of the root as source; a config object becomes ``Config(field=...)``, filled in last."""
    match value:
        case Literal(value=plain):
            try:
                return literal(plain)
            except ValueError as error:
                raise Untranslatable(ast.Pass(), str(error)) from error
        case ObjectValue(kind="config", cls=cls):
            work.config_fields[cls]
            call = ast.Call(ast.Name(cls.rpartition(".")[2], ast.Load()), [], [])
            call.config = value  # type: ignore[attr-defined]
            return call
        case ClassValue(name=name) | FunctionValue(name=name):
            from ms_port.opmap import NoLowering

            try:
                lowering = work.opmap.lower_value(name)
            except NoLowering as error:
                raise Untranslatable(ast.Pass(), str(error)) from error
            work.op_functions |= lowering.functions
            return mark_functions(lowering.expression, lowering.functions)
        case PartialValue():
            raise Untranslatable(ast.Pass(), "a partial as an argument of the root")
    raise Untranslatable(ast.Pass(), f"{value} as an argument of the root")
