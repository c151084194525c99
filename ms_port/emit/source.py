"""Statement trees as text, with the comments and blank lines of the source."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ms_port.emit.docstrings import docstring
from ms_port.emit.unparse import unparse
from ms_port.ir.program import CellDef, FunctionDef

_INDENT = "    "
_ROOM = 104
"""Characters for a statement and the comment behind it; a longer comment stands above."""


@dataclass(frozen=True, slots=True)
class Comments:
    """By line of the source: what stands above a statement, what behind it."""

    above: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    beside: Mapping[int, str] = field(default_factory=dict)


def function_source(function: FunctionDef, depth: int = 0) -> str:
    """The ``def`` with its docstring, body, comments; not indented. ``depth``: how deep it will stand."""
    node = function.node
    comments = Comments(function.comments, function.beside)
    lines = [*function.above, *(f"@{unparse(d)}" for d in node.decorator_list)]
    returns = f" -> {unparse(node.returns)}" if node.returns is not None else ""
    header = f"def {node.name}({unparse(node.args, inside=True)}){returns}:"
    lines.append(_with_comment(header, comments.beside.get(getattr(node, "lineno", 0))))
    doc = docstring(function.docstring, depth + 1) if function.docstring else ""
    if doc:
        lines.append(textwrap.indent(doc, _INDENT))
    body = block_source(function.body, comments)
    lines.append(textwrap.indent(body or ("" if doc else "pass"), _INDENT))
    return "\n".join(line for line in lines if line)


def block_source(statements: Sequence[ast.stmt], comments: Comments) -> str:
    """Statements one below the other."""
    parts: list[str] = []
    seen: set[int] = set()
    blanks = [line for line, above in comments.above.items() if above[0] == ""]
    end = 0
    for statement in statements:
        line = getattr(statement, "lineno", 0)
        above, behind = (comments.above.get(line, ()), comments.beside.get(line)) if line not in seen else ((), None)
        seen.add(line)
        if not parts:
            above = tuple(c for c in above if c)
        elif 0 < end < line and "" not in above and any(end < blank < line for blank in blanks):
            above = ("", *above)  # it stood above a statement that is gone
        end = getattr(statement, "end_lineno", None) or line
        text = _statement(statement, comments, behind)
        # A statement that its comments outgrow carries them above itself.
        parts += [*above, *text]
    return "\n".join(parts)


def _with_comment(text: str, comment: str | None) -> str:
    return f"{text}  {comment}" if comment else text


def _statement(statement: ast.stmt, comments: Comments, behind: str | None) -> list[str]:
    """The text of a statement, below the comments that find no room behind it."""
    above: list[str] = []
    match statement:
        case ast.If():
            return [_if(statement, comments)]
        case ast.For(target=target, iter=iterated, body=body):
            header = _with_comment(f"for {_bare(target)} in {unparse(iterated, lost=above)}:", behind)
            return [*above, f"{header}\n{_indented(body, comments)}" + _loop_else(statement.orelse, comments)]
        case ast.While(test=test, body=body):
            header = _with_comment(f"while {unparse(test, lost=above)}:", behind)
            return [*above, f"{header}\n{_indented(body, comments)}" + _loop_else(statement.orelse, comments)]
    text = unparse(statement, lost=above)
    if behind is None:
        return [*above, text]
    if "\n" not in text and len(text) + len(behind) > _ROOM:
        return [*above, behind, text]
    return [*above, _with_comment(text, behind)]


def _loop_else(orelse: Sequence[ast.stmt], comments: Comments) -> str:
    return f"\nelse:\n{_indented(orelse, comments)}" if orelse else ""


def _bare(node: ast.expr) -> str:
    """A loop's target: a tuple needs no parentheses there."""
    text = unparse(node)
    return text[1:-1] if isinstance(node, ast.Tuple) and text.startswith("(") and len(node.elts) > 1 else text


def _if(statement: ast.If, comments: Comments, word: str = "if") -> str:
    header = _with_comment(f"{word} {unparse(statement.test)}:", comments.beside.get(getattr(statement, "lineno", 0)))
    text = f"{header}\n{_indented(statement.body, comments)}"
    match statement.orelse:
        case []:
            return text
        case [ast.If() as nested]:
            above = [c for c in comments.above.get(getattr(nested, "lineno", 0), ()) if c]
            return "\n".join([text, *above, _if(nested, comments, "elif")])
    return f"{text}\nelse:\n{_indented(statement.orelse, comments)}"


def _indented(body: Sequence[ast.stmt], comments: Comments) -> str:
    return textwrap.indent(block_source(body, comments) or "pass", _INDENT)


def class_header(cell: CellDef, bases: Sequence[str]) -> str:
    """``class Name(bases):`` below its comments."""
    header = f"class {cell.name}({', '.join(bases)}):" if bases else f"class {cell.name}:"
    return "\n".join([*cell.above, header])
