"""The syntax tree of one code object, parsed from its own block of the file, with line numbers of the file."""

from __future__ import annotations

import ast
import linecache
import types
import warnings
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

FunctionNode: TypeAlias = ast.FunctionDef | ast.Lambda


_SINGLETONS = frozenset(
    kind
    for base in (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)
    for kind in base.__subclasses__()
)


class NoSource(Exception):
    """There is no usable source for a code object; the text says why in a few words."""


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """Text and place of one function, and two equal trees of it: one to keep, one to instrument."""

    tree: FunctionNode
    copy: FunctionNode
    functions: dict[int, FunctionNode]
    """All functions and lambdas in ``tree`` (itself too) by their nid."""
    text: str
    file: str
    line: int


def number_nodes(tree: FunctionNode, copy: FunctionNode, offset: int) -> dict[int, FunctionNode]:
    """Give the nodes of two equal trees the same integer ``nid`` in source order, and shift their lines by ``offset``.

    Shared context and operator singletons get none. Format specifications in the copy are marked. Returns the tree's
    functions and lambdas by nid.
    """
    functions: dict[int, FunctionNode] = {}
    pending: list[tuple[Any, Any]] = [(tree, copy)]
    nid = 0
    while pending:
        node, twin = pending.pop()
        node.nid = twin.nid = nid
        if "lineno" in node.__dict__:
            twin.lineno = node.lineno = node.lineno + offset
            twin.end_lineno = node.end_lineno = node.end_lineno + offset
        kind = type(node)
        if kind is ast.FunctionDef or kind is ast.Lambda:
            functions[nid] = node
        elif kind is ast.FormattedValue and node.format_spec is not None:
            twin.format_spec.is_format = True
        nid += 1
        children: list[tuple[Any, Any]] = []
        for name in node._fields:
            part = getattr(node, name, None)
            if type(part) is list:
                children.extend(
                    pair for pair in zip(part, getattr(twin, name), strict=True) if isinstance(pair[0], ast.AST)
                )
            elif isinstance(part, ast.AST) and type(part) not in _SINGLETONS:
                children.append((part, getattr(twin, name)))
        pending.extend(reversed(children))
    return functions


def parse_quietly(text: str) -> ast.Module:
    """Parse without the warnings that Python gave when it compiled this text first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def nid_of(node: ast.AST) -> int:
    """The number that ``number_nodes`` gave."""
    return cast(int, node.nid)  # type: ignore[attr-defined]


def function_source(code: types.CodeType) -> FunctionSource:
    """Find and parse the source of a code object. Raises NoSource."""
    lines = linecache.getlines(code.co_filename)
    if not lines:
        raise NoSource("no source")
    if code.co_firstlineno < 1 or code.co_firstlineno > len(lines):
        raise NoSource("source changed")
    if code.co_name == "<lambda>":
        return _lambda_source(code, lines)
    first = code.co_firstlineno
    last = _block_end(lines, first, _last_line(code))
    text = "".join(lines[first - 1 : last])
    tree, copy = _parse_block(text), _parse_block(text)
    if tree.name != code.co_name and not code.co_name.endswith(tree.name):
        raise NoSource("source changed")
    functions = number_nodes(tree, copy, first - (2 if text[:1] in " \t" else 1))
    return FunctionSource(tree, copy, functions, text, code.co_filename, first)


def _last_line(code: types.CodeType) -> int:
    """The last source line that any instruction of the code, or of code nested in it, came from."""
    last = max((end for _, end, _, _ in code.co_positions() if end is not None), default=code.co_firstlineno)
    return max([last, *(_last_line(item) for item in code.co_consts if isinstance(item, types.CodeType))])


def _block_end(lines: list[str], first: int, last: int) -> int:
    """Last line of the block that starts at line ``first`` and holds at least line ``last`` (both from 1)."""
    head = lines[first - 1]
    indent = len(head) - len(head.lstrip())
    end = max(first, last)
    while end < len(lines):
        line = lines[end]
        body = line.strip()
        if body and not body.startswith(("#", ")", "]", "}")) and len(line) - len(line.lstrip()) <= indent:
            break
        end += 1
    while end > last and not lines[end - 1].strip():
        end -= 1
    return end


def _parse_block(text: str) -> ast.FunctionDef:
    """Parse an indented ``def``; an ``if`` around it keeps columns and multi-line strings as they are."""
    indented = text[:1] in " \t"
    try:
        module = parse_quietly("if 1:\n" + text if indented else text)
    except (SyntaxError, ValueError) as error:
        raise NoSource("source does not parse") from error
    holder = module.body[0] if module.body else None
    node = holder.body[0] if indented and isinstance(holder, ast.If) else holder
    if not isinstance(node, ast.FunctionDef):
        raise NoSource("async function" if isinstance(node, ast.AsyncFunctionDef) else "not a def statement")
    return node


def _lambda_source(code: types.CodeType, lines: list[str]) -> FunctionSource:
    """A lambda is found by its position among those of the whole file."""
    found = []
    for _ in range(2):
        try:
            module = parse_quietly("".join(lines))
        except (SyntaxError, ValueError) as error:
            raise NoSource("source does not parse") from error
        found.append(_matching_lambda(module, code))
    tree, copy = found
    text = "".join(lines[tree.lineno - 1 : tree.end_lineno])
    functions = number_nodes(tree, copy, 0)
    return FunctionSource(tree, copy, functions, text, code.co_filename, tree.lineno)


def _matching_lambda(module: ast.Module, code: types.CodeType) -> ast.Lambda:
    spans = [(line, column) for line, _, column, _ in code.co_positions() if line is not None and column is not None]
    matches = []
    for node in ast.walk(module):
        if not isinstance(node, ast.Lambda) or node.lineno != code.co_firstlineno:
            continue
        body = node.body
        end = (body.end_lineno or body.lineno, body.end_col_offset or 0)
        # Instructions without a place of their own carry the first line and column 0.
        inside = [span for span in spans if (body.lineno, body.col_offset) <= span <= end]
        arguments = [item.arg for item in (*node.args.posonlyargs, *node.args.args)]
        if inside and list(code.co_varnames[: code.co_argcount]) == arguments:
            matches.append((len(inside), -(end[0] - body.lineno), -(end[1] - body.col_offset), node))
    if not matches:
        raise NoSource("lambda not found")
    # The innermost lambda that holds the most instructions is the one.
    return max(matches, key=lambda match: match[:3])[3]
