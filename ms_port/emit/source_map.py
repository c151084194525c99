"""From which line of the source each line of the generated model came.

The written file is parsed again and laid beside the statement trees that it was written from: a statement is found by
what it says, whatever the formatter did to the lines.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ms_port.ir.program import CellDef, FunctionDef, Program


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a generated line comes from. ``module``: dotted path of the first module of its class."""

    file: str
    line: int
    module: str | None


def source_lines(program: Program, text: str) -> dict[int, Origin]:
    """Origin by line (from 1) of model.py, for all lines of its classes and functions that come from source."""
    cells = {cell.name: cell for cell in program.cells.values()}
    functions = {f.name: f for f in program.functions.values()}
    if program.factory is not None:
        functions["build_model"] = program.factory
    found: dict[int, Origin] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and node.name in cells:
            found |= _filled(_of_class(cells[node.name], node), node)
        elif isinstance(node, ast.FunctionDef) and node.name in functions:
            found |= _filled(_of_function(functions[node.name], node, None), node)
    return found


def _of_class(cell: CellDef, node: ast.ClassDef) -> dict[int, Origin]:
    module = cell.instances[0] if cell.instances else None
    found = {node.lineno: Origin(cell.loc.file, cell.loc.line, module)} if cell.loc.line else {}
    attributes = [s for s in node.body if isinstance(s, ast.Assign | ast.AnnAssign)]
    for ours, theirs in zip(cell.attributes, attributes, strict=False):
        found[theirs.lineno] = Origin(cell.loc.file, ours.lineno, module)
    methods = {m.name: m for m in cell.methods}
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef) and statement.name in methods:
            own = _of_function(methods[statement.name], statement, module)
            found |= _filled(own, statement)
    return found


def _of_function(function: FunctionDef, node: ast.FunctionDef, module: str | None) -> dict[int, Origin]:
    file = function.loc.file
    lines = {node.lineno: function.loc.line}
    places = {a.arg: getattr(a, "line", 0) for a in [*function.node.args.args, *function.node.args.kwonlyargs]}
    for written in [*node.args.args, *node.args.kwonlyargs]:
        if places.get(written.arg):
            lines.setdefault(written.lineno, places[written.arg])
    docstring = ast.get_docstring(node, clean=False) is not None
    for ours, theirs in _statements(function.body, node.body[1:] if docstring else node.body):
        line = getattr(ours, "lineno", 0)
        if line < function.loc.line:
            continue  # made by a pass
        lines.setdefault(theirs.lineno, line)
        for mine, other in _expressions(ours, theirs):
            if (at := getattr(mine, "line", 0)) >= function.loc.line:
                lines.setdefault(other.lineno, at)
    return {at: Origin(file, line, module) for at, line in lines.items() if line}


def _statements(ours: Sequence[ast.stmt], theirs: Sequence[ast.stmt]) -> Iterator[tuple[ast.stmt, ast.stmt]]:
    """Statements of two blocks in pairs, found by what they say; those between two pairs by their place, if as many."""
    said, written = [_head(s) for s in ours], [_head(s) for s in theirs]
    for same, a, b, c, d in difflib.SequenceMatcher(None, said, written, autojunk=False).get_opcodes():
        if same != "equal" and b - a != d - c:
            continue
        for one, other in zip(ours[a:b], theirs[c:d], strict=True):
            if type(one) is type(other):
                yield one, other
                for part in ("body", "orelse"):
                    yield from _statements(getattr(one, part, []), getattr(other, part, []))


def _head(statement: ast.stmt) -> str:
    """What a statement says, without the statements inside it."""
    match statement:
        case ast.If(test=test) | ast.While(test=test):
            return f"{type(statement).__name__} {ast.unparse(test)}"
        case ast.For(target=target, iter=iterated):
            return f"for {ast.unparse(target)} in {ast.unparse(iterated)}"
        case ast.FunctionDef(name=name):
            return f"def {name}"
    return ast.unparse(statement)


def _expressions(ours: ast.AST, theirs: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Expressions of two statements in pairs, as far down as they are alike."""
    for (_, mine), (_, written) in zip(ast.iter_fields(ours), ast.iter_fields(theirs), strict=False):
        pairs = (
            zip(mine, written, strict=False)
            if isinstance(mine, list) and isinstance(written, list)
            else [(mine, written)]
        )
        for one, other in pairs:
            if type(one) is not type(other) or not isinstance(one, ast.expr | ast.keyword):
                continue
            if isinstance(one, ast.expr):
                yield one, other
            yield from _expressions(one, other)


def _filled(found: Mapping[int, Origin], node: ast.ClassDef | ast.FunctionDef) -> dict[int, Origin]:
    """Every line of a definition: those between take the origin of the line above."""
    made: dict[int, Origin] = {}
    last: Origin | None = None
    for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
        last = found.get(line, last)
        if last is not None:
            made[line] = last
    return made


def after_edits(found: Mapping[int, Origin], generated: str, edited: str) -> dict[int, Origin]:
    """The map for a file that a person changed: only the lines that are still as generated have an origin."""
    if generated == edited:
        return dict(found)
    before, after = generated.splitlines(), edited.splitlines()
    moved: dict[int, Origin] = {}
    for block in difflib.SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks():
        for offset in range(block.size):
            if (origin := found.get(block.a + offset + 1)) is not None:
                moved[block.b + offset + 1] = origin
    return moved
