"""Translate a torch module inside a test, and run what came out in GRAPH_MODE in one process for many."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ms_port.capture import Inputs, record
from ms_port.emit import Banner, EmittedFiles, write_package
from ms_port.ir.program import Program
from ms_port.opmap import OpMap
from ms_port.pipeline import Options, translate
from ms_port.weights import convert, module_state, write_safetensors

BANNER = Banner("0", "test", "0", "0", "    ms-port convert test")


@dataclass(frozen=True)
class Ported:
    """A translated module: the program, the text of model.py, the recorded model."""

    program: Program
    source: str
    model: torch.nn.Module
    emitted: EmittedFiles
    folder: Path

    @property
    def rules(self) -> set[str]:
        """Codes of the flags that a person must look at."""
        return {f.rule for f in self.program.flags if f.open}


def port(target: Any, args: tuple[Any, ...], out: Path, name: str = "net", kwargs: dict[str, Any] | None = None,
         arguments: dict[str, Any] | None = None, opmap: OpMap | None = None) -> Ported:  # fmt: skip
    """Record, translate and write a module; the weights are those of the recorded model with noise."""
    opmap = opmap or OpMap.load()
    recording = record(target, Inputs(args, kwargs or {}), arguments=arguments)
    program = translate(recording, opmap, Options(name))
    emitted = write_package(program, opmap, out, BANNER)
    model = recording.model
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.add_(torch.randn(tensor.shape, generator=torch.Generator().manual_seed(tensor.numel())) * 0.1)
    rows = [
        {"torch": r.torch, "mindspore": r.mindspore, "shape": list(r.shape), "rule": r.rule} for r in emitted.parameters
    ]
    write_safetensors(out / name / "weights.safetensors", convert(module_state(model, rows), rows))
    return Ported(program, (out / name / "model.py").read_text(), model, emitted, out)


RUNNER = """
import importlib, sys, traceback
import numpy as np, mindspore as ms
ms.set_context(mode=ms.GRAPH_MODE)
folder = sys.argv[1]
sys.path.insert(0, folder)
def flat(y):
    if isinstance(y, ms.Tensor): return [y.asnumpy()]
    if isinstance(y, dict): return [t for v in y.values() for t in flat(v)]
    if isinstance(y, (tuple, list)): return [t for v in y for t in flat(v)]
    return []
for name in sys.argv[2:]:
    try:
        port = importlib.import_module(name)
        data = dict(np.load(f"{folder}/{name}/inputs.npz"))
        result = {}
        for mode in ("eval", "train"):
            cell = port.build_model()
            port.load_weights(cell, f"{folder}/{name}/weights.safetensors")
            cell.set_train(mode == "train")
            args = [ms.Tensor(data[k]) for k in sorted(data, key=int)]
            out = cell(*args)
            result.update({f"{mode}{i}": a for i, a in enumerate(flat(out))})
            # torch's gradient is that of the first call, which may change buffers
            cell = port.build_model()
            port.load_weights(cell, f"{folder}/{name}/weights.safetensors")
            cell.set_train(mode == "train")
            params = list(cell.trainable_params())
            # a seeded projection: the plain sum has no gradient through a LayerNorm
            projections = tuple(ms.Tensor(np.cos(np.arange(a.size)).reshape(a.shape), ms.float32) for a in flat(out))
            floats = tuple(i for i, a in enumerate(args) if a.dtype == ms.float32)
            def loss(*inputs):
                y = cell(*inputs)
                total = 0.0
                if isinstance(y, ms.Tensor): y = (y,)
                elif isinstance(y, dict): y = list(y.values())
                for k in range(len(y)):
                    total = total + (y[k] * projections[k]).sum()
                return total
            if params:
                grads = ms.grad(loss, None, params)(*args)
                result.update({f"{mode}.grad.{p.name}": g.asnumpy() for p, g in zip(params, grads)})
        np.savez(f"{folder}/{name}/outputs.npz", **result)
    except Exception:
        open(f"{folder}/{name}/error.txt", "w").write(traceback.format_exc())
"""


def save_inputs(ported: Ported, name: str, args: tuple[torch.Tensor, ...]) -> None:
    """The arguments for the MindSpore side."""
    np.savez(ported.folder / name / "inputs.npz", **{str(i): a.numpy() for i, a in enumerate(args)})


def run_all(folder: Path, names: list[str]) -> None:
    """Run the ports in GRAPH_MODE, forward and gradient, in both modes, in one process."""
    script = folder / "runner.py"
    script.write_text(RUNNER)
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "GLOG_v": "3"}
    command = [sys.executable, str(script), str(folder), *names]
    subprocess.run(command, env=environment, check=False, timeout=500, cwd=folder)


def outcome(folder: Path, name: str) -> dict[str, np.ndarray]:
    """What a port computed; an AssertionError with its traceback where it failed."""
    error = folder / name / "error.txt"
    assert not error.exists(), error.read_text()[-1800:]
    return dict(np.load(folder / name / "outputs.npz"))


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors of an output in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in tensors(v)]
    if isinstance(value, tuple | list):
        return [t for v in value for t in tensors(v)]
    if is_dataclass(value):
        return [t for f in fields(value) for t in tensors(getattr(value, f.name))]
    return []
