"""Ports as ``convert`` would write them, made from the hand-checked ones in ``ports/``, whole or with a planted fault."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

from torch import nn

from ms_port.inputs import parse_spec
from ms_port.resources import render
from ms_port.target import load_arguments, load_target, parse_target
from ms_port.weights import convert, write_safetensors

PORTS = Path(__file__).parent / "ports"
"""Ports written by hand, of models in the gallery."""
GALLERY = Path(__file__).parents[2] / "models"
RENAMED = {
    "BatchNorm2d": {"weight": "gamma", "bias": "beta", "running_mean": "moving_mean", "running_var": "moving_variance"},
    "BatchNorm1d": {"weight": "gamma", "bias": "beta", "running_mean": "moving_mean", "running_var": "moving_variance"},
    "LayerNorm": {"weight": "gamma", "bias": "beta"},
    "Embedding": {"weight": "embedding_table"},
}
MODELS: dict[str, dict[str, Any]] = {
    "residual": {
        "target": "residual_source.py:residual_tiny",
        "arguments": {},
        "inputs": [{"name": "x", "dtype": "float32", "shape": [4, 3, 64, 64], "dims": ["batch", None, None, None]}],
    },
    "vision_transformer": {
        "target": "vision_transformer_source.py:VisionTransformer",
        "arguments": {
            "img_size": "32",
            "patch_size": "8",
            "num_classes": "10",
            "dim": "48",
            "depth": "3",
            "num_heads": "3",
            "drop_rate": "0.1",
            "path_drop_rate": "0.2",
            "init_value": "0.1",
        },
        "inputs": [{"name": "x", "dtype": "float32", "shape": [4, 3, 32, 32], "dims": ["batch", None, None, None]}],
    },
    "text_encoder": {
        "target": "text_encoder_example.py:build",
        "arguments": {},
        "inputs": [],
        "inputs_from": "text_encoder_example.py:inputs",
    },
    "mixed": {
        "target": "mixed_source.py:Mixed",
        "arguments": {},
        "inputs": [
            {"name": "x", "dtype": "float32", "shape": [3, 3, 8, 8], "dims": ["batch", None, None, None]},
            {"name": "ids", "dtype": "int64", "shape": [3], "dims": ["batch"], "range": 20},
        ],
    },
}


def make_port(name: str, folder: Path, edits: Sequence[str] = ()) -> Path:
    """Write OUT for one of the models into ``folder``; ``edits``: old and new text of model.py, in turns."""
    out = folder / "out"
    shutil.copytree(PORTS / name / name, out / name)
    own = list((PORTS / name).glob("*.py"))
    for file in own:
        shutil.copy(file, out)
    if not any(file.name == f"{name}_source.py" for file in own):  # then it is a model of the gallery
        shutil.copy(GALLERY / name / "source.py", out / f"{name}_source.py")
    source = out / name / "model.py"
    text = source.read_text()
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        assert old in text, old
        text = text.replace(old, new)
    source.write_text(text)
    return finish_port(out, {"package": name, **MODELS[name]})


def make_optimization(out: Path, edits: Sequence[str]) -> None:
    """The training files' optimizers, with their options, edited."""
    text = render("optimization.py.j2", banner="")
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        assert old in text, old
        text = text.replace(old, new)
    (out / "optimization.py").write_text(text)
    options = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "alpha": 0.99, "amsgrad": "false", "centered": "false"}
    (out / "config.yaml").write_text("".join(f"{key}: {value}\n" for key, value in options.items()))


def make_small(
    folder: Path, torch_code: str, port_code: str, inputs: Sequence[str], before: tuple[str, str] = ("", "")
) -> Path:
    """A port of one class ``Net``: the bodies of both classes, inputs as ``x:float32[2,3]``, and code ``before`` them."""
    out = folder / "out"
    (out / "small").mkdir(parents=True)
    head = (
        f"import torch\nimport torch.nn.functional as F\nfrom torch import nn\n{before[0]}\n\nclass Net(nn.Module):\n"
    )
    (out / "small_source.py").write_text(head + indent(dedent(torch_code), "    "))
    imports = "import mindspore as ms\nimport numpy as np\nfrom mindspore import nn, ops, Parameter, Tensor\n\n\n"
    empty = not make_model({"target": "small_source.py:Net", "arguments": {}}, out).state_dict()
    loader = render("load_weights.py.j2", shared=False, empty=empty)
    body = (
        imports
        + (f"{before[1]}\n\n" if before[1] else "")
        + "class Net(nn.Cell):\n"
        + indent(dedent(port_code), "    ")
    )
    (out / "small" / "model.py").write_text(f"{body}\n\ndef build_model():\n    return Net()\n\n\n{loader}")
    (out / "small" / "__init__.py").write_text("from .model import build_model, load_weights\n")
    specs = [parse_spec(text) for text in inputs]
    rows = [{"name": s.name, "dtype": s.dtype, "shape": list(s.shape), "range": s.limit} for s in specs]
    return finish_port(out, {"package": "small", "target": "small_source.py:Net", "arguments": {}, "inputs": rows})


def finish_port(out: Path, spec: Mapping[str, Any]) -> Path:
    """Write port.json and the weights of a fresh model."""
    model = make_model(spec, out)
    rows = parameter_rows(model)
    cells = [{"path": p, "cell": p, "class": type(m).__name__} for p, m in model.named_modules()]
    content = {"schema": 1, **spec, "parameters": rows, "cells": cells, "options": {"weights": None}}
    (out / "port.json").write_text(json.dumps(content))
    write_safetensors(out / "weights.safetensors", convert(model.state_dict(), rows))
    return out


def make_model(spec: Mapping[str, Any], out: Path) -> nn.Module:
    """The torch model of a port.json."""
    for module in [m for m in sys.modules if m.endswith(("_source", "_example"))]:
        del sys.modules[module]
    model = load_target(parse_target(spec["target"], out))(**load_arguments(spec["arguments"], out))
    assert isinstance(model, nn.Module)
    return model


def parameter_rows(model: nn.Module) -> list[dict[str, Any]]:
    """The rows that the op map would give for the layers of these models."""
    rows: list[dict[str, Any]] = []
    owners: dict[int, str] = {}
    modules = dict(model.named_modules())
    for torch_name, tensor in model.state_dict(keep_vars=True).items():
        path, _, last = torch_name.rpartition(".")
        renamed = RENAMED.get(type(modules[path]).__name__, {})
        name: str | None = f"{path}.{renamed.get(last, last)}".removeprefix(".")
        rule = "same"
        if last == "num_batches_tracked":
            name, rule = None, "drop"
        elif id(tensor) in owners:
            name, rule = owners[id(tensor)], "tied"
        else:
            owners[id(tensor)] = str(name)
        rows.append({"torch": torch_name, "mindspore": name, "shape": list(tensor.shape), "rule": rule})
    return rows
