"""Where a class stands in its file, and the literals that its body assigns, without parsing the file."""

from __future__ import annotations

import ast
import linecache
import re
import sys
import textwrap
import types
from collections.abc import Iterator

from ms_port.ir.program import SourceLoc


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
        if (statement := _literal_assignment("".join(lines[number : number + 12]))) is not None:
            statement.lineno = number + 1
            yield statement


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _literal_assignment(text: str) -> ast.stmt | None:
    """The first statement of the text where it assigns a literal."""
    lines = textwrap.dedent(text).splitlines()
    for end in range(1, len(lines) + 1):
        try:
            statement = ast.parse("\n".join(lines[:end])).body[0]
        except (SyntaxError, IndexError):
            continue
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            try:
                ast.literal_eval(statement.value)
            except ValueError:
                return None
            return statement
        return None
    return None
