"""op_maps/functions/*.py: an index of their top-level names, and the text of those that a port needs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ms_port.opmap.errors import OpMapError

_TOP = re.compile(r"^(?:def|class)\s+(\w+)|^(\w+)\s*(?::[^=\n]+)?=(?!=)", re.M)


@dataclass(frozen=True)
class Definition:
    """One top-level definition: its text (decorators included), the names it uses."""

    name: str
    file: Path
    order: int
    text: str
    names: frozenset[str]


@dataclass
class FunctionFile:
    """One file; parsed when its text is needed."""

    path: Path
    text: str = field(repr=False)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Top-level names, found without parsing."""
        return tuple(dict.fromkeys(match[1] or match[2] for match in _TOP.finditer(self.text)))

    @cached_property
    def tree(self) -> ast.Module:
        try:
            return ast.parse(self.text)
        except SyntaxError as error:
            raise OpMapError(self.path, "", f"not Python: {error.msg}", error.lineno or 0) from None

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        found: dict[str, Definition] = {}
        lines = self.text.splitlines()
        for order, node in enumerate(self.tree.body):
            first = node.lineno
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                first = min([first, *(d.lineno for d in node.decorator_list)])
                names = [node.name]
            elif isinstance(node, ast.Assign):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names = [node.target.id]
            else:
                continue
            last = node.end_lineno or first
            if last < len(lines) and lines[last].startswith('"""'):  # the docstring of a constant
                last += 1
            text = "\n".join(lines[_comments(lines, first) : last])
            used = frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name)) - set(names)
            for name in names:
                found[name] = Definition(name, self.path, order, text, used)
        return found

    @cached_property
    def imports(self) -> dict[str, tuple[str, str | None]]:
        """Imported name -> (module, attribute or None); a relative import is another file's definition."""
        found: dict[str, tuple[str, str | None]] = {}
        for node in self.tree.body:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    found[alias.asname or alias.name] = (alias.name, None)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    found[alias.asname or alias.name] = (node.module, alias.name)
        return found


def _comments(lines: Sequence[str], first: int) -> int:
    """Index of the first line of the comment block just above a definition."""
    start = first - 1
    while start and lines[start - 1].startswith("#"):
        start -= 1
    return start


def index_functions(directories: Sequence[Path]) -> dict[str, FunctionFile]:
    """Name -> file, the first directory's winning. Raises OpMapError for a name in two files of one directory."""
    index: dict[str, FunctionFile] = {}
    for directory in directories:
        own: dict[str, FunctionFile] = {}
        for path in sorted((directory / "functions").glob("*.py")):
            file = FunctionFile(path, path.read_text(encoding="utf-8"))
            for name in file.names:
                if name in own and not name.startswith("__"):
                    raise OpMapError(path, name, f"stands in {own[name].path.name} too")
                own[name] = file
        index = {**own, **index}
    return index


def function_sources(index: dict[str, FunctionFile], names: Iterable[str]) -> str:
    """Imports and definitions for the names and all they need, each after what it needs. Raises KeyError."""
    wanted: dict[str, Definition] = {}
    imports: dict[str, tuple[str, str | None]] = {}

    def visit(name: str) -> None:
        if name in wanted:
            return
        file = index[name]
        definition = file.definitions[name]
        wanted[name] = definition
        for used in sorted(definition.names):
            if used in file.imports:
                imports[used] = file.imports[used]
            elif used in index:
                visit(used)
        wanted[name] = wanted.pop(name)  # after what it needs

    for name in sorted(names):
        visit(name)
    texts = list(dict.fromkeys(definition.text for definition in wanted.values()))
    if any("annotations" in index[name].imports for name in wanted):
        imports["annotations"] = ("__future__", "annotations")
    return _import_text(imports) + "\n\n\n" + "\n\n\n".join(texts) + "\n"


def _import_text(imports: dict[str, tuple[str, str | None]]) -> str:
    """Import statements in ruff's order: standard library first."""
    plain = sorted(
        f"import {module}" if name == module else f"import {module} as {name}"
        for name, (module, attribute) in imports.items()
        if attribute is None
    )
    members: dict[str, list[str]] = {}
    for name, (module, attribute) in imports.items():
        if attribute is not None:
            members.setdefault(module, []).append(attribute if attribute == name else f"{attribute} as {name}")
    froms = [
        f"from {module} import {', '.join(sorted(items, key=_isort_key))}" for module, items in sorted(members.items())
    ]
    third = [line for line in [*plain, *froms] if line.split()[1].partition(".")[0] in ("mindspore", "numpy")]
    future = [line for line in froms if line.startswith("from __future__")]
    standard = [line for line in [*plain, *froms] if line not in third and line not in future]
    return "\n\n".join("\n".join(block) for block in (future, standard, third) if block)


def _isort_key(name: str) -> tuple[int, str]:
    """Constants, classes, functions, as ruff's isort does."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2, name)
