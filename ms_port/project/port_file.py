"""``port.json``: what was converted, and enough to run the port again."""

from __future__ import annotations

import hashlib
import os
import re
import site
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from ms_port import __version__
from ms_port.inputs import InputSpec
from ms_port.ir.program import Program
from ms_port.ir.values import DictValue, Literal, ObjectValue, SequenceValue, TensorValue, Value, holds_tensor

SCHEMA = 1
_FILE_OBJECT = re.compile(r"(?P<file>.+\.py):(?P<name>[A-Za-z_][\w.]*)\Z")


def port_json(
    program: Program,
    *,
    package: str,
    parameters: Sequence[Mapping[str, Any]],
    cells: Sequence[Mapping[str, str]],
    target: str | None,
    arguments: Mapping[str, str],
    specs: Sequence[InputSpec],
    inputs_from: str | None,
    static: Mapping[str, int],
    options: Mapping[str, Any],
    sources: Mapping[str, str],
) -> dict[str, Any]:
    """The content of port.json; ``target``, ``arguments`` and ``inputs_from`` as ``relocated`` gives them."""
    return {
        "schema": SCHEMA,
        "package": package,
        "target": target,
        "arguments": dict(arguments),
        "inputs": [
            row for item in program.inputs for row in _input_rows(item.name, item.value, item.keyword, specs, static)
        ],
        "inputs_from": inputs_from,
        "outputs": output_structure(program.outputs),
        "parameters": [dict(row) for row in parameters],
        "baked": baked(program),
        "cells": [dict(row) for row in cells],
        "options": dict(options),
        "versions": versions(),
        "sources": dict(sources),
    }


def _input_rows(
    name: str, value: Value, keyword: bool, specs: Sequence[InputSpec], static: Mapping[str, int]
) -> Iterable[dict[str, Any]]:
    """One row a tensor: containers are flattened by dotted name."""
    match value:
        case TensorValue(shape=shape, dtype=dtype):
            spec = next((s for s in specs if s.name == name), None)
            labels = [d.label for d in spec.dims] if spec else [_label(size, static) for size in shape]
            limit = spec.limit if spec else None
            yield {
                "name": name,
                "dtype": dtype,
                "shape": list(shape),
                "dims": labels,
                "range": limit,
                "keyword": keyword,
            }
        case SequenceValue(items=items):
            for i, item in enumerate(items):
                yield from _input_rows(f"{name}.{i}", item, keyword, specs, static)
        case DictValue(items=pairs):
            for key, item in pairs:
                yield from _input_rows(f"{name}.{key}", item, keyword, specs, static)


def _label(size: int, static: Mapping[str, int]) -> str | None:
    """Inputs given as tensors have no labels of their own: a size that ``static`` names gets that name."""
    return next((label for label, wanted in static.items() if wanted == size), None)


def baked(program: Program) -> dict[str, str]:
    """Arguments of ``forward`` that hold no tensor, as source text: the port has their values built in."""
    root = program.cells.get(program.root)
    forward = next((m for m in root.methods if m.name in ("forward", "construct")), None) if root else None
    if forward is None:
        return {}
    tensors = {item.name.partition(".")[0] for item in program.inputs}
    found: dict[str, str] = {}
    for name, values in forward.facts.parameters.items():
        plain = [v.value for v in values if isinstance(v, Literal)]
        if name != "self" and name not in tensors and plain and plain[0] is not None:
            found[name] = repr(plain[0])
    return found


def output_structure(outputs: Mapping[str, Value]) -> dict[str, Any]:
    """``structure`` of what ``construct`` returns, and ``fields``: names where torch returned an object."""
    by_mode = {mode: _structure(value) for mode, value in outputs.items() if mode in ("eval", "train")}
    chosen = by_mode.get("eval", next(iter(by_mode.values()), None))
    value = outputs.get("eval", next(iter(outputs.values()), None))
    fields = None
    if isinstance(value, ObjectValue) and value.kind == "output":
        fields = [name for name, item in value.fields if holds_tensor(item)]
    found: dict[str, Any] = {"structure": chosen, "fields": fields}
    if by_mode.get("train", chosen) != chosen:
        found["structure_train"] = by_mode["train"]
    return found


def _structure(value: Value) -> Any:
    match value:
        case TensorValue():
            return str(value)
        case SequenceValue(items=items):
            return [_structure(item) for item in items]
        case DictValue(items=pairs):
            return {str(key): _structure(item) for key, item in pairs}
        case ObjectValue(kind="output", fields=fields):
            return [_structure(item) for _, item in fields if holds_tensor(item)]
        case _:
            return None


def relocated(text: str, here: Path, out: Path) -> str:
    """``FILE.py:NAME`` with the file relative to OUT instead of to ``here``; other texts as they are."""
    match = _FILE_OBJECT.match(text)
    if match is None or os.path.isabs(match["file"]):
        return text
    file = (here / match["file"]).resolve()
    if not file.is_file():
        return text
    return f"{Path(os.path.relpath(file, out.resolve())).as_posix()}:{match['name']}"


def source_hashes(files: Iterable[str], out: Path) -> dict[str, str]:
    """SHA-256 of the source files: installed ones by their name in site-packages, others relative to OUT."""
    roots = [Path(p).resolve() for p in {*site.getsitepackages(), sysconfig.get_path("purelib")}]
    found: dict[str, str] = {}
    for file in sorted({Path(f).resolve() for f in files}):
        if not file.is_file():
            continue
        root = next((r for r in roots if r in file.parents), None)
        name = file.relative_to(root).as_posix() if root else Path(os.path.relpath(file, out.resolve())).as_posix()
        found[name] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


def versions() -> dict[str, str]:
    """Of what a port depends on; MindSpore's is read without importing it."""
    found = {"ms_port": __version__, "python": ".".join(map(str, sys.version_info[:3]))}
    return {**found, "torch": _version("torch"), "mindspore": _version("mindspore")}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
