"""Models that a script takes from torchvision: each is ported into a package of its own beside the script.

A model that is chosen by name (``models.__dict__[args.arch]()``, ``getattr(models, args.arch)()``) is looked up among those that the
file's options have as their default or in their choices: these are ported, any other name raises and says what to do.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from ms_port.script.placeholders import literal

if TYPE_CHECKING:
    from ms_port.script.expressions import Expressions

WEIGHTS = ("pretrained", "weights", "progress", "weights_backbone", "pretrained_backbone")
_WEIGHTS_NOTE = "its trained weights are not here: convert them with ms-port convert --weights"


def call(e: Expressions, node: ast.Call, name: str) -> str:
    """A model of torchvision: its port stands in a package of its own."""
    assert e.library is not None
    keywords: dict[str, Any] = {}
    trained = bool(node.args)
    for keyword in node.keywords:
        if keyword.arg in WEIGHTS:
            none = isinstance(keyword.value, ast.Constant) and not keyword.value.value
            trained = trained or (keyword.arg != "progress" and not none)
        elif keyword.arg is None or not literal(keyword.value):
            return e.refuse(node, "MSP602", name, "its arguments are no literals: convert it with ms-port convert")
        else:
            keywords[keyword.arg] = ast.literal_eval(keyword.value)
    package = e.library(name, keywords)
    if not package.isidentifier():
        return e.refuse(node, "MSP602", name, package)
    local = e.needs.packages.setdefault(package, f"build_{package}")
    if trained:
        e.note(
            "MSP602",
            e.source.segment(node),
            _WEIGHTS_NOTE,
            "",
            "warning",
            name,
        )
    e.change(node, "MSP601", f"{local}()", name)
    return f"{local}()" if e.in_cell else f"{local}().set_train()"


def chosen(e: Expressions, node: ast.Call) -> str | None:
    """A call of the model whose name an expression gives; None for any other call."""
    func = node.func
    if not isinstance(func, ast.Subscript) and _looked_up(e, func) is None:
        return None
    name = func.slice if isinstance(func, ast.Subscript) and table_module(e, func.value) else _looked_up(e, func)
    if name is None or e.library is None:
        return None
    names = _names(e)
    where = "torchvision.models"
    if not names:
        return e.refuse(
            node, "MSP602", where, "no option of this file names a model: port the one you train with ms-port convert"
        )
    if any(keyword.arg not in WEIGHTS for keyword in node.keywords):
        return e.refuse(node, "MSP602", where, "a model chosen by name gets arguments: port it with ms-port convert")
    trained = [k for k in node.keywords if not (isinstance(k.value, ast.Constant) and not k.value.value)]
    if trained or node.args:
        e.note("MSP602", e.source.segment(node), _WEIGHTS_NOTE, "", "warning", where)
    text = f"{table(e, node, names)}[{e.render(name)}]()"
    e.change(node, "MSP601", text, where)
    return text if e.in_cell else f"{text}.set_train()"


def table(e: Expressions, node: ast.expr, names: list[str] | None = None) -> str:
    """The models that the file's options name, by name."""
    assert e.library is not None
    entries = []
    for name in _names(e) if names is None else names:
        package = e.library(f"torchvision.models.{name}", {})
        if not package.isidentifier():
            e.note("MSP602", e.source.segment(node), package, "", "warning", f"torchvision.models.{name}")
            continue
        entries.append(f"{name!r}: {e.needs.packages.setdefault(package, f'build_{package}')}")
    return f"{e.needs.name('PortedModels')}({{{', '.join(entries)}}})"


def table_module(e: Expressions, node: ast.expr) -> bool:
    """Whether an expression is all of ``torchvision.models`` by name: its ``__dict__``, or ``vars`` of it."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "vars" and node.args:
        return e.api_name(node.args[0]) == "torchvision.models"
    return e.api_name(node) == "torchvision.models.__dict__"


def _looked_up(e: Expressions, node: ast.expr) -> ast.expr | None:
    """The name in ``getattr(torchvision.models, name)``."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr"):
        return None
    return node.args[1] if len(node.args) == 2 and e.api_name(node.args[0]) == "torchvision.models" else None


def _names(e: Expressions) -> list[str]:
    """Models of torchvision that an option of the file has as its default, or offers."""
    import torchvision.models

    known = {n for n, f in vars(torchvision.models).items() if n.islower() and callable(f)}
    found: dict[str, None] = {}
    for node in ast.walk(e.module.source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            for keyword in node.keywords:
                if keyword.arg in ("default", "choices"):
                    found |= {
                        n.value: None
                        for n in ast.walk(keyword.value)
                        if isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value in known
                    }
    return list(found)
