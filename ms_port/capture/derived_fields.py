"""Fields of a configuration that its class computes where they are None: ``head_dim`` from ``hidden_size``."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping

from ms_port.ir.tree import names_stored

_NODES = (ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.BoolOp, ast.Constant)
_PLAIN = (*_NODES, ast.operator, ast.unaryop, ast.cmpop, ast.boolop, ast.expr_context)
_CALLED = ("int", "min", "max", "round")


def derived_fields(cls: type) -> tuple[tuple[str, str], ...]:
    """(field, expression of ``self``'s other fields), in the order in which the class computes them.

    Read from the text of ``__post_init__``, or of the constructor where there is none; what is computed in another way
    is left out.
    """
    function = getattr(cls, "__post_init__", None) or cls.__dict__.get("__init__")
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))  # type: ignore[arg-type]
    except (OSError, TypeError, SyntaxError):
        return ()
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        return ()
    stored = _stored_arguments(definition)
    aliases = getattr(cls, "attribute_map", None)
    names = _Fields(stored, aliases if isinstance(aliases, dict) else {})
    found: dict[str, str] = {}
    for statement in definition.body:
        for target, test, value in _assigned(statement):
            field = names.field(target)
            if field is None or names.field(test) != field:
                continue
            expression = names.visit(value)
            if _is_plain(expression):
                found.setdefault(field, ast.unparse(expression))
    return tuple(found.items())


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
            return name in _CALLED and all(map(_is_plain, args))
        case _ if isinstance(node, _PLAIN):
            return all(map(_is_plain, ast.iter_child_nodes(node)))
    return False
