"""Statement trees as text, with the comments and blank lines of the source."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping, Sequence

from ms_port.emit.unparse import unparse
from ms_port.ir.program import CellDef, FunctionDef

_INDENT = "    "


def function_source(function: FunctionDef) -> str:
    """The ``def`` with its docstring, body, comments; not indented."""
    node = function.node
    lines = [f"@{unparse(d)}" for d in node.decorator_list]
    returns = f" -> {unparse(node.returns)}" if node.returns is not None else ""
    lines.append(f"def {node.name}({unparse(node.args)}){returns}:")
    if function.docstring:
        lines.append(textwrap.indent(docstring(function.docstring), _INDENT))
    body = block_source(function.body, function.comments)
    lines.append(textwrap.indent(body or ("" if function.docstring else "pass"), _INDENT))
    return "\n".join(line for line in lines if line)


def block_source(statements: Sequence[ast.stmt], comments: Mapping[int, tuple[str, ...]], first: bool = True) -> str:
    """Statements one below the other."""
    parts: list[str] = []
    seen: set[int] = set()
    for statement in statements:
        line = getattr(statement, "lineno", 0)
        above = comments.get(line, ()) if line not in seen else ()
        seen.add(line)
        if not parts:
            above = tuple(c for c in above if c)
        parts.extend(above)
        parts.append(_statement(statement, comments))
    return "\n".join(parts)


def _statement(statement: ast.stmt, comments: Mapping[int, tuple[str, ...]]) -> str:
    match statement:
        case ast.If():
            return _if(statement, comments)
        case ast.For(target=target, iter=iterated, body=body):
            text = f"for {_bare(target)} in {unparse(iterated)}:\n{_indented(body, comments)}"
            return text + _loop_else(statement.orelse, comments)
        case ast.While(test=test, body=body):
            return f"while {unparse(test)}:\n{_indented(body, comments)}" + _loop_else(statement.orelse, comments)
    return unparse(statement)


def _loop_else(orelse: Sequence[ast.stmt], comments: Mapping[int, tuple[str, ...]]) -> str:
    return f"\nelse:\n{_indented(orelse, comments)}" if orelse else ""


def _bare(node: ast.expr) -> str:
    """A loop's target or iterable: a tuple needs no parentheses there."""
    text = unparse(node)
    return text[1:-1] if isinstance(node, ast.Tuple) and text.startswith("(") and node.elts else text


def _if(statement: ast.If, comments: Mapping[int, tuple[str, ...]], word: str = "if") -> str:
    text = f"{word} {unparse(statement.test)}:\n{_indented(statement.body, comments)}"
    match statement.orelse:
        case []:
            return text
        case [ast.If() as nested]:
            above = [f"{c}" for c in comments.get(getattr(nested, "lineno", 0), ()) if c]
            return "\n".join([text, *above, _if(nested, comments, "elif")])
    return f"{text}\nelse:\n{_indented(statement.orelse, comments)}"


def _indented(body: Sequence[ast.stmt], comments: Mapping[int, tuple[str, ...]]) -> str:
    return textwrap.indent(block_source(body, comments) or "pass", _INDENT)


def docstring(text: str) -> str:
    """A docstring literal, one line where it fits."""
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if "\n" not in text:
        return f'"""{escaped}"""' if not escaped.endswith('"') else f'"""{escaped} """'
    return f'"""{escaped}\n"""'


def class_header(cell: CellDef, bases: Sequence[str]) -> str:
    """``class Name(bases):``."""
    return f"class {cell.name}({', '.join(bases)}):" if bases else f"class {cell.name}:"
