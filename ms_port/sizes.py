"""What in a port holds for the example's sizes only: found by translating once more with other sizes.

A shape that stays an expression (``B, N, C = x.shape``) gives the same text for every size. A line that reads otherwise
when the labelled dimensions of ``--input`` have other sizes has a size built in.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ms_port.emit import Origin
from ms_port.inputs import InputSpec
from ms_port.ir.flags import Flag, Place

Translate = Callable[[Mapping[str, int]], "str | None"]
"""The text of model.py for other sizes of the labels; None where the model does not run with them."""


@dataclass(frozen=True, slots=True)
class SizeFindings:
    """Lines with a size built in, and the labels whose other sizes the model does not take."""

    flags: tuple[Flag, ...]
    fixed: tuple[str, ...] = ()


def labelled_sizes(specs: Sequence[InputSpec]) -> dict[str, int]:
    """The labelled dimensions of the inputs: ``{"batch": 8, "seq": 128}``."""
    return {dim.label: dim.size for spec in specs for dim in spec.dims if dim.label}


def other_size(size: int) -> int:
    """Another size that most models take too: half of an even one, which keeps multiples of strides and windows."""
    return size // 2 if size >= 4 and size % 2 == 0 else size + 1


def find_built_in_sizes(
    text: str, file: str, origins: Mapping[int, Origin], sizes: Mapping[str, int], translate: Translate
) -> SizeFindings:
    """Compare the port's model.py with what other sizes of the labels give: all at once, else each alone.

    Args:
        text: model.py as generated; ``file`` its path in OUT, ``origins`` where its lines come from.
        sizes: the labelled sizes that it was made with.
        translate: makes model.py for other sizes.
    """
    others = {label: other_size(size) for label, size in sizes.items()}
    found = translate(others) if others else text
    if found is not None:
        return SizeFindings(tuple(_flags(text, found, file, origins, sizes, others)))
    flags, fixed = list[Flag](), list[str]()
    for label, size in others.items() if len(others) > 1 else ():
        found = translate({label: size})
        if found is None:
            fixed.append(label)
        else:
            flags += _flags(text, found, file, origins, {label: sizes[label]}, {label: size})
    return SizeFindings(tuple(flags), tuple(fixed if len(others) > 1 else others))


def _flags(
    text: str,
    other: str,
    file: str,
    origins: Mapping[int, Origin],
    sizes: Mapping[str, int],
    others: Mapping[str, int],
) -> Iterator[Flag]:
    """One flag a function or class body in which lines differ."""
    ours, theirs = text.splitlines(), other.splitlines()
    differing = dict[int, str]()
    for kind, i1, i2, j1, j2 in difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if kind != "equal":
            instead = theirs[j1].strip() if j2 > j1 else "nothing"
            differing.update({line + 1: instead for line in range(i1, max(i2, i1 + 1))})
    owners = _owners(text)
    seen = set[str]()
    for line, instead in sorted(differing.items()):
        owner = owners.get(line)
        if owner is None or owner in seen:
            continue
        seen.add(owner)
        count = sum(owners.get(n) == owner for n in differing)
        origin = origins.get(line)
        yield Flag(
            rule="MSP204",
            severity="warning",
            message=f"{owner} holds for {_said(sizes)} only: with {_said(others)} line {line} would be `{instead}`"
            + (f", and {count - 1} more would differ" if count > 1 else ""),
            module=origin.module if origin else None,
            source=Place(origin.file, origin.line) if origin else None,
            generated=Place(file, line),
            advice="convert again for other sizes, or write the expression by hand",
        )


def _said(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{label}={size}" for label, size in sizes.items())


def _owners(text: str) -> dict[int, str]:
    """By line: the function or method around it; ``load_weights`` is not the model's."""
    found: dict[int, str] = {}
    for node in ast.parse(text).body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        for part in inside:
            if isinstance(part, ast.FunctionDef) and part.name != "load_weights":
                name = f"{node.name}.{part.name}" if isinstance(node, ast.ClassDef) else part.name
                found.update(dict.fromkeys(range(part.lineno, (part.end_lineno or part.lineno) + 1), f"`{name}`"))
    return found
