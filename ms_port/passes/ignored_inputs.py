"""Inputs that torch itself ignores, whatever their values are: no port has to use them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ms_port.ir.program import FunctionDef, Program
from ms_port.ir.tree import nid
from ms_port.passes.ledger import needed_calls, tensor_keys
from ms_port.passes.lowering import find_method

_KINDS = frozenset({"device", "dtype", "ndim", "shape"})
"""Attributes that say nothing of a tensor's values."""


def note_ignored_inputs(program: Program) -> Program:
    """Find them before any statement is changed."""
    root = find_method(program, program.root, "forward")
    if root is None:
        return program
    by_value = any(flag.rule in ("MSP201", "MSP301") for flag in program.flags)
    _, live = needed_calls(program)
    given = {spec.name: tensor_keys(spec.value) for spec in program.inputs}
    ignored = set()
    for name in [a.arg for a in [*root.node.args.args, *root.node.args.kwonlyargs]][1:]:
        reads = list(_reads(root.body, name, ()))
        unused = not by_value and not given.get(name, set()) & live and all(_says_nothing(root, r) for r in reads)
        if not reads or unused:
            ignored.add(name)
    return replace(program, ignored_inputs=frozenset(ignored))


def _reads(nodes: Sequence[ast.AST], name: str, above: tuple[ast.AST, ...]) -> Iterator[tuple[ast.AST, ...]]:
    """Where the name is read: the nodes around it, from the outermost to the name."""
    for node in nodes:
        path = (*above, node)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            yield path
        yield from _reads(list(ast.iter_child_nodes(node)), name, path)


def _says_nothing(root: FunctionDef, path: tuple[ast.AST, ...]) -> bool:
    """Whether a read asks for the kind of an input only, or never runs under these settings."""
    parent = path[-2] if len(path) > 1 else None
    if isinstance(parent, ast.Attribute) and parent.attr in _KINDS:
        return True
    if _is_question_of_kind(parent):
        return True
    statements = [n for n in path if isinstance(n, ast.stmt)]
    if nid(statements[-1]) in root.facts.ran:
        return False
    around = [n for n in statements if isinstance(n, ast.If)]
    line = statements[-1].lineno
    before = [n for s in root.body for n in ast.walk(s) if isinstance(n, ast.If) and n.lineno < line and _ends(n)]
    tests = [n.test for n in [*around, *before]]
    inputs = {a.arg for a in [*root.node.args.args, *root.node.args.kwonlyargs]} - {"self"}
    return bool(tests) and all(_is_setting(test, inputs) for test in tests)


def _ends(statement: ast.If) -> bool:
    """Whether a branch may end the function."""
    return any(isinstance(n, ast.Return | ast.Raise) for n in ast.walk(statement))


def _is_question_of_kind(node: ast.AST | None) -> bool:
    """``isinstance(x, ...)``, ``x is None``."""
    match node:
        case ast.Call(func=ast.Name(id="isinstance")):
            return True
        case ast.Compare(ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return True
    return False


def _is_setting(test: ast.expr, inputs: set[str]) -> bool:
    """Whether a condition asks for settings of the model and for kinds of inputs only; a local name may be anything."""
    for path in (p for name in _names(test) for p in _reads([test], name, ())):
        name = path[-1]
        assert isinstance(name, ast.Name)
        if name.id == "self" or any(map(_is_question_of_kind, path)):
            continue
        if name.id in inputs or not name.id.isupper():
            return False
    return True


def _names(test: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
