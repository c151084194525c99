"""Where a flagged op stands in the generated source."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from ms_port.emit import Origin
from ms_port.ir.flags import Flag, Place

Origins: TypeAlias = Mapping[str, Mapping[int, Origin]]
"""By generated file (relative to OUT) and line."""


def with_places(
    flags: Sequence[Flag], stubs: Mapping[str, str], root: Path, files: Sequence[str], origins: Origins
) -> tuple[Flag, ...]:
    """The flags with ``generated`` set: where a stub is called, else where the port has the flag's source line.

    ``stubs``: name of the stub by torch API. Calls of one stub are matched with its flags in the order of their lines,
    where there are as many of both; otherwise each flag gets the first call.
    """
    calls: dict[str, list[Place]] = {}
    for file in files:
        if file.endswith(".py"):
            for node in _nodes((root / file).read_text(encoding="utf-8")):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in stubs.values():
                    calls.setdefault(node.func.id, []).append(Place(file, node.lineno))
    placed: dict[int, Place] = {}
    for api, name in stubs.items():
        mine = [i for i, flag in enumerate(flags) if flag.op == api and flag.source and flag.generated is None]
        mine.sort(key=lambda i: (flags[i].source.file, flags[i].source.line))  # type: ignore[union-attr]
        found = sorted(calls.get(name, []), key=lambda place: (place.file, place.line))
        for at, i in enumerate(mine if found else []):
            placed[i] = found[at] if len(found) == len(mine) else found[0]
    lines: dict[Place, Place] = {}
    for file, known in origins.items():
        for line, origin in sorted(known.items()):
            lines.setdefault(Place(origin.file, origin.line), Place(file, line))
    return tuple(
        replace(flag, generated=placed.get(i) or flag.generated or (flag.source and lines.get(flag.source)))
        for i, flag in enumerate(flags)
    )


def write_source_map(origins: Origins, folder: Path) -> None:
    """``source_map.json``: generated file -> line -> source file, line and dotted path of the module."""
    files = {
        file: {str(n): {"file": o.file, "line": o.line, "module": o.module} for n, o in sorted(found.items())}
        for file, found in origins.items()
    }
    text = json.dumps({"schema": 1, "files": files}, indent=1, ensure_ascii=False)
    (folder / "source_map.json").write_text(f"{text}\n", encoding="utf-8")


def _nodes(text: str) -> Iterator[ast.AST]:
    """All nodes; none of a file that does not parse: a person edited it, or a conflict is open."""
    try:
        yield from ast.walk(ast.parse(text))
    except SyntaxError:
        return
