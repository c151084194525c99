"""What a device without torch needs to repeat the comparison: report/reference.safetensors and verify.py in OUT."""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ms_port.resources import render
from ms_port.verify.forward import Findings, call_name, output_truths
from ms_port.verify.gradients import Seen, load, pairs, scale_of
from ms_port.verify.judge import ZERO, Array, Comparison, Truth, make_truth
from ms_port.verify.process import skeleton
from ms_port.verify.session import Mode, Session
from ms_port.verify.standalone_parts import PARTS
from ms_port.verify.step_level import UPDATES, updates
from ms_port.verify.torch_side import as_array
from ms_port.weights import write_safetensors
from ms_port.weights.convert import apply_rule

KEPT = 1024
"""Elements kept of a cell's output; the error that is allowed is that of the whole tensor."""
KEPT_OUTPUT = 1 << 20


class Reference:
    """What both sides agreed on is collected level by level, as samples, and written at the end."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.arrays: dict[str, Tensor] = {}
        self.modes: list[dict[str, Any]] = []

    def add_forward(self, mode: Mode, findings: Findings, approximated: bool) -> None:
        """The outputs and every cell's, of a mode that was compared.

        ``approximated``: what differs is equal to torch with the kernels of MindSpore's CPU backend.
        """
        more = _on_cpu(findings.all() if approximated else ())
        rows = [{**r, "level": "forward", **more(r["name"])} for r in _forward_rows(self, mode, findings)]
        self.modes.append({**self.session.describe(mode, taps=mode.taps), "rows": rows})

    def add_gradient(self, seen: Seen, steps: bool) -> None:
        """Gradients in backward order, and (``steps``) updates and statistics."""
        session, first = self.session, seen.batches[0]
        more = _on_cpu(seen.wrong if seen.closer else ())
        made = [*_gradient_rows(self, seen), *(_step_rows(self, seen) if steps else ())]
        rows = [{**r, **more(r["name"].partition(" after ")[0])} for r in made]
        specs = [{**spec, "scale": scale_of(first.single)} for spec in UPDATES] if steps else []
        keys = [self.add(f"cotangent.{i}", c) for i, c in enumerate(first.cotangents)]
        job = {"projected": first.single.projected, "huge": first.single.huge, "updates": specs, "cotangents": keys}
        self.modes.append({**session.describe(seen.mode, {}), **job, "rows": rows})

    def add(self, key: str, tensor: Tensor) -> str:
        """Keep a whole tensor."""
        self.arrays[key] = tensor.detach().float() if tensor.is_floating_point() else tensor.detach()
        return key

    def sample(self, key: str, values: Array, kept: int, error: float, scale: float) -> dict[str, Any]:
        """Keep so many elements of an array; the errors are those of the whole."""
        flat = values.reshape(-1)
        step = max(1, flat.size // kept)
        step += 1 - step % 2 if step > 1 else 0  # odd: no step stays in one channel
        sample = np.ascontiguousarray(flat[::step])
        exact = values.dtype.kind in "iub"
        with np.errstate(over="ignore"):
            self.arrays[key] = torch.from_numpy(sample if exact else sample.astype(np.float32))
        return {"key": key, "shape": list(values.shape), "step": step, "error": error, "scale": scale}

    def write(self) -> None:
        """Write both files into the port's folder, if anything was compared."""
        if not self.modes:
            return
        session = self.session
        arrays = dict(self.arrays)
        named = session.inputs.named(session.model)
        inputs = skeleton(named, lambda tensor: self.add(f"input.{len(self.arrays)}", tensor))
        arrays.update(self.arrays)
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
            "modes": self.modes,
        }
        report = session.port.out / "report"
        write_safetensors(report / "reference.safetensors", arrays.items(), {"ms_port": json.dumps(about)})
        (session.port.out / "verify.py").write_text(script(), encoding="utf-8")


def _on_cpu(compared: Sequence[Comparison]) -> Callable[[str], dict[str, float]]:
    """By name, how much more is allowed on CPU, whose kernels explain what differs there: twice what was seen here."""
    factors = {c.name: 2.0 * c.error / c.limit for c in compared if not c.equal and c.limit}
    return lambda name: {"on_cpu": factors[name]} if name in factors else {}


def digest(weights: Mapping[str, Tensor]) -> str:
    """SHA-256 of all values by name, as verify.py computes it."""
    total = hashlib.sha256()
    for name in sorted(weights):
        total.update(name.encode())
        total.update(np.ascontiguousarray(weights[name].numpy()).tobytes())
    return total.hexdigest()


def _forward_rows(reference: Reference, mode: Mode, findings: Findings) -> Iterator[dict[str, Any]]:
    """One row a tensor, in forward order."""
    pairs = {pair.path: pair.cell for pair in reversed(reference.session.port.cells)}
    compared = {key for key, _, _ in findings.cells}

    def row(kind: str, cell: str, call: int, leaf: int, name: str, truth: Truth, kept: int) -> dict[str, Any]:
        key = f"{mode.name}.{kind}.{cell}.{call}.{leaf}"
        place = {"kind": kind, "cell": cell, "call": call, "leaf": leaf, "name": name}
        return {**place, **reference.sample(key, truth.values, kept, truth.error, truth.scale)}

    for key in mode.truth.order:
        if key in compared:
            cell = pairs[key[0]]
            for leaf, truth in enumerate(mode.truth.values[key]):
                name = call_name(key, leaf, len(mode.truth.values[key]))
                yield row("cell", cell, key[1] - mode.calls[cell], leaf, name, truth, KEPT)
    for i, truth in enumerate(output_truths(mode)):
        yield row("output", "", 0, i, f"output {i}", truth, KEPT_OUTPUT)


def _gradient_rows(reference: Reference, seen: Seen) -> Iterator[dict[str, Any]]:
    """One row a gradient, from the outputs backwards; ``zero`` is the largest gradient where this one must be zero."""
    first = seen.batches[0]
    trained = set(seen.report["trained"])
    ended = {path: i for i, (path, _) in enumerate(seen.mode.truth.order)}
    found = pairs(reference.session, first.truth, first.single)
    for name, cell_name, rule, want, near in sorted(found, key=lambda p: -ended.get(p[0].rpartition(".")[0], -1)):
        kind = "gradient" if cell_name else "input gradient"
        place = {"level": "gradient", "kind": kind, "cell": cell_name or name, "call": 0, "leaf": 0, "name": name}
        if cell_name and cell_name not in trained:
            continue
        if not cell_name and load(seen.folder / f"{kind}.{name}.0.0.npy") is None:
            continue
        key = f"{kind}.{place['cell']}"
        if want is None or near is None or float(want.abs().max()) <= ZERO * first.truth.whole:
            shape = [] if want is None else list(apply_rule(rule, want).shape)
            yield {**place, "zero": first.truth.whole or 1.0, "shape": shape, "key": "", "step": 1}
            continue
        truth = make_truth(as_array(apply_rule(rule, want)), as_array(apply_rule(rule, near)))
        yield {**place, **reference.sample(key, truth.values, KEPT, truth.error, truth.scale)}


def _step_rows(reference: Reference, seen: Seen) -> Iterator[dict[str, Any]]:
    for made in updates(reference.session, seen):
        place = {"level": "step", "kind": made.kind, "cell": made.cell_name, "call": made.number, "leaf": 0}
        key = f"{made.kind}.{made.number}.{made.cell_name}"
        row = reference.sample(key, made.truth.values, KEPT, made.truth.error, made.truth.moved)
        reference.sample(f"{key}.tolerance", made.truth.tolerance, KEPT, 0.0, 0.0)
        yield {**place, "name": f"{made.name} after {made.kind} {made.number + 1}", **row, "bound": made.truth.bound}
    single, double = seen.batches[0].single.buffers, seen.batches[0].truth.buffers
    for pair in reference.session.port.rows if seen.mode.train else ():
        if pair.mindspore and pair.rule == "same" and pair.torch in double:
            truth = make_truth(double[pair.torch], single[pair.torch])
            place = {"level": "step", "kind": "statistic", "cell": pair.mindspore, "call": 0, "leaf": 0}
            sample = reference.sample(f"statistic.{pair.mindspore}", truth.values, KEPT, truth.error, truth.scale)
            yield {**place, "name": f"{pair.torch} after a step", **sample}


def script() -> str:
    """The text of OUT/verify.py: the comparison's own modules, one after the other."""
    folder = Path(__file__).parent
    imports: dict[str, set[str]] = {}
    bodies = []
    for part in PARTS:
        text = (folder / f"{part}.py").read_text(encoding="utf-8")
        bodies.append(_body(text, imports))
    return render("verify.py.j2", imports=_sorted(imports), bodies=bodies)


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
