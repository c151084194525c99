"""Calls written as text: ``call("torch.softmax", "x", dim="-1")``, values given with ``of``."""

from __future__ import annotations

import ast

from ms_port.ir.values import DType, Literal, TensorValue, Value
from ms_port.opmap import Argument, Call, Lowering

X = TensorValue((2, 3, 4), "float32")


def of(text: str, *values: object) -> Argument:
    """An argument with one value per run; none: unknown (unless the text is a literal)."""
    star = text.startswith("*")
    node: ast.expr = ast.parse(text.lstrip("*"), mode="eval").body
    if star:
        node = ast.Starred(node)
    return Argument(node, tuple(map(_value, values)) or None)


def _value(item: object) -> Value:
    return item if isinstance(item, (TensorValue, DType, Literal)) else Literal(item)


def call(api: str, *args: Argument | str, self: Argument | None = None, **keywords: Argument | str) -> Call:
    def made(item: Argument | str) -> Argument:
        return of(item) if isinstance(item, str) else item

    return Call(api, tuple(map(made, args)), tuple((k, made(v)) for k, v in keywords.items()), self)


def text(lowering: Lowering) -> str:
    return ast.unparse(lowering.expression)
