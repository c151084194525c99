"""A person's ``fixes.py`` and a newly generated one: the person's text, plus the stubs that it lacks."""

from __future__ import annotations

import ast
from pathlib import Path

_Definition = ast.FunctionDef | ast.ClassDef


def add_missing_stubs(mine: Path, generated: Path) -> str | None:
    """``mine`` with the definitions and imports that only ``generated`` has; None where ``mine`` does not parse."""
    text, new = mine.read_text(encoding="utf-8"), generated.read_text(encoding="utf-8")
    try:
        tree, new_tree = ast.parse(text), ast.parse(new)
    except SyntaxError:
        return None
    have = {node.name for node in tree.body if isinstance(node, _Definition)}
    imported = {ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)}
    imports = [
        line
        for node in new_tree.body
        if isinstance(node, ast.Import | ast.ImportFrom) and (line := ast.unparse(node)) not in imported
    ]
    missing = [node for node in new_tree.body if isinstance(node, _Definition) and node.name not in have]
    if not missing:
        return text
    lines = new.splitlines()
    stubs = ["\n".join(lines[_first_line(node) - 1 : node.end_lineno]) for node in missing]
    return _with_imports(text, tree, imports).rstrip("\n") + "\n\n\n" + "\n\n\n".join(stubs) + "\n"


def _first_line(node: _Definition) -> int:
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def _with_imports(text: str, tree: ast.Module, imports: list[str]) -> str:
    if not imports:
        return text
    last = [node.end_lineno or 0 for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    if not last and tree.body and ast.get_docstring(tree) is not None:
        last = [tree.body[0].end_lineno or 0]
    lines = text.splitlines()
    at = max(last, default=0)
    return "\n".join([*lines[:at], *imports, *lines[at:]]) + "\n"
