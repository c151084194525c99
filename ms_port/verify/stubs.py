"""What of a port is still to be written by hand: stubs of fixes.py, and methods that could not be ported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from ms_port.errors import BadInput

UNPORTED = "could not be ported"
"""Part of the message of a method of the port that only raises."""


def open_stubs(file: Path) -> list[str]:
    """Functions and cells of a fixes.py that still raise NotImplementedError as their last statement.

    Raises BadInput where the file doesn't parse.
    """
    return list(dict.fromkeys(name for name, body in _stubs(file) if _raises(body[-1])))


def definitions(file: Path) -> list[str]:
    """All functions and cells of a fixes.py. Raises BadInput where it doesn't parse."""
    return list(dict.fromkeys(name for name, _ in _stubs(file)))


def unwritten(package: Path) -> list[str]:
    """All that only raises in a port's package: open stubs, and methods such as ``Net.construct``."""
    found = open_stubs(package / "fixes.py")
    for file in sorted(package.glob("*.py")):
        if file.name != "fixes.py" and UNPORTED in file.read_text(encoding="utf-8"):
            functions = _functions(_parse(file).body)
            found += [name for name, body in functions if _raises(body[-1]) and UNPORTED in ast.unparse(body[-1])]
    return found


def _stubs(file: Path) -> Iterator[tuple[str, list[ast.stmt]]]:
    if not file.is_file():
        return
    for name, body in _functions(_parse(file).body):
        if not name.endswith("__init__"):
            yield name.partition(".")[0], body


def _parse(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise BadInput(f"{file.name}: {error.msg}", where=f"{file}:{error.lineno}", advice="mend the syntax") from None


def _functions(body: list[ast.stmt], owner: str = "") -> Iterator[tuple[str, list[ast.stmt]]]:
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield f"{owner}.{node.name}" if owner else node.name, node.body
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body, node.name)


def _raises(node: ast.stmt) -> bool:
    return isinstance(node, ast.Raise) and node.exc is not None and "NotImplementedError" in ast.unparse(node.exc)
