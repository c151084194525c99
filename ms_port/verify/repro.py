"""``report/repro_*.py``: the one op with its saved inputs, torch beside MindSpore, to be run alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ms_port.resources import render
from ms_port.verify.built import is_plain
from ms_port.verify.judge import Array
from ms_port.verify.pinpoint import Scene
from ms_port.verify.torch_side import as_array


@dataclass
class Saved:
    """The arrays beside the script."""

    arrays: dict[str, Array] = field(default_factory=dict)

    def text(self, value: Any) -> str:
        """An argument of the torch call as Python, with tensors as ``t["name"]``. Raises ValueError."""
        if isinstance(value, Tensor):
            name = f"arg{len(self.arrays)}"
            self.arrays[name] = as_array(value) if value.dtype.is_floating_point else value.numpy()
            return f't["{name}"]'
        if type(value) in (tuple, list):
            inner = ", ".join(map(self.text, value))
            return f"[{inner}]" if type(value) is list else f"({inner}{',' if len(value) == 1 else ''})"
        if isinstance(value, slice):
            return f"slice({self.text(value.start)}, {self.text(value.stop)}, {self.text(value.step)})"
        if value is Ellipsis or is_plain(value):
            return repr(value).replace("Ellipsis", "...").replace("inf", 'float("inf")')
        if type(value).__module__ == "torch":  # dtypes, devices, memory formats
            return str(value) if "." in str(value) else f"torch.device({str(value)!r})"
        raise ValueError(f"{type(value).__name__} has no text")


def clear(out: Path) -> None:
    """Remove the scripts of an earlier verification."""
    for file in (out / "report").glob("repro_*"):
        file.unlink()


def write_repro(scene: Scene) -> str:
    """Write script and arrays into OUT/report; returns the script's path relative to OUT, empty if it can't be."""
    saved = Saved()
    called = _torch_text(scene, saved)
    if called is None:
        return ""
    mindspore = _expression(scene, saved) or _layer(scene, saved) or _cell(scene, saved)
    out, first = scene.session.port.out, scene.first
    assert scene.guilty is not None
    short = scene.guilty.name.rpartition(".")[2].strip("_")
    stem = "repro_" + re.sub(r"\W+", "_", f"{first.path or 'root'}_{short}")
    whole = mindspore["kind"] == "cell"
    if whole and scene.guilty.func is not None and len(scene.double.calls) > 1:
        called = None  # the cell does more than this call: torch's outputs of the whole module are the yardstick
    alone = scene.single.calls[scene.double.calls.index(scene.guilty)]
    results, near = scene.guilty.results, alone.results
    if called is None:
        results, near = tuple(scene.double.outputs), tuple(scene.single.outputs)
    for i, (double, single) in enumerate(zip(results, near, strict=True)):
        saved.arrays[f"truth{i}"], saved.arrays[f"torch{i}"] = as_array(double), as_array(single)
    folder = out / "report"
    folder.mkdir(exist_ok=True)
    np.savez(folder / f"{stem}.npz", **saved.arrays)
    text = render(
        "repro.py.j2",
        first=first,
        op=scene.guilty.name,
        called=called,
        writes=scene.guilty.name.endswith("__setitem__"),
        stem=stem,
        mindspore=mindspore,
        train=scene.mode.train,
        cause=scene.cause,
        generated=scene.site.place if scene.site else None,
        count=len(results),
        package=scene.session.port.package,
    )
    (folder / f"{stem}.py").write_text(text, encoding="utf-8")
    return f"report/{stem}.py"


def _torch_text(scene: Scene, saved: Saved) -> str | None:
    """The torch call as Python, its tensors saved; None where it has no text of its own."""
    guilty = scene.guilty
    assert guilty is not None
    if guilty.func is None:
        return None
    single = scene.single.calls[scene.double.calls.index(guilty)]
    try:
        args = [saved.text(a) for a in single.args]
        kwargs = [f"{k}={saved.text(v)}" for k, v in single.kwargs.items()]
    except ValueError:
        return None
    name = guilty.name
    if name.startswith("torch.Tensor."):
        return f"torch.Tensor.{name.rpartition('.')[2]}({', '.join(args + kwargs)})"
    return f"{name}({', '.join(args + kwargs)})" if name.startswith("torch.") else None


def _expression(scene: Scene, saved: Saved) -> Mapping[str, Any] | None:
    """The port's own expression as a cell, if all that it reads is tensors and numbers that were seen."""
    site = scene.site
    assert scene.guilty is not None
    shapes = {tuple(t.shape) for t in scene.guilty.results}
    if site is None or not any(v.shape in shapes for v in scene.seen[site.number]):
        return None
    tree = ast.parse(site.text, mode="eval")
    inside = _inside(scene, tree)
    if inside is None:
        return None
    values: dict[str, Any] = {}
    for name, value in inside.items():
        if value.ndim or (value.dtype.kind == "f" and value.dtype != np.float64):
            values[name] = None
            saved.arrays[f"ms_{_plain_name(name)}"] = value
        else:
            values[name] = value.item()
    text = ast.unparse(_Renamed(values).visit(tree))
    names = [_plain_name(n) for n, v in values.items() if v is None]
    return {"kind": "expression", "text": text, "names": names, "place": str(site.place)}


def _inside(scene: Scene, tree: ast.Expression) -> dict[str, Array] | None:
    """The values of the names in an expression at its first evaluation; None if one is not known."""
    assert scene.site is not None
    found: dict[str, Array] = {}
    numbers = {s.name: s.number for s in scene.sites if s.name and s.place == scene.site.place}
    modules = {"ops", "ms", "mint", "nn"}
    for node in ast.walk(tree):
        name = ""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            name = f"self.{node.attr}"
        elif isinstance(node, ast.Name) and node.id not in modules | {"self"}:
            name = node.id
        if name:
            values = scene.seen.get(numbers.get(name, -1))
            if not values:
                return None
            found[name] = values[0]
    return found


def _plain_name(name: str) -> str:
    return name.replace("self.", "self_")


class _Renamed(ast.NodeTransformer):
    """Numbers in place of the names that hold them, and variables in place of attributes of ``self``."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def _new(self, name: str, node: ast.expr) -> ast.expr:
        if name not in self.values:
            return node
        value = self.values[name]
        return ast.Name(_plain_name(name), ast.Load()) if value is None else ast.Constant(value)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._new(node.id, node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            return self._new(f"self.{node.attr}", node)
        node.value = self.visit(node.value)
        return node


def _layer(scene: Scene, saved: Saved) -> Mapping[str, Any] | None:
    """A layer of MindSpore, made as the port makes it, with the port's parameters."""
    row = scene.built.get(scene.first.cell)
    if row is None or not row["known"] or row["with"] is None:
        return None
    arguments = ", ".join(f"{k}={v!r}" for k, v in row["with"].items())
    _save_arguments(scene, saved)
    return {"kind": "layer", "text": f"nn.{row['class']}({arguments})", **_parameters(scene, saved)}


def _cell(scene: Scene, saved: Saved) -> Mapping[str, Any]:
    """The whole cell, as the port makes it: the script then needs the port beside it."""
    _save_arguments(scene, saved)
    return {"kind": "cell", "text": scene.first.cell, **_parameters(scene, saved)}


def _save_arguments(scene: Scene, saved: Saved) -> None:
    for i, tensor in enumerate(scene.single.arguments):
        saved.arrays[f"in{i}"] = as_array(tensor) if tensor.is_floating_point() else tensor.numpy()


def _parameters(scene: Scene, saved: Saved) -> Mapping[str, Any]:
    prefix = f"{scene.first.cell}." if scene.first.cell else ""
    for name, tensor in scene.session.weights.items():
        if name.startswith(prefix):
            saved.arrays[f"parameter.{name.removeprefix(prefix)}"] = tensor.numpy()
    return {"prefix": prefix, "inputs": len(scene.single.arguments)}
