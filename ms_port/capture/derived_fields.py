"""Fields of a configuration that its class computes where they are None: ``head_dim`` from ``hidden_size``."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ms_port.ir.tree import is_self_attribute, names_stored

_NODES = (ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.BoolOp, ast.Constant)
_PLAIN = (*_NODES, ast.operator, ast.unaryop, ast.cmpop, ast.boolop, ast.expr_context)
CALLED: Mapping[str, Any] = {"int": int, "min": min, "max": max, "round": round}
"""All that the expressions may call: they are arithmetic of fields."""


def derived_fields(cls: type) -> tuple[tuple[str, str], ...]:
    """(field, expression of ``self``'s other fields), in the order in which the class computes them.

    Read from the text of ``__post_init__``, or of the constructor where a person wrote one. What is computed in another
    way is left out, as are fields that the function writes elsewhere too.
    """
    definition = _setting_up(cls)
    if definition is None:
        return ()
    stored = _stored_arguments(definition)
    writes = _writes(definition)
    aliases = getattr(cls, "attribute_map", None)
    names = _Fields(stored, aliases if isinstance(aliases, dict) else {})
    found: dict[str, str] = {}
    for statement in definition.body:
        for target, test, value in _assigned(statement):
            field = names.field(target)
            if field is None or names.field(test) != field or writes[field] != 1:
                continue
            expression = names.visit(value)
            if _is_plain(expression) and all(not writes[r] or r in found or r in stored for r in _read(expression)):
                found.setdefault(field, ast.unparse(expression))
    return tuple(found.items())


def _setting_up(cls: type) -> ast.FunctionDef | None:
    """The text of what sets up an object: the first hand-written constructor or ``__post_init__`` of its classes."""
    for base in cls.__mro__[:-1]:
        for name in ("__init__", "__post_init__"):
            function = base.__dict__.get(name)
            try:
                tree = ast.parse(textwrap.dedent(inspect.getsource(function)))  # type: ignore[arg-type]
            except (OSError, TypeError, SyntaxError):  # none, or one that `@dataclass` wrote
                continue
            found = tree.body[0]
            if isinstance(found, ast.FunctionDef) and found.name == name:
                return found
    return None


def _writes(definition: ast.FunctionDef) -> Counter[str]:
    """How often each attribute of ``self``, and each name, is written; once for the pair of both."""
    nodes = [n for s in definition.body for n in ast.walk(s)]
    attributes = Counter(
        n.attr
        for n in nodes
        if isinstance(n, ast.Attribute) and is_self_attribute(n) and not isinstance(n.ctx, ast.Load)
    )
    names = Counter(n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))
    return Counter({key: max(attributes[key], names[key]) for key in attributes | names})


def _read(expression: ast.expr) -> set[str]:
    return {n.attr for n in ast.walk(expression) if isinstance(n, ast.Attribute)}


def _stored_arguments(definition: ast.FunctionDef) -> set[str]:
    """Arguments of a constructor that are stored under their own names, and not changed but where they are None."""
    stored = set()
    for s in definition.body:
        value = s.value if isinstance(s, ast.Assign) else None
        if isinstance(value, ast.IfExp):
            value = value.body if isinstance(value.body, ast.Name) else value.orelse
        if isinstance(s, ast.Assign) and isinstance(value, ast.Name):
            stored |= {value.id for t in s.targets if ast.unparse(t) == f"self.{value.id}"}
    plain = [s for s in definition.body if not any(True for _ in _assigned(s))]
    return stored - {name for s in plain for name in names_stored(s)}


def _assigned(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """Target, what is compared with None, and the value for None, of both ways to write it."""
    match statement:
        case ast.If(test=test, body=[ast.Assign(targets=[target], value=value)], orelse=[]):
            if (tested := _is_none(test, ast.Is)) is not None:
                yield target, tested, value
        case ast.Assign(targets=[target], value=ast.IfExp(test=test, body=body, orelse=orelse)):
            if (tested := _is_none(test, ast.IsNot)) is not None and ast.unparse(body) == ast.unparse(tested):
                yield target, tested, orelse
            elif (tested := _is_none(test, ast.Is)) is not None and ast.unparse(orelse) == ast.unparse(tested):
                yield target, tested, body


def _is_none(test: ast.expr, op: type[ast.cmpop]) -> ast.expr | None:
    match test:
        case ast.Compare(left=left, ops=[found], comparators=[ast.Constant(value=None)]) if isinstance(found, op):
            return left
    return None


class _Fields(ast.NodeTransformer):
    """Arguments of a constructor, and second names, as the fields they are."""

    def __init__(self, stored: set[str], aliases: Mapping[str, str]) -> None:
        self.stored, self.aliases = stored, aliases

    def field(self, node: ast.expr) -> str | None:
        """The field that an expression is."""
        if isinstance(node, ast.Name):
            return node.id if node.id in self.stored else None
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return self.aliases.get(node.attr, node.attr)
        return None

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Attribute(ast.Name("self", ast.Load()), node.id, ast.Load()) if node.id in self.stored else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        name = self.field(node)
        return ast.Attribute(ast.Name("self", ast.Load()), name, ast.Load()) if name is not None else node


def _is_plain(node: ast.AST) -> bool:
    """Arithmetic of fields and numbers."""
    match node:
        case ast.Attribute(value=ast.Name(id="self")):
            return True
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return name in CALLED and all(map(_is_plain, args))
        case _ if isinstance(node, _PLAIN):
            return all(map(_is_plain, ast.iter_child_nodes(node)))
    return False
