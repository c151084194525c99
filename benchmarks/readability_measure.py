"""How a generated model.py compares with the source that it came from, in numbers."""

from __future__ import annotations

import ast
import functools
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ms_port.ir.program import CellDef, FunctionDef, Program

_LAYOUT = (
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
)  # fmt: skip
_OURS = ("build_model", "load_weights")
_RUN = 6
"""So many equal lines of code in a row count as duplicated."""


@dataclass(frozen=True, slots=True)
class Measures:
    """One row of the table."""

    source_lines: int
    """Lines of code of the classes and functions that the port has, with the branches that never ran."""
    lines: int
    """Lines of code of model.py without imports, ``build_model`` and ``load_weights``."""
    source_classes: int
    classes: int
    frozen: int
    """Numbers in a function that its source does not have (0, 1, and the defaults epsilon and momentum aside)."""
    names: float
    """Share of local and attribute names that are the source's."""
    statements: float
    """Statements for each one that ran in the source."""
    longest: int
    """Lines of the longest function."""
    duplicated: int
    source_duplicated: int
    flat: float
    """Share of functions that are traced calls."""

    @property
    def ratio(self) -> float:
        return self.lines / self.source_lines

    @property
    def frozen_share(self) -> float:
        return 100 * self.frozen / self.lines


def measure(program: Program, text: str) -> Measures:
    """``text``: model.py of the program."""
    tree = ast.parse(text)
    made = [
        n
        for n in tree.body
        if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name not in (*_OURS, *_configs(program))
    ]
    pairs = list(_pairs(program, made))
    lines = _code_lines(text)
    spans = {line for n in [*made, *_config_nodes(program, tree)] for line in _span(n)}
    source = {line for pair in pairs for line in pair.source_lines()}
    source |= {(c.loc.file, c.loc.line) for c in program.cells.values() if c.loc.line}
    source |= {(c.loc.file, a.lineno) for c in program.cells.values() for a in c.attributes}
    source |= set(_config_lines(program, {file for file, _ in source}))
    known = sum(len(pair.known_names()) for pair in pairs)
    names = sum(len(pair.names()) for pair in pairs)
    functions = [n for n in ast.walk(ast.Module(list(made), [])) if isinstance(n, ast.FunctionDef)]
    flat = sum(key.startswith("flat:") for key in program.functions)
    files = {file for file, _ in source}
    return Measures(
        source_lines=len(source),
        lines=len(spans & lines),
        source_classes=len(program.cells),
        classes=sum(isinstance(n, ast.ClassDef) for n in made),
        frozen=sum(pair.frozen() for pair in pairs),
        names=known / names if names else 1.0,
        statements=sum(_statements(p.made) for p in pairs) / max(1, sum(p.ran() for p in pairs)),
        longest=max((len(set(_span(f)) & lines) for f in functions), default=0),
        duplicated=_duplicated([text.splitlines()[n - 1].strip() for n in sorted(spans & lines)]),
        source_duplicated=_duplicated(
            [_lines(file)[n - 1].strip() for file in sorted(files) for f, n in sorted(source) if f == file]
        ),
        flat=flat / max(1, len(functions)),
    )


_OF_LAYERS = frozenset("gamma beta epsilon moving_mean moving_variance embedding_table has_bias".split())
"""What MindSpore's own layers call their parts: a port has no choice."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """A generated function and the one in the source."""

    made: ast.FunctionDef
    source: ast.FunctionDef
    function: FunctionDef

    def source_lines(self) -> Iterator[tuple[str, int]]:
        file = self.function.loc.file
        return ((file, line) for line in _span(self.source) if line in _file_code(file))

    def names(self) -> set[str]:
        """Local names that the generated function binds, and attributes of self (methods that it calls aside)."""
        called = {id(n.func) for n in ast.walk(self.made) if isinstance(n, ast.Call)}
        found = {n.id for n in ast.walk(self.made) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        found |= {a.arg for a in ast.walk(self.made) if isinstance(a, ast.arg)}
        found |= {
            n.attr
            for n in ast.walk(self.made)
            if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "self"
            if id(n) not in called
        }
        return found - {"_"} - _OF_LAYERS

    def known_names(self) -> set[str]:
        words = {n.id for n in ast.walk(self.source) if isinstance(n, ast.Name)}
        words |= {n.attr for n in ast.walk(self.source) if isinstance(n, ast.Attribute)}
        words |= {a.arg for a in ast.walk(self.source) if isinstance(a, ast.arg)}
        words |= {n.arg for n in ast.walk(self.source) if isinstance(n, ast.keyword) and n.arg}
        words |= {n.value for n in ast.walk(self.source) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        words |= {n.name for n in ast.walk(self.source) if isinstance(n, ast.FunctionDef)}
        return {n for n in self.names() if n in words}

    def frozen(self) -> int:
        have = {n.value for n in ast.walk(self.source) if isinstance(n, ast.Constant)}
        defaults = {
            id(n)
            for k in ast.walk(self.made)
            if isinstance(k, ast.keyword) and k.arg in ("epsilon", "momentum")
            for n in ast.walk(k.value)
        }
        return sum(
            type(n.value) in (int, float) and n.value not in (0, 1) and n.value not in have and id(n) not in defaults
            for n in ast.walk(self.made)
            if isinstance(n, ast.Constant)
        )

    def ran(self) -> int:
        """Statements of the source that ran."""
        ran = self.function.facts.ran
        return len(ran) or _statements(self.source)


def _pairs(program: Program, made: list[ast.ClassDef | ast.FunctionDef]) -> Iterator[_Pair]:
    cells = {c.name: c for c in program.cells.values()}
    functions = {f.name: f for f in program.functions.values()}
    for node in made:
        if isinstance(node, ast.FunctionDef):
            if (function := functions.get(node.name)) and (source := _source_of(function)) is not None:
                yield _Pair(node, source, function)
            continue
        cell = cells.get(node.name)
        for method in node.body if cell is not None else []:
            assert cell is not None
            ours = next(
                (m for m in cell.methods if isinstance(method, ast.FunctionDef) and m.name == method.name), None
            )
            if ours is None or not isinstance(method, ast.FunctionDef):
                continue
            source = _source_of(ours) or _method_of(cell, ours.name)
            if source is not None:
                yield _Pair(method, source, ours)


def _source_of(function: FunctionDef) -> ast.FunctionDef | None:
    return _definitions(function.loc.file).get(function.loc.line)  # type: ignore[return-value]


def _method_of(cell: CellDef, name: str) -> ast.FunctionDef | None:
    """The method of the source's class, for a constructor that was written anew."""
    node = _definitions(cell.loc.file).get(cell.loc.line)
    body = node.body if isinstance(node, ast.ClassDef) else []
    return next((n for n in body if isinstance(n, ast.FunctionDef) and n.name == name), None)


@functools.cache
def _definitions(file: str) -> dict[int, ast.FunctionDef | ast.ClassDef]:
    if not Path(file).is_file():
        return {}
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    return {n.lineno: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}


@functools.cache
def _lines(file: str) -> list[str]:
    return Path(file).read_text(encoding="utf-8").splitlines()


@functools.cache
def _file_code(file: str) -> frozenset[int]:
    return frozenset(_code_lines(Path(file).read_text(encoding="utf-8")))


def _code_lines(text: str) -> set[int]:
    """Lines that hold code: no blank ones, comments, docstrings."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            found |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found -= set(range(node.lineno, (node.end_lineno or 0) + 1))
    return found


def _span(node: ast.ClassDef | ast.FunctionDef) -> range:
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    return range(first, (node.end_lineno or 0) + 1)


def _configs(program: Program) -> list[str]:
    return [name.rpartition(".")[2] for name in program.configs]


def _config_lines(program: Program, files: set[str]) -> Iterator[tuple[str, int]]:
    """Lines of the configuration classes that stand in the same files as the model."""
    for file in files:
        for node in _definitions(file).values():
            if isinstance(node, ast.ClassDef) and node.name in _configs(program):
                yield from ((file, line) for line in _span(node) if line in _file_code(file))


def _config_nodes(program: Program, tree: ast.Module) -> list[ast.ClassDef]:
    return [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name in _configs(program)]


def _statements(node: ast.FunctionDef) -> int:
    docstring = ast.get_docstring(node) is not None
    return sum(isinstance(n, ast.stmt) for s in node.body[docstring:] for n in ast.walk(s))


def _duplicated(lines: list[str]) -> int:
    """Lines that stand in a run of ``_RUN`` which occurs more than once."""
    places: dict[tuple[str, ...], list[int]] = {}
    for at in range(len(lines) - _RUN + 1):
        places.setdefault(tuple(lines[at : at + _RUN]), []).append(at)
    again = {at + i for found in places.values() if len(found) > 1 for at in found[1:] for i in range(_RUN)}
    return len(again)
