"""Where a class stands in its file, and the literals that its body assigns, without parsing the file."""

from __future__ import annotations

import ast
import linecache
import re
import sys
import types
from collections.abc import Iterator

from ms_port.ir.program import SourceLoc
from ms_port.ir.tree import literal


def class_loc(cls: type) -> SourceLoc:
    """File and line of ``class Name``; line 0 where there is no source."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if file is None:
        return SourceLoc("?", 0)
    return SourceLoc(file, _line(cls, linecache.getlines(file)))


def _line(cls: type, lines: list[str]) -> int:
    """The last ``class Name`` above the first of its own methods."""
    header = re.compile(rf"\s*class\s+{re.escape(cls.__name__)}\b")
    found = [number for number, line in enumerate(lines, 1) if header.match(line)]
    methods = [
        m.__code__.co_firstlineno
        for m in cls.__dict__.values()
        if isinstance(m, types.FunctionType) and m.__module__ == cls.__module__
    ]
    above = [number for number in found if not methods or number < min(methods)]
    return (above or found or [0])[-1]


def class_attributes(cls: type) -> Iterator[ast.stmt]:
    """``name: T = literal`` and ``name = literal`` of the class body, as written."""
    loc = class_loc(cls)
    lines = linecache.getlines(loc.file)
    if loc.line == 0 or not lines:
        return
    outer = _indent(lines[loc.line - 1])
    inner: int | None = None
    for number in range(loc.line, len(lines)):
        line = lines[number]
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if _indent(line) <= outer and not line.lstrip().startswith((")", "]")):
            return
        inner = _indent(line) if inner is None and not line.lstrip().startswith((")", '"""')) else inner
        if _indent(line) != inner or not re.match(r"\s*\w+\s*(:[^=]+)?=[^=]", line):
            continue
        for statement in _literal_assignments(cls, "".join(_inner(lines[number : number + 64], inner))):
            statement.lineno = number + 1
            yield statement


def _inner(lines: list[str], indent: int | None) -> Iterator[str]:
    """The lines up to the end of the class body, less its indentation."""
    for line in lines:
        if line.strip() and _indent(line) < (indent or 0) and not line.lstrip().startswith((")", "]", "}")):
            return
        yield line[indent or 0 :] if line.strip() else "\n"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _literal_assignments(cls: type, text: str) -> Iterator[ast.stmt]:
    """What the first statement of the text, and those on its last line, assign: literals, or what comes to one."""
    lines = text.splitlines()
    for end in range(1, len(lines) + 1):
        try:
            statements = ast.parse("\n".join(lines[:end])).body
        except SyntaxError:
            continue
        for statement in statements:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                    if (value := _as_literal(statement.value, cls.__dict__.get(name))) is not None:
                        statement.value = value
                        yield statement
        return


def _as_literal(node: ast.expr | None, value: object) -> ast.expr | None:
    """The node if it is a literal, or the literal that it came to."""
    if node is None:
        return None
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError):
        try:
            return literal(value) if value is not None else None
        except (ValueError, TypeError):
            return None
    return node
