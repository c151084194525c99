"""Layers' classes where no layer is made: asked for by ``isinstance``, compared, annotated, derived from."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ms_port.script.apis import apis, normal
from ms_port.script.source import dotted

if TYPE_CHECKING:
    from ms_port.script.expressions import Expressions


def in_place_of(e: Expressions, node: ast.Attribute | ast.Name) -> str | None:
    """The class of a layer where no instance is made: in annotations, comparisons, bases and in what ``isinstance`` gets."""
    classes = classes_of(e, node)
    if not classes:
        return None
    if _annotates(e, node):
        return " | ".join(dict.fromkeys(classes))
    place = e.source.parents.get(node)
    if isinstance(place, (ast.Compare, ast.ClassDef)):
        return classes[0]
    if isinstance(place, (ast.Tuple, ast.List, ast.Set)) and _compares(e, place):
        return ", ".join(classes)
    return _one_of(classes) if _asked_for(e, node) else None


def asked(e: Expressions, node: ast.Call) -> str | None:
    """The classes of ``isinstance`` are those that layers become, without arguments."""
    classes = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
    found = [classes_of(e, item) for item in classes]
    if not any(found):
        return None
    texts = [t for item, given in zip(classes, found, strict=True) for t in given or [e.render(item)]]
    return f"{e.render(node.func)}({e.render(node.args[0])}, {_one_of(texts)})"


def classes_of(e: Expressions, item: ast.expr) -> list[str] | None:
    """What a layer's class becomes where its instances are asked for; None for other classes."""
    name = e.api_name(item)
    row = e.op_map.row(normal(name)) if name and normal(name) not in apis().values else None
    if row is None or not row.targets:
        return None
    targets = [t for t in row.targets if not set(e.op_map.bases(t)) & set(row.targets)]  # its base answers for it
    return [e.names_in(target) for target in targets]


def names_api(e: Expressions, node: ast.Attribute | ast.Name) -> bool:
    """Whether an expression is torch's own name for something, and no variable that may hold it."""
    if e.api_name(node) is not None:
        return True
    if isinstance(node, ast.Name):
        return bool(e.module.stars) and node.id not in e.module.bound
    held = e.inference.of(node.value)
    return isinstance(held, tuple) and held[0] == "api"


def _annotates(e: Expressions, node: ast.expr) -> bool:
    """Whether a class stands in an annotation."""
    place: ast.AST | None = e.source.parents.get(node)
    inner: ast.AST = node
    while isinstance(place, (ast.Subscript, ast.Tuple, ast.List, ast.BinOp)):
        inner = place
        place = e.source.parents.get(place)
    held = [getattr(place, field, None) for field in ("annotation", "returns")]
    return any(h is inner for h in held)


def _compares(e: Expressions, node: ast.expr) -> bool:
    """``type(m) in (nn.Linear, nn.Conv2d)``."""
    return isinstance(e.source.parents.get(node), ast.Compare)


def _asked_for(e: Expressions, node: ast.expr) -> bool:
    """Whether a class stands in what a name holds that ``isinstance`` gets: ``norms = (nn.LayerNorm, nn.GroupNorm)``."""
    place: ast.AST | None = e.source.parents.get(node)
    inner: ast.AST = node
    while isinstance(place, (ast.Tuple, ast.List)):
        inner = place
        place = e.source.parents.get(place)
    scope: ast.AST = e.source.tree
    if isinstance(place, ast.Assign):
        held = {dotted(target) for target in place.targets}
    elif isinstance(place, ast.Call) and isinstance(kind := e.inference.of(place.func), tuple):
        if kind[0] != "func":
            return False
        scope = kind[1].node
        names = [a.arg for a in kind[1].node.args.args]
        held = {names[i] for i, given in enumerate(place.args) if given is inner and i < len(names)}
    else:
        return False
    calls = [n for n in ast.walk(scope) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    asked = [n.args[1] for n in calls if n.func.id in ("isinstance", "issubclass") and len(n.args) == 2]  # type: ignore[attr-defined]
    return any(dotted(name) in held for given in asked for name in ast.walk(given) if isinstance(name, ast.expr))


def _one_of(texts: list[str]) -> str:
    """Classes as the second argument of ``isinstance``."""
    texts = list(dict.fromkeys(texts))
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
