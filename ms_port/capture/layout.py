"""Blank lines and comments around the statements of a function, which ``ast`` forgets."""

from __future__ import annotations

import ast
import io
import textwrap
import tokenize

from ms_port.capture.recording import FunctionRecord


def comments_above(record: FunctionRecord) -> dict[int, tuple[str, ...]]:
    """Line of a statement -> what stands alone directly above it: ``""`` for a blank line, then comment lines."""
    lines = record.source.splitlines()
    comments = _comment_lines(record.source)
    above: dict[int, tuple[str, ...]] = {}
    starts = {n.lineno - record.line for n in ast.walk(record.tree) if isinstance(n, ast.stmt)}
    for start in starts:
        block: list[str] = []
        at = start - 1
        while at in comments:
            block.insert(0, comments[at])
            at -= 1
        if 0 < at < len(lines) and not lines[at].strip():
            block.insert(0, "")
        if block:
            above[start + record.line] = tuple(block)
    return above


def _comment_lines(source: str) -> dict[int, str]:
    """0-based line -> the comment that fills it."""
    found: dict[int, str] = {}
    lines = source.splitlines()
    try:
        for token in tokenize.generate_tokens(io.StringIO(textwrap.dedent(source)).readline):
            if token.type == tokenize.COMMENT and lines[token.start[0] - 1].lstrip().startswith("#"):
                found[token.start[0] - 1] = token.string
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return {}
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
