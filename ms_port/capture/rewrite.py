"""Rewrites a function's tree so that every statement, expression and call reports to hooks.

A hook is called through a unique string constant (``"\0hook 3 value"(7, x + 1)``); ``instrument`` puts the recorder's
bound methods in the place of those constants afterwards, so no name is added to the user's globals or to builtins.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TypeVar

from ms_port.capture.source import FunctionNode, nid_of

HOOK_PREFIX = "\0hook "
HOOKS = ("enter", "leave", "value", "call", "statement", "result", "lambda_result", "made")

FRAME_BOUND = frozenset({"super", "locals", "vars", "globals", "dir", "eval", "exec", "__import__"})
"""Built-ins that look at the frame that calls them: their calls stay where they are."""

REPORTED = (
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.NamedExpr,
    ast.Tuple,
    ast.List,
    ast.Set,
    ast.Dict,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.JoinedStr,
)

Begin = Callable[[FunctionNode], "int | None"]
"""Called for each nested function: the index of its record, or None where it can't be instrumented."""

Node = TypeVar("Node", bound=ast.AST)


def hook_name(index: int, hook: str) -> str:
    """The constant that stands for a hook of the function record ``index``."""
    return f"{HOOK_PREFIX}{index} {hook}"


def is_generator(node: FunctionNode) -> bool:
    """True where the function's own body (not that of functions in it) yields."""
    pending: list[ast.AST] = list(node.body) if isinstance(node, ast.FunctionDef) else [node.body]
    while pending:
        item = pending.pop()
        if isinstance(item, (ast.Yield, ast.YieldFrom, ast.Await)):
            return True
        if not isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            pending.extend(ast.iter_child_nodes(item))
    return False


class Rewriter:
    """Rewrites one function (record ``index``) in place; nested functions are announced to ``begin``."""

    def __init__(self, index: int, begin: Begin) -> None:
        self._index = index
        self._begin = begin

    def function(self, node: FunctionNode) -> None:
        """Instrument the body of a ``def`` or a lambda."""
        if isinstance(node, ast.Lambda):
            value = self._expression(node.body)
            node.body = self._hook("lambda_result", node.body, self._hook("enter", node.body), value)
            return
        body = node.body
        docstring = [body[0]] if ast.get_docstring(node, clean=False) is not None else []
        end = body[-1]
        statements = self._block(body[len(docstring) :])
        statements.append(_placed(ast.Expr(self._hook("result", end, _constant(None, end))), end))
        entered = ast.Expr(self._hook("enter", node))
        guarded = ast.Try(statements, [], [], [_placed(ast.Expr(self._hook("leave", node)), node)])
        node.body = [*docstring, _placed(entered, node), _placed(guarded, node)]

    # ---- hooks

    def _hook(self, hook: str, node: ast.expr | ast.stmt, *arguments: ast.expr, index: int | None = None) -> ast.Call:
        """Call of a hook, at the place of ``node``."""
        name = hook_name(self._index if index is None else index, hook)
        return _placed(ast.Call(_constant(name, node), list(arguments), []), node)

    def _value(self, node: ast.expr) -> ast.expr:
        """``value(nid, node)``, at the place of the node."""
        return self._hook("value", node, _constant(nid_of(node), node), node)

    # ---- statements

    def _block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for statement in body:
            report = ast.Expr(self._hook("statement", statement, _constant(nid_of(statement), statement)))
            out.append(_placed(report, statement))
            out.append(self._statement(statement))
        return out

    def _statement(self, node: ast.stmt) -> ast.stmt:
        match node:
            case ast.FunctionDef():
                self._nested(node)
            case ast.ClassDef():
                self._class(node)
            case ast.AsyncFunctionDef():
                pass
            case ast.Return():
                value = self._expression(node.value) if node.value is not None else _constant(None, node)
                node.value = self._hook("result", node, value)
            case ast.Match():
                node.subject = self._expression(node.subject)
                for case in node.cases:
                    case.guard = self._expression(case.guard) if case.guard is not None else None
                    case.body = self._block(case.body)
            case _:
                self._fields(node)
        return node

    def _fields(self, node: ast.stmt | ast.ExceptHandler | ast.withitem) -> None:
        """Rewrite the parts of a statement: blocks as blocks, expressions as expressions, annotations not at all."""
        for name, part in ast.iter_fields(node):
            if name in ("body", "orelse", "finalbody") and isinstance(part, list):
                setattr(node, name, self._block(part))
            elif name in ("handlers", "items"):
                for item in part:
                    self._fields(item)
            elif name == "annotation":
                continue
            elif isinstance(part, ast.expr):
                setattr(node, name, self._expression(part))
            elif isinstance(part, list):
                setattr(node, name, [self._expression(item) if isinstance(item, ast.expr) else item for item in part])

    def _nested(self, node: ast.FunctionDef) -> None:
        """A function made while running: it has a record of its own, and the new function object is reported."""
        node.decorator_list = [self._expression(item) for item in node.decorator_list]
        self._defaults(node.args)
        index = self._begin(node)
        if index is None:
            return
        node.decorator_list.append(_constant(hook_name(index, "made"), node))

    def _class(self, node: ast.ClassDef) -> None:
        """A class made while running: only its methods are instrumented."""
        node.decorator_list = [self._expression(item) for item in node.decorator_list]
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef):
                index = self._begin(statement)
                if index is not None:
                    statement.decorator_list.append(_constant(hook_name(index, "made"), statement))
            elif isinstance(statement, ast.ClassDef):
                self._class(statement)

    def _defaults(self, arguments: ast.arguments) -> None:
        arguments.defaults = [self._expression(item) for item in arguments.defaults]
        arguments.kw_defaults = [self._expression(item) if item is not None else None for item in arguments.kw_defaults]

    # ---- expressions

    def _expression(self, node: ast.expr) -> ast.expr:
        match node:
            case ast.Call():
                return self._call(node)
            case ast.Lambda():
                return self._lambda(node)
            case ast.Constant() | ast.Yield() | ast.YieldFrom() | ast.Await():
                return node
            case _:
                self._parts(node)
        stored = not isinstance(getattr(node, "ctx", None), (ast.Load, type(None)))
        return self._value(node) if isinstance(node, REPORTED) and not stored else node

    def _parts(self, node: ast.AST) -> None:
        for name, part in ast.iter_fields(node):
            if isinstance(node, ast.NamedExpr) and name == "target":
                continue
            if isinstance(part, ast.expr):
                setattr(node, name, self._part(part))
            elif isinstance(part, list):
                setattr(node, name, [self._part(item) if isinstance(item, ast.AST) else item for item in part])

    def _part(self, node: ast.AST) -> ast.AST:
        if isinstance(node, (ast.FormattedValue, ast.comprehension, ast.keyword)) or _is_format(node):
            self._parts(node)
            return node
        return self._expression(node) if isinstance(node, ast.expr) else node

    def _lambda(self, node: ast.Lambda) -> ast.expr:
        self._defaults(node.args)
        index = self._begin(node)
        return node if index is None else self._hook("made", node, node, index=index)

    def _call(self, node: ast.Call) -> ast.expr:
        frame_bound = isinstance(node.func, ast.Name) and node.func.id in FRAME_BOUND
        function = node.func if frame_bound else self._expression(node.func)
        node.args = [self._expression(item) for item in node.args]
        for keyword in node.keywords:
            keyword.value = self._expression(keyword.value)
        if frame_bound:
            return self._value(node)
        hooked = self._hook("call", node, _constant(nid_of(node), node), function, *node.args)
        hooked.keywords = node.keywords
        return hooked


def _is_format(node: ast.AST) -> bool:
    """The format specification of a FormattedValue must stay a bare JoinedStr; it is only ever met as a part of one."""
    return False if not isinstance(node, ast.JoinedStr) else getattr(node, "is_format", False)


def _placed(node: Node, where: ast.expr | ast.stmt) -> Node:
    """Put a new node at the place of another."""
    node.lineno, node.col_offset = where.lineno, where.col_offset  # type: ignore[attr-defined]
    node.end_lineno, node.end_col_offset = where.end_lineno, where.end_col_offset  # type: ignore[attr-defined]
    return node


def _constant(value: str | int | None, where: ast.expr | ast.stmt) -> ast.Constant:
    return _placed(ast.Constant(value), where)
