"""Layers and functions chosen by name: ``getattr(nn, name)(...)`` becomes a table of those that the project names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ms_port.opmap import NoLowering

if TYPE_CHECKING:
    from ms_port.script.expressions import Expressions

MODULES = ("torch.nn", "torch.nn.functional", "torch.nn.init")
"""What holds names whose arguments differ in MindSpore. (``torch.optim`` and its kin have parts with torch's own.)"""


def by_name(e: Expressions, node: ast.expr) -> tuple[str, ast.expr] | None:
    """(module, name) of ``getattr(nn, name)``, ``nn.__dict__[name]`` and ``vars(nn)[name]``."""
    match node:
        case ast.Call(func=ast.Name(id="getattr"), args=[held, name]):
            module = e.api_name(held)
        case ast.Subscript(value=ast.Attribute(attr="__dict__", value=held), slice=name):
            module = e.api_name(held)
        case ast.Subscript(value=ast.Call(func=ast.Name(id="vars"), args=[held]), slice=name):
            module = e.api_name(held)
        case _:
            return None
    return (module, name) if module in MODULES else None


def call(e: Expressions, node: ast.Call) -> str | None:
    """A call of what a name chooses; None for any other call."""
    found = by_name(e, node.func)
    if found is None:
        return None
    module, name = found
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        return e.api_call(node, f"{module}.{name.value}")
    table = {choice: text for choice in _choices(e, module) if (text := _tried(e, node, f"{module}.{choice}"))}
    if not table:
        return _unknown(e, node, module)
    entries = ", ".join(f"{choice!r}: lambda: {text}" for choice, text in table.items())
    text = f"{{{entries}}}[{e.render(name)}]()"
    e.change(node, "MSP601", text, module)
    return text


def value(e: Expressions, node: ast.expr) -> str | None:
    """What a name chooses, where it is not called at once; None for any other expression."""
    found = by_name(e, node)
    if found is None:
        return None
    module, name = found
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        return e.api_value(node, f"{module}.{name.value}")
    table: dict[str, str] = {}
    for choice in _choices(e, module):
        if module == "torch.nn":  # a layer with arguments is not met by this: then the call raises
            made = ast.copy_location(ast.Call(node, [], []), node)
            text = _tried(e, made, f"{module}.{choice}")
            table |= {choice: f"lambda: {text}"} if text else {}
        else:
            try:
                lowering = e.op_map.lower_value(f"{module}.{choice}")
            except NoLowering:
                continue
            e.functions(lowering.functions)
            table[choice] = ast.unparse(e.needs.localized(lowering.expression))
    if not table:
        return _unknown(e, node, module)
    text = f"{{{', '.join(f'{choice!r}: {text}' for choice, text in table.items())}}}[{e.render(name)}]"
    e.change(node, "MSP601", text, module)
    return text


def _tried(e: Expressions, node: ast.Call, name: str) -> str | None:
    """The text of a call of one choice; None where it has no form."""
    refused, said, used = len(e.refused), len(e.notes), dict(e.needs.used)
    text = e.api_call(node, name)
    if text is None or len(e.refused) > refused:
        del e.refused[refused:], e.notes[said:]
        e.needs.used = used
        return None
    return text


def _choices(e: Expressions, module: str) -> list[str]:
    """Names of a module that stand as words in the file, or else in the project; and those in its settings' files and texts."""
    trees = [m.source.tree for m in e.inference.project.modules.values()]
    words = _named(e, module, _strings(e.module.source.tree))
    words = words or _named(e, module, [text for tree in trees for text in _strings(tree)])
    settings = [text for text in _strings(e.module.source.tree) if ":" in text or "=" in text]
    settings += e.inference.project.settings
    return list(dict.fromkeys([*words, *_named(e, module, [w for text in settings for w in re.findall(r"\w+", text)])]))


def _strings(tree: ast.Module) -> list[str]:
    return [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def _named(e: Expressions, module: str, words: Iterable[str]) -> list[str]:
    wanted = [w for w in dict.fromkeys(words) if w.isidentifier() and w[0].isupper() == (module == "torch.nn")]
    return [w for w in wanted if f"{module}.{w}" in e.op_map]


def _unknown(e: Expressions, node: ast.expr, module: str) -> str:
    return e.refuse(node, "MSP602", module, "the project does not say which names are meant: write a dict of them")
