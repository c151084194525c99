"""Walks over statements: blocks, what a statement assigns, its own nodes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ms_port.script.source import dotted

BLOCKS = ("body", "orelse", "finalbody")


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The statement lists of a compound statement."""
    for name in BLOCKS:
        body = getattr(node, name, None)
        if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
            yield body
    for handler in getattr(node, "handlers", ()):
        yield handler.body
    for case in getattr(node, "cases", ()):
        yield case.body


def statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements of a scope in order, not those of functions and classes inside."""
    for statement in body:
        yield statement
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for inner in blocks(statement):
                yield from statements(inner)


def targets(statement: ast.AST) -> set[str]:
    """Dotted names that a statement (with all inside it) assigns or changes."""
    found: set[str] = set()
    inner = comprehended(statement)
    for node in ast.walk(statement):
        if node in inner:
            continue
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            found.add(dotted(node) or "")
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            found.add(dotted(node.value) or "")
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("append", "extend", "insert", "update", "add_")
        ):
            found.add(dotted(node.func.value) or "")
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
    return found - {""}


def comprehended(statement: ast.AST) -> set[ast.AST]:
    """The nodes by which comprehensions bind names of their own."""
    return {n for c in ast.walk(statement) if isinstance(c, ast.comprehension) for n in ast.walk(c.target)}


def own_nodes(statement: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a statement, without those of functions inside."""
    yield statement
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, (ast.FunctionDef, ast.Lambda, ast.ClassDef, ast.AsyncFunctionDef)):
            yield from own_nodes(child)
