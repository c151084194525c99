"""Check rows against the installed MindSpore and torch: ``python -m ms_port.opmap.lint [FILE ...]``.

Every MindSpore name exists; keyword names, defaults and order are its own; the signature agrees with torch's where
``inspect`` can tell; every row has examples or says why not. Imports mindspore: for tests and CI only.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ms_port.opmap.binding import same_literal
from ms_port.opmap.errors import OpMapError
from ms_port.opmap.opmap import OpMap
from ms_port.opmap.rows import Entry, Form, Row, RowText
from ms_port.opmap.schema import check_schema
from ms_port.opmap.signature import MISSING, Parameter
from ms_port.opmap.source import check_templates

ROOTS = {
    "nn": "mindspore.nn",
    "ops": "mindspore.ops",
    "ms": "mindspore",
    "mint": "mindspore.mint",
    "np": "numpy",
    "Tensor": "mindspore.Tensor",
    "Parameter": "mindspore.Parameter",
    "math": "math",
}
OPEN = frozenset({"*args", "**kwargs"})


@dataclass(frozen=True)
class Fault:
    """One thing wrong with a row."""

    file: Path
    line: int
    api: str
    message: str

    def __str__(self) -> str:
        return f"{self.file.name}:{self.line}: {self.api}: {self.message}"


def lint(op_map: OpMap, files: Sequence[Path] = ()) -> list[Fault]:
    """All faults of the rows of some files (all if none)."""
    wanted = {file.resolve() for file in files}
    faults: list[Fault] = []
    for api in op_map.apis:
        text = op_map.text_of(api)
        if not wanted or text.file.resolve() in wanted:
            faults += [Fault(text.file, text.line, api, message) for message in _row(op_map, text)]
    return faults + list(_functions(op_map))


def _row(op_map: OpMap, text: RowText) -> Iterator[str]:
    try:
        check_schema(text)
        row = op_map.row(text.api)
        assert row is not None
        check_templates(row)
    except OpMapError as error:
        yield error.reason
        return
    if not row.examples and not row.untested:
        yield "no examples, and no `untested: reason`"
    if row.same_as and op_map.row(row.same_as) is None:
        yield f"same_as {row.same_as}, which has no row"
    for overload in row.overloads:
        for form in overload.forms:
            yield from _form(op_map, form)
    yield from _torch(row)


def _form(op_map: OpMap, form: Form) -> Iterator[str]:
    """Names in the target, and for calls their arguments."""
    text = re.sub(r"{%.*?%}", " ", re.sub(r"{{.*?}}", "x", form.target))
    for name in re.findall(r"(?<![\w.'\"])(?:nn|ops|ms|mint)(?:\.\w+)+", text):
        if _find(name) is None:
            yield f"{name} does not exist in the installed MindSpore"
    if form.kind == "initializer" and form.args:
        target: Any = getattr(importlib.import_module("mindspore.common.initializer"), form.target, None)
    elif form.kind in ("function", "cell") and "{" not in form.target:
        target = _find(form.target)
        if target is None and form.target not in op_map.function_names:
            yield f"{form.target} exists neither in MindSpore nor in op_maps/functions"
    elif form.kind == "method":
        target = getattr(importlib.import_module("mindspore").Tensor, form.target, None)
        if target is None:
            yield f"Tensor.{form.target} does not exist"
    else:
        return
    if form.target in op_map.function_names:
        names = _own_parameters(op_map, form.target)
    else:
        names = _parameters(target)
    if names is not None:
        yield from _arguments(form.args, names)


def _find(name: str) -> Any:
    """The object a dotted MindSpore name stands for; None if there is none."""
    root, *parts = name.split(".")
    if root not in ROOTS:
        return None
    module, _, _attribute = ROOTS[root].partition(".Tensor")
    found: Any = importlib.import_module(module)
    for part in parts:
        found = getattr(found, part, None)
    return found


def _parameters(target: Any) -> dict[str, object] | None:
    """Parameter -> default of a MindSpore callable, in order, self left out; None where inspect can't tell."""
    try:
        signature = inspect.signature(target.__init__ if inspect.isclass(target) else target)
    except (ValueError, TypeError):
        return None
    found: dict[str, object] = {}
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            return None
        if parameter.name not in ("self", "input_self"):
            found[parameter.name] = MISSING if parameter.default is parameter.empty else parameter.default
    return found


def _own_parameters(op_map: OpMap, name: str) -> dict[str, object] | None:
    """The same for a function or cell of op_maps/functions, from its source."""
    tree = op_map.function_tree(name)
    if isinstance(tree, ast.ClassDef):
        inits = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
        if not inits:
            base = ast.unparse(tree.bases[0]) if tree.bases else "nn.Cell"
            if base in op_map.function_names:
                return _own_parameters(op_map, base)
            return {} if base == "nn.Cell" else _parameters(_find(base))
        tree = inits[0]
    if not isinstance(tree, ast.FunctionDef) or tree.args.vararg or tree.args.kwarg:
        return None
    spec = tree.args
    names = [argument.arg for argument in [*spec.posonlyargs, *spec.args] if argument.arg != "self"]
    defaults: list[object] = [MISSING] * (len(names) - len(spec.defaults)) + [_literal(d) for d in spec.defaults]
    found = dict(zip(names, defaults, strict=True))
    for argument, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        found[argument.arg] = MISSING if default is None else _literal(default)
    return found


def _literal(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)


def _arguments(entries: Sequence[Entry], names: dict[str, object]) -> Iterator[str]:
    """Names, defaults and order against the real parameters."""
    order = list(names)
    by_position = True
    for place, entry in enumerate(entries):
        if entry.positional:
            continue
        if entry.name not in names:
            yield f"no argument {entry.name!r}; there are {', '.join(order)}"
            continue
        by_position = by_position and not entry.keyword and bool(entry.mentions)
        if by_position and (place >= len(order) or order[place] != entry.name):
            there = order[place] if place < len(order) else "nothing"
            yield f"{entry.name!r} would stand at position {place + 1}, which is {there!r}'s: needs `keyword: true`"
            by_position = False
        real = names[entry.name]
        if (
            entry.default is not MISSING
            and not isinstance(real, type(MISSING))
            and not same_literal(entry.default, real)
        ):
            yield f"default of {entry.name!r} is {real!r}, not {entry.default!r}"
        if entry.default is not MISSING and isinstance(real, type(MISSING)):
            yield f"{entry.name!r} has no default"


def _torch(row: Row) -> Iterator[str]:
    """The row's signature against torch's, where inspect can tell."""
    if row.same_as or not row.api.startswith("torch.") or len(row.overloads) != 1:
        return
    torch: Any = importlib.import_module("torch")
    found = torch
    for part in row.api.split(".")[1:]:
        around, found = found, getattr(found, part, None)
    if found is None and row.api.startswith("torch.nn.utils.") and inspect.isfunction(around):
        found = getattr(torch.nn, part.partition("_")[0], None)  # a layer that the function was put over, and how
    if found is None:
        yield "torch has no such name"
        return
    try:
        signature = inspect.signature(found.__init__ if inspect.isclass(found) else found)
    except (ValueError, TypeError):
        return
    real = [p for p in signature.parameters.values() if p.name != "self"]
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) or p.name.startswith("_") for p in real):
        return
    yield from _same_signature(row.overloads[0].signature, real)


def _same_signature(ours: Sequence[Parameter], real: Sequence[inspect.Parameter]) -> Iterator[str]:
    names = [p.name for p in ours]
    missing = [p.name for p in real if p.name not in names]
    extra = set(names) - {p.name for p in real}
    if missing or extra:
        yield f"signature lacks {', '.join(missing) or 'nothing'} and has {', '.join(sorted(extra)) or 'nothing'} more"
        return
    if [p.name for p in real] != names:
        yield f"signature's order is {', '.join(p.name for p in real)}"
    for mine, theirs in zip(ours, real, strict=False):
        default = MISSING if theirs.default is theirs.empty else theirs.default
        if isinstance(default, (bool, int, float, str, tuple, type(None))) and not same_literal(mine.default, default):
            yield f"torch's default of {mine.name!r} is {default!r}"


def _functions(op_map: OpMap) -> Iterator[Fault]:
    """Names in op_maps/functions that hide what every port may import."""
    reserved = {*ROOTS, *importlib.import_module("mindspore.common.initializer").__all__, "partial"}
    for name in sorted(reserved & op_map.function_names):
        yield Fault(op_map.function_file(name), 0, name, "hides a name that ports import from MindSpore")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 if there are no faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="*", type=Path)
    faults = lint(OpMap.load(), parser.parse_args(arguments).file)
    for fault in faults:
        print(fault)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
