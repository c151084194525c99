"""The first half: every sample captured, translated and written as a package, with what torch computes beside it."""

from __future__ import annotations

import importlib.util
import pickle
import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.samples.torch_side import Side, evaluate
from benchmarks.samples.written import Sample
from ms_port.capture import Inputs, record
from ms_port.emit import Banner, write_package
from ms_port.errors import BadInput
from ms_port.opmap import OpMap
from ms_port.opmap.truth import perturb
from ms_port.pipeline import Options, translate
from ms_port.weights import convert, module_state, write_safetensors
from ms_port.weights.convert import apply_rule

BANNER = Banner("0", "a sample of PyTorch's tests", torch.__version__, "2.10", "    python -m benchmarks.samples")


@dataclass
class Converted:
    """A line of convert.jsonl. ``status``: ready, flagged, skipped (torch's side has nothing to compare) or crash."""

    key: str
    api: str
    status: str
    reason: str = ""
    rules: tuple[str, ...] = ()
    source: str = ""
    flags: tuple[str, ...] = ()
    decomposed: bool = False
    commit: str = ""
    """Of ms-port, that converted it."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def convert_sample(sample: Sample, op_map: OpMap, folder: Path) -> Converted:
    """Write the sample's port into ``folder/PACKAGE`` with truth.pkl. Never raises for what the sample does."""
    made = Converted(sample.key, sample.api, "ready", source=sample.source.split("nn.Module):\n", 1)[1])
    training = sample.key.startswith("module-train:")
    try:
        cls = _load(sample, folder)
        torch.manual_seed(0)
        module = cls().train(training)
        settings = {n: b.clone() for n, b in module.named_buffers() if "running" not in n}
        perturb(module, 0)
        for name, buffer in module.named_buffers():  # class weights and the like are arguments, no state
            if name in settings:
                buffer.copy_(settings[name])
        single = evaluate(module, sample.inputs, False, sample.differentiable)
        again = evaluate(module, sample.inputs, False, False, seed=1)
        truth = evaluate(module, sample.inputs, True, sample.differentiable)
        random = not _same(single, again)
        if sample.direct is not None and not random and not _means_the_same(sample, single):
            made.status, made.reason = "skipped", "PyTorch's test calls something else"
            return made
    except Exception as error:
        made.status, made.reason = "skipped", f"torch: {type(error).__name__}: {str(error)[:200]}"
        return made
    try:
        rows = _port(sample, cls, module, op_map, folder, made)
    except Exception as error:
        made.status, made.reason = "crash", f"{type(error).__name__}: {str(error)[:300]}"
        if isinstance(error, BadInput):
            made.reason = f"refused: {made.reason}"
        return made
    if made.status == "ready":
        _keep(sample, made, folder, rows, truth, single, random)
    return made


def _load(sample: Sample, folder: Path) -> Any:
    """The class of the sample, from a file (ms-port reads source)."""
    (folder / sample.package).mkdir(parents=True, exist_ok=True)
    file = folder / sample.package / "torch_source.py"
    file.write_text(sample.source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"source_{sample.package}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.Sample


Rows = list[dict[str, Any]]


def _port(sample: Sample, cls: Any, module: Any, op_map: OpMap, folder: Path, made: Converted) -> Rows:
    """Write the package and its weights; what is flagged is noted. The rows of its parameters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recording = record(cls, Inputs(tuple(t.clone() for t in sample.inputs)))
        program = translate(recording, op_map, Options(sample.package))
    own = [f for f in program.flags if f.open]
    made.rules = tuple(sorted({f.rule for f in own}))
    made.flags = tuple(f"{f.rule} {f.message}" for f in own)
    made.decomposed = any(f.rule == "MSP106" for f in program.flags)
    errors = [f for f in own if f.severity == "error" or f.rule in ("MSP102", "MSP110")]
    emitted = write_package(program, op_map, folder, BANNER)
    if errors:
        made.status, made.reason = "flagged", "; ".join(f"{f.rule} {f.message}" for f in errors)[:400]
        return []
    rows = [
        {"torch": r.torch, "mindspore": r.mindspore, "shape": list(r.shape), "rule": r.rule} for r in emitted.parameters
    ]
    weights = convert(module_state(module, rows), rows)
    write_safetensors(folder / sample.package / "weights.safetensors", weights)
    return rows


def _keep(sample: Sample, made: Converted, folder: Path, rows: Rows, truth: Side, single: Side, random: bool) -> None:
    """Write truth.pkl: what the port is given and must give."""
    rules = {row["torch"]: row for row in rows}
    training = sample.key.startswith("module-train:")

    def carried(side: dict[str, Any]) -> dict[str, Any]:
        """Arrays by the port's names."""
        return {
            str(rules[n]["mindspore"]): apply_rule(rules[n]["rule"], torch.from_numpy(np.asarray(a))).numpy()
            for n, a in side.items()
            if n in rules and rules[n]["mindspore"] and rules[n]["rule"] not in ("tied", "drop")
        }

    if any(t.dtype is torch.bfloat16 for t in sample.inputs):  # numpy has no such type
        made.status, made.reason = "skipped", "bfloat16 inputs"
        return
    kept: dict[str, Any] = {
        "key": made.key,
        "package": sample.package,
        "inputs": [t.numpy() for t in sample.inputs],
        "training": training,
        "random": random,
        "paths": truth.paths,
        "outputs": list(zip(truth.outputs, single.outputs, strict=True)),
        "projections": truth.projections,
        "inputs_gradient": {i: (truth.inputs[i], single.inputs[i]) for i in truth.inputs if i in single.inputs},
        "parameters": _zipped(carried(truth.parameters), carried(single.parameters)),
        "buffers": _zipped(carried(truth.buffers), carried(single.buffers)) if training else {},
    }
    (folder / sample.package / "truth.pkl").write_bytes(pickle.dumps(kept))


def _zipped(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {name: (one[name], other[name]) for name in one if name in other}


def _same(one: Side, other: Side) -> bool:
    if len(one.outputs) != len(other.outputs):
        return False
    pairs = zip(one.outputs, other.outputs, strict=True)
    return all(
        np.array_equal(a, b, equal_nan=a.dtype.kind in "fc") if isinstance(a, np.ndarray) else a == b for a, b in pairs
    )


def _means_the_same(sample: Sample, single: Side) -> bool:
    from benchmarks.samples.torch_side import _numeric, leaves_of

    assert sample.direct is not None
    direct = [_numeric(leaf) for _, leaf in leaves_of(sample.direct())]
    return _same(Side(outputs=direct), Side(outputs=single.outputs)) if single.outputs else True
