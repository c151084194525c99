"""Where a flagged op stands in the generated source."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ms_port.ir.flags import Flag, Place


def with_places(flags: Sequence[Flag], stubs: Mapping[str, str], root: Path, files: Sequence[str]) -> tuple[Flag, ...]:
    """The flags with ``generated`` set where a stub is called.

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
    return tuple(replace(flag, generated=placed[i]) if i in placed else flag for i, flag in enumerate(flags))


def _nodes(text: str) -> Iterator[ast.AST]:
    """All nodes; none of a file that does not parse: a person edited it, or a conflict is open."""
    try:
        yield from ast.walk(ast.parse(text))
    except SyntaxError:
        return
