"""``ast`` trees as people write them: numbers and parentheses as in the source, bare tuples after ``return``."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ms_port.ir.tree import copy

_Base: Any = ast._Unparser  # type: ignore[attr-defined]  # the class behind ast.unparse, which takes no options


class _Unparser(_Base):  # type: ignore[misc]
    def __init__(self, inside: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self._brackets = int(inside)
        self.lost: list[str] = []
        """Comments that stood in brackets which are gone."""

    @contextmanager
    def delimit(self, start: str, end: str) -> Iterator[None]:
        self._brackets += 1
        with super().delimit(start, end):
            yield
        self._brackets -= 1

    def traverse(self, node: Any) -> None:
        before, after = getattr(node, "comments_before", ()), getattr(node, "comments_after", ())
        if not (before or after):
            super().traverse(node)
            return
        if self._brackets:
            self._comment_lines(before)
            super().traverse(node)
            for comment in after:
                self.write(f"  {comment}\n")
        else:
            self.lost += [*before, *after]
            super().traverse(node)

    def _comment_lines(self, comments: tuple[str, ...]) -> None:
        if comments:
            self.write("\n" + "".join(f"{comment}\n" for comment in comments))

    def visit_keyword(self, node: ast.keyword) -> None:
        value = node.value
        if (before := getattr(value, "comments_before", ())) and self._brackets:
            self._comment_lines(before)
            value = copy(value)
            del value.comments_before  # type: ignore[attr-defined]
            node = ast.keyword(node.arg, value)
        super().visit_keyword(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        text = getattr(node, "text", None)
        if isinstance(node.value, int | float) and not isinstance(node.value, bool) and math.isfinite(node.value):
            self.write(text or re.sub(r"e([+-]?)0+(\d)", r"e\1\2", repr(node.value)))
            return
        super().visit_Constant(node)

    def visit_Return(self, node: ast.Return) -> None:
        self.fill("return")
        if node.value is not None:
            self.write(" ")
            self._bare(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.fill()
        for target in node.targets:
            self._bare(target)
            self.write(" = ")
        self._bare(node.value)

    def _bare(self, node: ast.expr) -> None:
        """A tuple without its parentheses."""
        if isinstance(node, ast.Tuple) and node.elts and not any(isinstance(e, ast.Starred) for e in node.elts):
            for index, item in enumerate(node.elts):
                self.write(", " if index else "")
                self.traverse(item)
            if len(node.elts) == 1:
                self.write(",")
        else:
            self.traverse(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        left, right = _was_parenthesized(node, node.left, True), _was_parenthesized(node, node.right, False)
        negative_power = (
            isinstance(node.op, ast.Pow) and isinstance(node.right, ast.UnaryOp) and isinstance(node.right.op, ast.USub)
        )
        if not (left or right or negative_power):
            super().visit_BinOp(node)
            return
        own = self.binop[node.op.__class__.__name__]
        precedence = self.binop_precedence[own]
        with self.require_parens(precedence, node):
            self._operand(node.left, left, precedence.next() if own in self.binop_rassoc else precedence)
            self.write(f" {own} ")
            base = precedence if own in self.binop_rassoc else precedence.next()
            if negative_power:
                assert isinstance(node.right, ast.UnaryOp)
                self.write("-")
                self._operand(node.right.operand, False, base)
            else:
                self._operand(node.right, right, base)

    def _operand(self, node: ast.expr, parenthesized: bool, precedence: Any) -> None:
        if parenthesized:
            lowest = type(precedence)(1)
            self.write("(")
            self.set_precedence(lowest, node)
            self.traverse(node)
            self.write(")")
        else:
            self.set_precedence(precedence, node)
            self.traverse(node)


def _was_parenthesized(parent: ast.expr, child: ast.expr, is_left: bool) -> bool:
    """Whether the source had parentheses around a binary operand: they show in the positions."""
    if not isinstance(child, ast.BinOp) or getattr(parent, "end_lineno", None) is None:
        return False
    if getattr(child, "end_lineno", None) is None:
        return False
    if is_left:
        return (parent.lineno, parent.col_offset) < (child.lineno, child.col_offset)
    return (parent.end_lineno or 0, parent.end_col_offset or 0) > (child.end_lineno or 0, child.end_col_offset or 0)


def unparse(node: ast.AST, inside: bool = False, lost: list[str] | None = None) -> str:
    """Source of a node, with comments in its brackets. ``inside``: it will stand in brackets.

    ``lost`` gets the comments for which there are no brackets.
    """
    writer = _Unparser(inside)
    text = str(writer.visit(ast.fix_missing_locations(node)))
    if lost is not None:
        lost += writer.lost
    return text
