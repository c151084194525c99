"""Which names have a value for certain: a function that takes or gives back a name must find one under it on every way."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from ms_port.script.source import dotted
from ms_port.script.syntax import blocks


def bound_by(statement: ast.stmt) -> set[str]:
    """Names that have a value once a statement was left at its end, whichever way it took.

    A loop is taken to run at least once.
    """
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {statement.name}
        case ast.If():
            return _either([statement.body, statement.orelse])
        case ast.Try():
            plain = [*statement.body, *statement.orelse]
            return _either([plain, *(h.body for h in statement.handlers)]) | bound(statement.finalbody)
        case ast.Match():
            return _either([*(case.body for case in statement.cases), []])
        case ast.Import() | ast.ImportFrom():
            return {alias.asname or alias.name.split(".")[0] for alias in statement.names}
    inner = {name for body in blocks(statement) for name in bound(body)}
    return inner | _stored(statement)


def bound(body: Sequence[ast.stmt]) -> set[str]:
    """Names that have a value at the end of a block."""
    return {name for statement in body for name in bound_by(statement)}


def before(body: Sequence[ast.stmt], block: Sequence[ast.stmt], index: int) -> set[str]:
    """Names that have a value for certain where ``block[index]`` begins, ``body`` being the whole scope."""
    found: set[str] = set()
    for holder, position in way(body, block) or []:
        found |= bound(holder[:position]) | _stored(holder[position])
    return found | bound(block[:index])


def exposed(body: Sequence[ast.stmt], known: set[str]) -> set[str]:
    """Names that a block reads where not every way has set them in it; ``known`` have a value at its start."""
    found: set[str] = set()
    known = set(known)
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            known.add(statement.name)
            continue
        if not any(True for _ in blocks(statement)):
            own = set(known)
            for name, load in _events(statement):
                if not load:
                    own.add(name)
                elif name not in own:
                    found.add(name)
        else:
            for child in ast.iter_child_nodes(statement):
                if not isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
                    found |= {name for name, load in _events(child) if load and name not in known}
            for inner in blocks(statement):
                found |= exposed(inner, known | _stored(statement))
        known |= bound_by(statement)
    return found


def way(body: Sequence[ast.stmt], block: Sequence[ast.stmt]) -> list[tuple[Sequence[ast.stmt], int]] | None:
    """(block, index) of the statements that hold ``block``, from the outermost; None where it is not in ``body``."""
    if body is block:
        return []
    for index, statement in enumerate(body):
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for inner in blocks(statement):
            found = way(inner, block)
            if found is not None:
                return [(body, index), *found]
    return None


def in_loop(body: Sequence[ast.stmt], block: Sequence[ast.stmt]) -> bool:
    """Whether ``block`` runs again and again in one run of ``body``."""
    return any(isinstance(b[i], (ast.For, ast.AsyncFor, ast.While)) for b, i in way(body, block) or [])


def _either(bodies: Sequence[Sequence[ast.stmt]]) -> set[str]:
    """Names bound at the end of each block that has an end."""
    ends = [bound(body) for body in bodies if not (body and _leaves(body[-1]))]
    return set.intersection(*ends) if ends else set()


def _leaves(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.Return, ast.Raise, ast.Continue, ast.Break))


def _stored(statement: ast.stmt) -> set[str]:
    """Names that a statement itself binds, without those of the blocks in it."""
    inside = {id(node) for body in blocks(statement) for inner in body for node in ast.walk(inner)}
    return {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in inside
    }


def _events(node: ast.AST) -> list[tuple[str, bool]]:
    """(name, read) in the order of evaluation, as far as it matters: values before targets."""
    found: list[tuple[str, bool]] = []
    if isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
        return found
    if isinstance(node, ast.Name):
        return [(node.id, not isinstance(node.ctx, ast.Store))]
    children: list[Any] = list(ast.iter_child_nodes(node))
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
        children.sort(key=lambda c: isinstance(getattr(c, "ctx", None), ast.Store))
    elif isinstance(node, ast.AugAssign):
        name = dotted(node.target)
        return [*([(name, True)] if name and "." not in name else []), *_events(node.value), *_events(node.target)]
    elif isinstance(node, (ast.For, ast.comprehension)):
        children.sort(key=lambda c: c is not node.iter)
    elif isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)):
        bound = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
        inner = [
            event
            for child in [*node.generators, *(c for c in children if not isinstance(c, ast.comprehension))]
            for event in _events(child)
        ]
        return [(name, load) for name, load in inner if name not in bound]
    for child in children:
        found += _events(child)
    return found
