"""Writes the package: model.py, functions.py, fixes.py."""

from __future__ import annotations

import ast
import re
import subprocess
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from ruff.__main__ import find_ruff_bin

from ms_port.emit.configs import config_source
from ms_port.emit.docstrings import docstring, fitted, summary
from ms_port.emit.imports import import_block
from ms_port.emit.order import ordered
from ms_port.emit.parameters import CellPath, ParameterRow, cell_paths, parameter_rows
from ms_port.emit.source import Comments, block_source, class_header, function_source
from ms_port.emit.source_map import Origin, source_lines
from ms_port.emit.unparse import unparse
from ms_port.ir.program import CellDef, FunctionDef, Program
from ms_port.opmap import OpMap
from ms_port.passes.cell_names import is_cell
from ms_port.resources import render

_BASES = {
    "torch.nn.Module": "nn.Cell",
    "torch.nn.Sequential": "nn.SequentialCell",
    "torch.nn.ModuleList": "nn.CellList",
    "torch.nn.ModuleDict": "nn.CellDict",
}


@dataclass(frozen=True, slots=True)
class Banner:
    """Where a generated file comes from."""

    version: str
    target: str
    torch: str
    mindspore: str
    command: str


@dataclass(frozen=True, slots=True)
class EmittedFiles:
    """What was written, and the map from torch's names to the port's."""

    files: tuple[Path, ...]
    parameters: tuple[ParameterRow, ...]
    cells: tuple[CellPath, ...]
    lines: int
    classes: int
    origins: Mapping[int, Origin] = field(default_factory=dict)
    """By line of model.py."""


def write_package(program: Program, opmap: OpMap, out: Path, banner: Banner) -> EmittedFiles:
    """Write ``out/NAME/*.py``. Formatting is ruff's; the same program gives the same bytes."""
    folder = out / program.name
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"model.py": model_source(program, opmap, banner), "__init__.py": _init_source(program)}
    if program.op_functions or _expanded(program):
        texts["functions.py"] = render("functions.py.j2", banner=banner, body=_functions_source(program, opmap))
    if program.stubs:
        texts["fixes.py"] = render("fixes.py.j2", banner=banner, stubs=program.stubs)
    paths = []
    for name, text in texts.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    _format(paths)
    model = (folder / "model.py").read_text(encoding="utf-8")
    return EmittedFiles(
        files=tuple(paths),
        parameters=tuple(parameter_rows(program, opmap)),
        cells=tuple(cell_paths(program)),
        lines=model.count("\n"),
        classes=len(program.cells),
        origins=source_lines(program, model),
    )


def model_source(program: Program, opmap: OpMap, banner: Banner) -> str:
    """The text of model.py, before formatting."""
    assert program.factory is not None
    parts = [
        config_source(name, fields, _config_doc(program, name), _config_hints(program, name), _derived(program, name))
        for name, fields in program.configs.items()
        if fields
    ]
    definitions = ordered(program)
    definitions = [_documented(d, [x.name for x in definitions]) for d in definitions]
    sources = [_cell_source(program, opmap, d) if isinstance(d, CellDef) else function_source(d) for d in definitions]
    names = [d.name for d in definitions]
    for statement in reversed(list(program.constants.values())):
        text = unparse(statement)
        needed = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
        after = max((i + 1 for i, name in enumerate(names) if name in needed), default=0)
        sources.insert(after, text)
        names.insert(after, "")
    text = "\n\n\n".join([*parts, *_with_constants(sources, names), function_source(program.factory)])
    load = render(
        "load_weights.py.j2",
        shared=_renames_parameters(program),
        empty=all(r.mindspore is None for r in parameter_rows(program, opmap)),
    )
    tree = ast.parse(text + "\n\n" + load)
    exported = sorted({*_root_names(program), "build_model", "load_weights", *_config_names(program)}, key=_isort)
    return render(
        "model.py.j2",
        banner=banner,
        command="\n        ".join(_command_lines(banner.command)),
        docstring="\n".join(_wrapped(_summary(program), 116)),
        imports=import_block(
            tree, program.op_functions | {f.name for f in _expanded(program)}, [s.name for s in program.stubs]
        ),
        exported=exported,
        body=text,
        load_weights=load,
    )


def _with_constants(sources: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """The sources, constants that follow each other (they have no name here) as one block."""
    for constant, group in groupby(zip(names, sources, strict=True), key=lambda pair: not pair[0]):
        texts = [text for _, text in group]
        yield from ["\n".join(texts)] if constant else texts


def _command_lines(command: str) -> list[str]:
    """The command broken between its options."""
    joined = re.sub(r" (--?\w[\w-]*) ", " \\1\0", command.strip())
    return [line.replace("\0", " ") for line in _wrapped(joined, 110)]


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _expanded(program: Program) -> list[FunctionDef]:
    """Functions made of torch's expansion of a call: they stand beside the op map's."""
    return [f for f in program.functions.values() if f.kind == "expanded"]


def _functions_source(program: Program, opmap: OpMap) -> str:
    """The op map's functions that are used, then the expanded ones."""
    own = opmap.function_sources(sorted(program.op_functions))
    made = "\n\n\n".join(map(function_source, _expanded(program)))
    if not made:
        return own
    imports = import_block(ast.parse(made), [], [])
    future = "from __future__ import annotations\n"
    head = future if own.startswith(future) else ""
    return f"{head}{imports}\n{own.removeprefix(future)}\n\n{made}\n"


def _renames_parameters(program: Program) -> bool:
    """Whether MindSpore may call a parameter otherwise than its place: a module under two names, an open list."""
    if program.op_functions & {"ParameterDict", "ParameterList"}:
        return True
    paths = [path for module in program.modules.values() for _, path in module.children]
    return len(paths) != len(set(paths))


def _config_hints(program: Program, name: str) -> dict[str, str]:
    known = program.config_classes.get(name)
    return dict(known.hints) if known is not None else {}


def _derived(program: Program, name: str) -> tuple[tuple[str, str], ...]:
    known = program.config_classes.get(name)
    return known.derived if known is not None else ()


def _config_doc(program: Program, name: str) -> str | None:
    known = program.config_classes.get(name)
    return known.docstring if known else None


def _isort(name: str) -> tuple[int, str]:
    return (1 if name[0].isupper() else 2, name)


def _root_names(program: Program) -> list[str]:
    return [program.root_cell.name] if program.root_cell is not None else []


def _config_names(program: Program) -> list[str]:
    return [name.rpartition(".")[2] for name, fields in program.configs.items() if fields]


def _cell_source(program: Program, opmap: OpMap, cell: CellDef) -> str:
    lines = [class_header(cell, base_names(program, opmap, cell))]
    if cell.docstring:
        lines.append(textwrap.indent(docstring(cell.docstring), "    "))
    parts = []
    if cell.attributes:
        parts.append(block_source(cell.attributes, Comments(cell.comments, cell.beside)))
    parts += [function_source(m, 1) for m in cell.methods]
    if not parts and not cell.docstring:
        parts.append("pass")
    lines.append(textwrap.indent("\n\n".join(parts), "    "))
    return "\n".join(lines)


def base_names(program: Program, opmap: OpMap, cell: CellDef) -> list[str]:
    """The bases as written: cells of the output by name, torch's as MindSpore's."""
    names: list[str] = []
    called = any(m.name == "construct" for m in cell.methods)
    for base in cell.bases:
        if called and base in ("torch.nn.ModuleDict", "torch.nn.ModuleList"):
            names.append("nn.Cell")  # GRAPH_MODE takes a CellList or CellDict for its items and can't call it
            continue
        if base in program.cells:
            names.append(program.cells[base].name)
        elif cell.key in program.layer_bases and base.startswith("torch.nn.") and base != "torch.nn.Module":
            names.append(program.layer_bases[cell.key])
        elif base in _BASES:
            names.append(_BASES[base])
        elif (row := opmap.row(base)) is not None and row.cell is not None:
            names.append(row.cell)
    unique = list(dict.fromkeys(names))
    if (
        len(unique) > 1
        and "nn.Cell" in unique
        and any(is_cell(program, b) for b in cell.bases if b != "torch.nn.Module")
    ):
        unique.remove("nn.Cell")
    if cell.bases == ("builtins.object",) or cell.bases == ("object",):
        return []
    return unique or ["nn.Cell"]


def _documented(definition: CellDef | FunctionDef, names: Sequence[str]) -> CellDef | FunctionDef:
    """A definition whose docstrings speak of the parameters that are left."""
    if isinstance(definition, FunctionDef):
        return replace(definition, docstring=fitted(definition.docstring, _parameters(definition), names))
    methods = tuple(replace(m, docstring=fitted(m.docstring, _parameters(m), names)) for m in definition.methods)
    init = next((m for m in methods if m.name == "__init__"), None)
    described = _parameters(init) if init is not None else None
    return replace(definition, methods=methods, docstring=fitted(definition.docstring, described, names))


def _parameters(function: FunctionDef) -> list[str]:
    args = function.node.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return [a.arg for a in every if a is not None]


def _summary(program: Program) -> str:
    """What the file is about: its source's own words, else those of the root's class."""
    root = program.root_cell
    said = summary(program.docstring) or summary(root.docstring if root is not None else None)
    return said or f"{root.name if root is not None else program.name} for MindSpore."


def _init_source(program: Program) -> str:
    names = sorted({*_root_names(program), "build_model", "load_weights", *_config_names(program)}, key=_isort)
    listed = ", ".join(f'"{n}"' for n in names)
    return f"{docstring(_summary(program), 0)}\n\nfrom .model import {', '.join(names)}\n\n__all__ = [{listed}]\n"


def _format(paths: Sequence[Path]) -> None:
    """ruff sorts the imports and lays the code out."""
    ruff = [find_ruff_bin()]
    files = [str(p) for p in paths]
    common = ["--isolated", "--line-length", "120", "--quiet"]
    subprocess.run([*ruff, "check", "--fix", "--select", "I", *common, *files], check=False, capture_output=True)
    subprocess.run([*ruff, "format", *common, *files], check=True, capture_output=True)


__all__ = ["Banner", "EmittedFiles", "base_names", "model_source", "write_package"]
