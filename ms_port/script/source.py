"""A Python file as bytes, tree and spans: what is not rewritten stays byte by byte, comments and layout included."""

from __future__ import annotations

import ast
import io
import tokenize
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(eq=False)
class Source:
    """The text of one file (or of one expression), with byte spans of its nodes."""

    text: str
    tree: ast.Module
    data: bytes = field(repr=False, default=b"")

    @classmethod
    def parse(cls, text: str) -> Source:
        """Raises SyntaxError, ValueError (null bytes), RecursionError (nesting beyond the parser)."""
        return cls(text, ast.parse(text), text.encode("utf-8"))

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for line in self.data.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        return starts

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column

    def span(self, node: ast.AST) -> tuple[int, int]:
        """First byte and byte after the last one; decorators belong to what they decorate."""
        first = node
        decorators = getattr(node, "decorator_list", None)
        if decorators:
            start = self.data.rindex(b"@", 0, self.offset(decorators[0].lineno, decorators[0].col_offset))
        else:
            start = self.offset(first.lineno, first.col_offset)  # type: ignore[attr-defined]
        return start, self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def between(self, start: int, end: int) -> str:
        return self.data[start:end].decode("utf-8")

    def segment(self, node: ast.AST) -> str:
        return self.between(*self.span(node))

    def indent(self, node: ast.AST) -> str:
        """White space before the line on which a node starts."""
        start = self.span(node)[0]
        head = self.data[self.data.rfind(b"\n", 0, start) + 1 : start]
        return head[: len(head) - len(head.lstrip())].decode("utf-8")

    def leads_line(self, node: ast.AST) -> bool:
        """Whether nothing but white space stands before a node on its line."""
        start = self.span(node)[0]
        return not self.data[self.data.rfind(b"\n", 0, start) + 1 : start].strip()


def inner_lines(text: str) -> set[int]:
    """Numbers (from 0) of lines that begin inside a string: they must keep their text when code is indented."""
    inside: set[int] = set()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.STRING and token.end[0] > token.start[0]:
                inside.update(range(token.start[0], token.end[0]))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        pass
    return inside


def shifted(text: str, old: str, new: str) -> str:
    """Code whose lines (all but the first) are moved from one indentation to another."""
    if old == new or "\n" not in text:
        return text
    inside = inner_lines(text)
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if number == 0 or number in inside:
            continue
        if not line.strip():
            lines[number] = ""
            continue
        lines[number] = new + line[len(old) :] if line.startswith(old) else line
    return "\n".join(lines)


def dotted(node: ast.AST) -> str | None:
    """``a.b.c`` of names and attributes; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])
