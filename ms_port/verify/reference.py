"""What a device without torch needs to repeat the comparison: report/reference.safetensors and verify.py in OUT."""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from torch import Tensor

from ms_port.resources import resource
from ms_port.verify.forward import Findings, call_name, output_truths
from ms_port.verify.judge import Truth
from ms_port.verify.process import skeleton
from ms_port.verify.session import Mode, Session
from ms_port.verify.standalone_parts import PARTS
from ms_port.weights import write_safetensors

KEPT = 1024
"""Elements kept of a cell's output; the error that is allowed is that of the whole tensor."""
KEPT_OUTPUT = 1 << 20


def write_reference(session: Session, modes: Sequence[Mode], findings: Mapping[str, Findings]) -> None:
    """Write both files into the port's folder, for the modes that were compared."""
    arrays: dict[str, Tensor] = {}
    described = []
    for mode in modes:
        if mode.name not in findings:
            continue
        rows = list(_rows(session, mode, findings[mode.name], arrays))
        described.append({**session.describe(mode, taps=mode.taps), "rows": rows})
    named = session.inputs.named(session.model)
    inputs = skeleton(named, lambda tensor: _add(arrays, f"input.{len(arrays)}", tensor))
    for name in session.measured:
        arrays[f"weight.{name}"] = session.weights[name]
    about = {
        "package": session.port.package,
        "torch": torch.__version__.partition("+")[0],
        "noise": None if session.port.trained else session.seed,
        "kinds": session.port.kinds(session.model),
        "weights": digest(session.weights),
        "inputs": inputs,
        "mapped": [pair.cell for pair in session.port.cells],
        "modes": described,
    }
    report = session.port.out / "report"
    write_safetensors(report / "reference.safetensors", arrays.items(), {"ms_port": json.dumps(about)})
    (session.port.out / "verify.py").write_text(script(), encoding="utf-8")


def digest(weights: Mapping[str, Tensor]) -> str:
    """SHA-256 of all values by name, as verify.py computes it."""
    total = hashlib.sha256()
    for name in sorted(weights):
        total.update(name.encode())
        total.update(np.ascontiguousarray(weights[name].numpy()).tobytes())
    return total.hexdigest()


def _add(arrays: dict[str, Tensor], key: str, tensor: Tensor) -> str:
    arrays[key] = tensor.detach().float() if tensor.is_floating_point() else tensor.detach()
    return key


def _rows(session: Session, mode: Mode, findings: Findings, arrays: dict[str, Tensor]) -> Any:
    """One row a tensor, in forward order, its sampled truth put into ``arrays``."""
    pairs = {pair.path: pair.cell for pair in reversed(session.port.cells)}
    compared = {key for key, _, _ in findings.cells}

    def row(kind: str, cell: str, call: int, leaf: int, name: str, truth: Truth, kept: int) -> dict[str, Any]:
        flat = truth.values.reshape(-1)
        step = max(1, flat.size // kept)
        step += 1 - step % 2 if step > 1 else 0  # odd: no step stays in one channel
        key = f"{mode.name}.{kind}.{cell}.{call}.{leaf}"
        sample = np.ascontiguousarray(flat[::step])
        with np.errstate(over="ignore"):
            arrays[key] = torch.from_numpy(sample if truth.exact else sample.astype(np.float32))
        place = {"kind": kind, "cell": cell, "call": call, "leaf": leaf, "name": name, "key": key}
        return {**place, "shape": list(truth.values.shape), "step": step, "error": truth.error, "scale": truth.scale}

    for key in mode.truth.order:
        if key in compared:
            cell = pairs[key[0]]
            for leaf, truth in enumerate(mode.truth.values[key]):
                name = call_name(key, leaf, len(mode.truth.values[key]))
                yield row("cell", cell, key[1] - mode.calls[cell], leaf, name, truth, KEPT)
    for i, truth in enumerate(output_truths(mode)):
        yield row("output", "", 0, i, f"output {i}", truth, KEPT_OUTPUT)


def script() -> str:
    """The text of OUT/verify.py: the comparison's own modules, one after the other."""
    folder = Path(__file__).parent
    imports: dict[str, set[str]] = {}
    bodies = []
    for part in PARTS:
        text = (folder / f"{part}.py").read_text(encoding="utf-8")
        bodies.append(_body(text, imports))
    environment = Environment(
        loader=FileSystemLoader(resource("templates")),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("verify.py.j2").render(imports=_sorted(imports), bodies=bodies)


def _sorted(imports: Mapping[str, set[str]]) -> list[str]:
    """Import lines in the usual order: the standard library, an empty line, the rest; plain imports first."""
    lines = [f"from {m} import {', '.join(sorted(n))}" if n else m for m, n in imports.items()]
    lines.sort(key=lambda line: (line.startswith("from"), line))
    own = [line for line in lines if line.split()[1].partition(".")[0] in sys.stdlib_module_names]
    return [*own, "", *(line for line in lines if line not in own)]


def _body(text: str, imports: dict[str, set[str]]) -> str:
    """A module without its docstring and imports, which are added to ``imports``."""
    tree = ast.parse(text)
    last = 0
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            last = node.end_lineno or last
            if node.module and not node.module.startswith(("ms_port", "__future__")):
                imports.setdefault(node.module, set()).update(
                    f"{a.name} as {a.asname}" if a.asname else a.name for a in node.names
                )
        elif isinstance(node, ast.Import):
            last = node.end_lineno or last
            imports.update({ast.unparse(node): set()})
    return "\n".join(text.splitlines()[last:]).strip("\n")
