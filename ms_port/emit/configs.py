"""A configuration object as a small dataclass with the fields that the code reads."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping, Sequence

from ms_port.emit.docstrings import docstring
from ms_port.ir.tree import literal
from ms_port.ir.values import Literal, Value

_TYPES = {bool: "bool", int: "int", float: "float", str: "str"}


def config_source(
    name: str,
    fields: Mapping[str, Value],
    doc: str | None,
    hints: Mapping[str, str],
    derived: Sequence[tuple[str, str]] = (),
) -> str:
    """``@dataclass class Name: field: type = value``, and what is computed where it is None."""
    summary = docstring(doc or "The options that the model reads.")
    lines = ["@dataclass", f"class {name.rpartition('.')[2]}:", textwrap.indent(summary, "    "), ""]
    for field, value in fields.items():
        lines.append(f"    {field}: {_type(value, hints.get(field))} = {_default(value)}")
    if derived:
        lines += ["", "    def __post_init__(self) -> None:"]
        lines += [f"        if self.{field} is None:\n            self.{field} = {text}" for field, text in derived]
    return "\n".join(lines)


def _type(value: Value, hint: str | None) -> str:
    """The type of the default; where there is none, what the source says."""
    plain = value.value if isinstance(value, Literal) else None
    if plain is None and isinstance(value, Literal) and hint is not None:
        return hint if hint.endswith("None") else f"{hint} | None"
    if type(plain) in _TYPES:
        return _TYPES[type(plain)]
    if isinstance(plain, tuple | list):
        return "tuple"
    return "dict" if isinstance(plain, dict) else "Any"


def _default(value: Value) -> str:
    plain = value.value if isinstance(value, Literal) else None
    if isinstance(plain, list):
        plain = tuple(plain)
    text = ast.unparse(literal(plain))
    return f"field(default_factory=lambda: {text})" if isinstance(plain, dict) else text
