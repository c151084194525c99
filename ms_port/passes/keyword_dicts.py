"""A dict of keywords that a constructor fills step by step: each call is given the entries as they were written.

``settings = {}; settings.setdefault("act_layer", act_layer); partial(norm, **settings)`` was lowered to the value that
the trace saw. Where the code tells which entries the dict has at the call, the call gets their expressions instead.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from ms_port.ir.program import FunctionDef, Program
from ms_port.ir.tree import copy, names_stored
from ms_port.passes.rewrite import map_functions


def name_entries(program: Program) -> Program:
    """The program with the entries of such dicts at the calls that unpack them."""
    return map_functions(program, _named)


def entry_of(value: ast.expr, container: ast.expr) -> ast.expr:
    """The value that stands for an entry of ``**container``, marked as such."""
    if isinstance(container, ast.Name):
        value.entry_of = container.id  # type: ignore[attr-defined]
    return value


def _named(function: FunctionDef) -> FunctionDef:
    if not function.during_init:
        return function
    marked = {n.entry_of for s in function.body for n in ast.walk(s) if hasattr(n, "entry_of")}
    for name in sorted(marked):
        made = _Filling(name, function.body).without()
        function = function if made is None else replace(function, body=tuple(made))
    return function


class _Filling:
    """How the statements of a function fill one local dict."""

    def __init__(self, name: str, body: Sequence[ast.stmt]) -> None:
        self._name = name
        self._body = [copy(s) for s in body]

    def without(self) -> list[ast.stmt] | None:
        """The statements without the dict; None where it can't be told what it holds, or something else reads it."""
        entries: dict[str, ast.expr] | None = None
        kept: list[ast.stmt] = []
        for index, statement in enumerate(self._body):
            filled = self._filled(statement, entries)
            if filled is not None:
                entries = filled
                continue
            if not self._concerns(statement):
                kept.append(statement)
                continue
            if entries is None or not self._pass_on(statement, entries) or self._rebinds(entries, index):
                return None
            kept += self._decided(statement, entries)
        return None if entries is None or any(map(self._reads, kept)) else kept

    def _filled(self, statement: ast.stmt, entries: dict[str, ast.expr] | None) -> dict[str, ast.expr] | None:
        """The entries after a statement that makes or fills the dict; None for any other."""
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if name == self._name and entries is None:
                return _entries(value)
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key)))], value=value
            ) if name == self._name and entries is not None and _is_plain(value):
                return {**entries, key: value}
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr="setdefault"),
                    args=[ast.Constant(value=str(key)), value],
                )
            ) if name == self._name and entries is not None and _is_plain(value):
                return {key: value, **entries} if key not in entries else entries
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="update"), args=[value], keywords=[])
            ) if name == self._name and entries is not None:
                more = _entries(value)
                return None if more is None else {**entries, **more}
        return None

    def _concerns(self, statement: ast.stmt) -> bool:
        return self._reads(statement) or any(self._is_entry(n) for n in ast.walk(statement))

    def _reads(self, statement: ast.stmt) -> bool:
        return any(isinstance(n, ast.Name) and n.id == self._name for n in ast.walk(statement))

    def _is_entry(self, node: ast.AST) -> bool:
        return getattr(node, "entry_of", None) == self._name

    def _pass_on(self, statement: ast.stmt, entries: dict[str, ast.expr]) -> bool:
        """Give the calls of a statement the entries; whether each of them is known."""
        for call in (n for n in ast.walk(statement) if isinstance(n, ast.Call)):
            for keyword in call.keywords:
                if self._is_entry(keyword.value):
                    if keyword.arg not in entries:
                        return False
                    keyword.value = copy(entries[keyword.arg])
        return not any(self._is_entry(n) for n in ast.walk(statement))

    def _rebinds(self, entries: dict[str, ast.expr], end: int) -> bool:
        """Whether a name of the entries is bound anew before the call: from the dict's making on, to be sure."""
        read = {n.id for value in entries.values() for n in ast.walk(value) if isinstance(n, ast.Name)}
        start = next(i for i, s in enumerate(self._body) if self._name in names_stored(s))
        return any(read & names_stored(s) for s in self._body[start : end + 1])

    def _decided(self, statement: ast.stmt, entries: dict[str, ast.expr]) -> list[ast.stmt]:
        """``if settings:`` is known where the entries are."""
        match statement:
            case ast.If(test=ast.Name(id=name), body=body, orelse=orelse) if name == self._name:
                return body if entries else orelse
        return [statement]


def _entries(value: ast.expr) -> dict[str, ast.expr] | None:
    """Keys and values of a display of names and constants."""
    match value:
        case ast.Dict(keys=keys, values=values):
            pairs = list(zip(keys, values, strict=True))
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
            pairs = [(ast.Constant(k.arg), k.value) for k in keywords if k.arg is not None]
            if len(pairs) < len(keywords):
                return None
        case _:
            return None
    found: dict[str, ast.expr] = {}
    for key, entry in pairs:
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str) and _is_plain(entry)):
            return None
        found[key.value] = entry
    return found


def _is_plain(value: ast.expr) -> bool:
    return isinstance(value, ast.Name | ast.Constant)
