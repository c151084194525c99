"""Writes to buffers: ``self.steps = self.steps + 1`` of what ``register_buffer`` made, which a Cell refuses."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ms_port.script.expressions import Expressions
    from ms_port.script.project import Class

OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
}


def written(e: Expressions, node: ast.stmt) -> str | None:
    """The statement by which a buffer holds another tensor; None where no buffer is bound."""
    match node:
        case ast.Assign(targets=[ast.Attribute(value=holder, attr=name)], value=value):
            operator = None
        case ast.AugAssign(target=ast.Attribute(value=holder, attr=name), value=value, op=op) if type(op) in OPERATORS:
            operator = OPERATORS[type(op)]
        case _:
            return None
    kind = e.inference.of(holder)
    kept = _registered(e, kind[1], name) if isinstance(kind, tuple) and kind[0] == "inst" else None
    if kept is None:
        return None
    held = e.atom(holder)
    made = e.render(value) if operator is None else f"{held}.{name} {operator} {e.atom(value)}"
    text = f"{held}.register_buffer({name!r}, {made}{'' if kept else ', persistent=False'})"
    e.change(node, "MSP601", text, "torch.nn.Module.register_buffer")
    return text


def _registered(e: Expressions, cls: Class, name: str, depth: int = 0) -> bool | None:
    """Whether a class registers a buffer of that name, and saves it with its state."""
    for call in ast.walk(cls.node):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            continue
        if call.func.attr != "register_buffer" or not call.args:
            continue
        if isinstance(call.args[0], ast.Constant) and call.args[0].value == name:
            flags = [*call.args[2:3], *(k.value for k in call.keywords if k.arg == "persistent")]
            return not any(isinstance(flag, ast.Constant) and flag.value is False for flag in flags)
    for base in cls.bases:
        other = e.inference.project.base(cls, base)
        if other is not None and depth < 12:
            found = _registered(e, other, name, depth + 1)
            if found is not None:
                return found
    return None
