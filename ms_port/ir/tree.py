"""Copying and walking ``ast`` trees that carry ``nid``s."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)


def copy(node: Node) -> Node:
    """A deep copy that keeps positions and ``nid``; several times faster than ``copy.deepcopy``."""
    new = node.__class__.__new__(node.__class__)
    for key, value in node.__dict__.items():
        if isinstance(value, list):
            new.__dict__[key] = [copy(item) if isinstance(item, ast.AST) else item for item in value]
        elif isinstance(value, ast.AST):
            new.__dict__[key] = copy(value)
        else:
            new.__dict__[key] = value
    return new


def nid(node: ast.AST) -> int:
    """The node's id in its function, -1 for nodes made by a pass."""
    return getattr(node, "nid", -1)


def keep_place(node: ast.AST, made: ast.AST) -> None:
    """Note on a new node from which line it comes, and the comments that stand there."""
    for name in ("comments_before", "comments_after"):
        if hasattr(node, name) and not hasattr(made, name):
            setattr(made, name, getattr(node, name))
    if nid(node) >= 0 and not hasattr(made, "line"):
        made.line = getattr(node, "lineno", 0)  # type: ignore[attr-defined]


Expression = TypeVar("Expression", bound=ast.expr)


def ported(node: Expression) -> Expression:
    """Mark an expression that a pass wrote in MindSpore's words: lowering keeps it, and lowers what stands inside."""
    node.ported = True  # type: ignore[attr-defined]
    return node


def expression(text: str) -> ast.expr:
    """Parse one expression."""
    return ast.parse(text, mode="eval").body


def statement(text: str) -> ast.stmt:
    """Parse one statement."""
    return ast.parse(text).body[0]


def names_read(nodes: Iterator[ast.AST] | list[ast.stmt] | tuple[ast.stmt, ...]) -> set[str]:
    """Names loaded anywhere below the nodes."""
    return {
        node.id
        for root in nodes
        for node in ast.walk(root)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def names_stored(node: ast.AST) -> set[str]:
    """Names bound anywhere below the node."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}


def defaults_of(args: ast.arguments) -> dict[str, ast.expr]:
    """The defaults of a function's parameters by name; those without one are left out."""
    names = [a.arg for a in [*args.posonlyargs, *args.args]]
    found = dict(zip(names[len(names) - len(args.defaults) :], args.defaults, strict=True))
    return found | {a.arg: d for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None}


def is_self_attribute(node: ast.AST) -> bool:
    """``self.x``."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def is_place(node: ast.expr, items: bool = False) -> bool:
    """``x``, ``self.w``, with ``items`` also ``pair[0]``: reading it again gives the same tensor."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Subscript) and not (items and isinstance(node.slice, ast.Constant)):
            return False
        node = node.value
    return isinstance(node, ast.Name)


def literal(value: object) -> ast.expr:
    """Source for a literal: infinities, tuples, slices, ranges too; enums refused. Raises ValueError."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return expression(f"float({str(value)!r})")
    if value is Ellipsis or value is None or type(value) in (bool, int, float, complex, str, bytes):
        return expression(repr(value))
    if isinstance(value, tuple):
        return ast.Tuple([literal(v) for v in value], ast.Load())
    if isinstance(value, list):
        return ast.List([literal(v) for v in value], ast.Load())
    if isinstance(value, dict):
        return ast.Dict([literal(k) for k in value], [literal(v) for v in value.values()])
    if isinstance(value, slice):
        return ast.Call(ast.Name("slice", ast.Load()), [literal(v) for v in (value.start, value.stop, value.step)], [])
    if isinstance(value, range):
        return expression(repr(value) if value.start or value.step != 1 else f"range({value.stop})")
    raise ValueError(f"no literal for {type(value).__name__}")
