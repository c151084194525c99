"""A configuration object as a small dataclass with the fields that the code reads."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from ms_port.ir.tree import literal
from ms_port.ir.values import Literal, Value

_TYPES = {bool: "bool", int: "int", float: "float", str: "str"}


def config_source(name: str, fields: Mapping[str, Value]) -> str:
    """``@dataclass class Name: field: type = value``."""
    lines = ["@dataclass", f"class {name.rpartition('.')[2]}:", '    """The options that the model reads."""', ""]
    for field, value in fields.items():
        lines.append(f"    {field}: {_type(value)} = {_default(value)}")
    return "\n".join(lines)


def _type(value: Value) -> str:
    plain = value.value if isinstance(value, Literal) else None
    if type(plain) in _TYPES:
        return _TYPES[type(plain)]
    if isinstance(plain, tuple | list):
        return "tuple"
    return "dict" if isinstance(plain, dict) else "Any"


def _default(value: Value) -> str:
    plain = value.value if isinstance(value, Literal) else None
    if isinstance(plain, list):
        plain = tuple(plain)
    return ast.unparse(literal(plain))
