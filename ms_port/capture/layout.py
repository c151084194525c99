"""Blank lines and comments around the statements of a function, which ``ast`` forgets."""

from __future__ import annotations

import ast
import io
import linecache
import re
import textwrap
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass

from ms_port.capture.recording import FunctionRecord


@dataclass(frozen=True, slots=True)
class Layout:
    """Comments by the line (in the file) of the statement that they belong to."""

    above: dict[int, tuple[str, ...]]
    """What stands alone directly above: ``""`` for a blank line, then comment lines."""
    beside: dict[int, str]
    """What stands behind it on its last line; of a compound statement, of its header."""


@dataclass(frozen=True, slots=True)
class _Comment:
    line: int
    """0-based, in the source of the record."""
    text: str
    alone: bool
    """Fills its line."""
    inside: bool
    """Within brackets."""
    opens: bool
    """Directly behind an opening bracket."""


def comments_of(record: FunctionRecord) -> Layout:
    """The comments of a function; those within brackets are noted on the expressions beside which they stand."""
    lines = record.source.splitlines()
    comments = [c for c in _comments(record.source) if not _PRAGMA.match(c.text)]
    alone = {c.line: c.text for c in comments if c.alone and not c.inside}
    statements = [n for n in ast.walk(record.tree) if isinstance(n, ast.stmt)]
    above: dict[int, tuple[str, ...]] = {}
    for start in {s.lineno - record.line for s in statements}:
        block: list[str] = []
        at = start - 1
        while at in alone:
            block.insert(0, alone[at])
            at -= 1
        if any(map(_OF_OTHER_TOOLS.search, block)):
            block = []
        if 0 < at < len(lines) and not lines[at].strip():
            block.insert(0, "")
        if block:
            above[start + record.line] = tuple(block)
    beside: dict[int, str] = {}
    for comment in comments:
        if comment.inside:
            _note_inside(record, comment)
        elif not comment.alone and not _OF_OTHER_TOOLS.search(comment.text):
            _note_beside(statements, comment.line + record.line, comment.text, above, beside)
    return Layout(above, beside)


def _note_beside(
    statements: Sequence[ast.stmt], line: int, text: str, above: dict[int, tuple[str, ...]], beside: dict[int, str]
) -> None:
    for statement in statements:
        body: list[ast.stmt] = getattr(statement, "body", [])
        if (not body and statement.end_lineno == line) or (body and statement.lineno <= line < body[0].lineno):
            beside[statement.lineno] = text
        elif (orelse := getattr(statement, "orelse", None)) and body[-1].lineno < line < orelse[0].lineno:
            above[orelse[0].lineno] = (text, *above.get(orelse[0].lineno, ()))


def _note_inside(record: FunctionRecord, comment: _Comment) -> None:
    """Note a comment on the expression that it stands above, or behind."""
    line = comment.line + record.line
    nodes = [
        n
        for n in ast.walk(record.tree)
        if isinstance(n, ast.expr | ast.arg) and n.end_lineno is not None and n.end_col_offset is not None
    ]
    if comment.alone or comment.opens:
        below = [n for n in nodes if n.lineno > line]
        if below:
            node = min(below, key=lambda n: (n.lineno, n.col_offset, -(n.end_lineno or 0), -(n.end_col_offset or 0)))
            node.comments_before = (*getattr(node, "comments_before", ()), comment.text)  # type: ignore[union-attr]
            return
    before = [n for n in nodes if (n.end_lineno or 0) <= line]
    if before:
        node = max(before, key=lambda n: (n.end_lineno, n.end_col_offset, -n.lineno, -n.col_offset))
        node.comments_after = (*getattr(node, "comments_after", ()), comment.text)  # type: ignore[union-attr]


def comments_above_line(file: str, line: int) -> tuple[str, ...]:
    """The comment lines directly above a definition at a line of a file, with the same indentation."""
    lines = linecache.getlines(file)
    if not 1 < line <= len(lines):
        return ()
    indent = lines[line - 1][: len(lines[line - 1]) - len(lines[line - 1].lstrip())]
    block: list[str] = []
    for text in reversed(lines[: line - 1]):
        if not text.startswith(f"{indent}#"):
            break
        block.insert(0, text.strip())
    if block and block[0] == lines[0].strip():  # the head of the file: a licence
        return ()
    if any(map(_OF_OTHER_TOOLS.search, block)):
        return ()
    return tuple(text for text in block if not _PRAGMA.match(text))


def comment_behind(file: str, line: int) -> str | None:
    """The comment behind the code on one line of a file."""
    text = linecache.getline(file, line)
    found = [c for c in _comments(text) if not c.alone and not _PRAGMA.match(c.text)]
    return found[0].text if found else None


_PRAGMA = re.compile(
    r"#\s*(type:|noqa|nosec|pragma|pylint|fmt:|isort|mypy:|pyright:|ruff:|yapf|flake8|pyre-|copied from|@torch)",
    re.IGNORECASE,
)
_OF_OTHER_TOOLS = re.compile(
    r"torchscript|torch\.(jit|compile|export|fx|_dynamo|autocast)\b|onnx|dynamo|symbool", re.IGNORECASE
)
"""What a comment is about that has no place in the port: torch's own compilers and exporters."""


def _comments(source: str) -> list[_Comment]:
    found: list[_Comment] = []
    lines = source.splitlines()
    depth, last = 0, ""
    try:
        for token in tokenize.generate_tokens(io.StringIO(textwrap.dedent(source)).readline):
            if token.type == tokenize.COMMENT:
                row = token.start[0] - 1
                alone = lines[row].lstrip().startswith("#")
                found.append(_Comment(row, token.string, alone, depth > 0, last in "([{" and bool(last)))
            elif token.type == tokenize.OP:
                depth += (token.string in "([{") - (token.string in ")]}")
            if token.type not in (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT):
                last = token.string
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return [] if "\n" in source.strip() else found
    return found


def keep_number_texts(record: FunctionRecord) -> None:
    """Note on each number how it is written: ``1e-3`` is no worse than ``0.001``."""
    lines = record.source.splitlines()
    for node in ast.walk(record.tree):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.lineno == node.end_lineno:
            index = node.lineno - record.line
            if 0 <= index < len(lines):
                text = lines[index].encode()[node.col_offset : node.end_col_offset].decode(errors="replace")
                if isinstance(node.value, int | float) and _is_same_number(text, node.value):
                    node.text = text  # type: ignore[attr-defined]


def _is_same_number(text: str, value: float) -> bool:
    try:
        return (float(text) if isinstance(value, float) else int(text, 0)) == value
    except ValueError:
        return False
