"""Finish: configuration objects get their fields, and what could not be passed is said."""

from __future__ import annotations

import ast
from dataclasses import replace

from ms_port.ir.flags import Flag
from ms_port.ir.program import FunctionDef, Program
from ms_port.ir.tree import literal
from ms_port.ir.values import Literal, ObjectValue
from ms_port.passes.lowering.calls import ABSENT
from ms_port.passes.rewrite import map_functions


def finish(program: Program) -> Program:
    """The program as it will be written."""
    flags: list[Flag] = []

    def one(function: FunctionDef) -> FunctionDef:
        visitor = _Finish(program, function, flags)
        return replace(function, body=tuple(visitor.visit(s) for s in function.body))

    finished = map_functions(program, one)
    return replace(finished, flags=(*finished.flags, *flags))


class _Finish(ast.NodeTransformer):
    def __init__(self, program: Program, function: FunctionDef, flags: list[Flag]) -> None:
        self._program, self._function, self._flags = program, function, flags

    def visit_Call(self, node: ast.Call) -> ast.AST:
        config = getattr(node, "config", None)
        if isinstance(config, ObjectValue):
            read = self._program.configs.get(config.cls, {})
            own = dict(config.fields)
            for name in read:
                value = own.get(name, read[name])
                if isinstance(value, Literal):
                    plain = tuple(value.value) if isinstance(value.value, list) else value.value
                    node.keywords.append(ast.keyword(name, literal(plain)))
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id != ABSENT:
            return node
        self._flags.append(
            Flag(
                rule="MSP104",
                severity="error",
                message=f"an argument can't be passed in the port: {getattr(node, 'reason', '')}",
                module=self._function.owner or self._function.key,
                source=self._function.loc,
                advice="Give the argument by hand, or remove the code that reads it.",
            )
        )
        return literal(None)
