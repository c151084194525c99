"""``python -m ms_port.verify.mindspore_side JOB``: run a port as the folder JOB says, and write what it gives there.

JOB/job.json says what; arrays go to JOB/MODE/*.npy as they come; JOB/result.json is written anew after each mode, so
that a crash leaves what came before it. Imports mindspore: always a process of its own.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2"  # on AVX-512 processors oneDNN takes a reference kernel for most convolutions
os.environ.setdefault("GLOG_v", "3")

import mindspore as ms
import numpy as np

from ms_port.verify.alone import run_alone
from ms_port.verify.built import Built, constructions
from ms_port.verify.desk import Desk
from ms_port.verify.observe import observe, observe_gradient
from ms_port.verify.probes import probing
from ms_port.verify.sites import HELPER
from ms_port.verify.training import train


def main(job: Path) -> None:
    """Run all modes of the job."""
    with suppress(OSError):  # where memory ends, this process is the one to go: the other tells the person
        Path("/proc/self/oom_score_adj").write_text("900")
    spec = _told(job)
    if spec is None:
        return
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_device(spec["device"])
    ms.set_seed(1)
    start = time.perf_counter()
    stage = job / "stage"
    stage.write_text("importing the port")
    sys.path.insert(0, spec["out"])
    package = importlib.import_module(spec["package"])
    stage.write_text("build_model")
    own = str(Path(spec["out"]) / spec["package"])
    with constructions(ms.nn.Cell, lambda file: file.startswith(own)) as table:
        cell = package.build_model()
    stage.write_text("load_weights")
    package.load_weights(cell, str(job / "weights.safetensors"))
    result: dict[str, Any] = {"modes": {}, "seconds": {"build": time.perf_counter() - start}}
    result["built"] = built(cell, table, spec["out"]) if spec.get("built") else {}
    (job / "result.json").write_text(json.dumps(result))
    for mode in spec["modes"]:
        stage.write_text(mode["mode"])
        folder = job / mode["mode"]
        folder.mkdir(exist_ok=True)

        def keep(kind: str, name: str, call: int, leaf: int, array: Any, folder: Path = folder) -> None:
            np.save(folder / f"{kind}.{name}.{call}.{leaf}.npy", array)

        with probing(cell, mode.get("probes", {})) as probed:
            report = _look(cell, mode, spec, job, keep)
        if probed:
            report["probed"] = probed
        result["modes"][mode["mode"]] = report
        if sites := sys.modules.get(f"{spec['package']}.{HELPER}"):
            np.savez(folder / "sites.npz", *(a for _, a in sites.SEEN), sites=np.array([s for s, _ in sites.SEEN]))
            sites.SEEN.clear()
        result["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        (job / "result.json").write_text(json.dumps(result))


def built(cell: ms.nn.Cell, table: Mapping[int, tuple[Any, Built]], out: str) -> dict[str, Any]:
    """How each cell was made, by its name: class, place relative to OUT, arguments (None where some are no data)."""
    found = {}
    for name, child in cell.cells_and_names():
        if id(child) in table:
            made = table[id(child)][1]
            file = os.path.relpath(made.file, out)
            cls = type(child)
            known = getattr(ms.nn, cls.__name__, None) is cls
            arguments = made.arguments if made.plain else None
            found[name] = {"class": cls.__name__, "known": known, "file": file, "line": made.line, "with": arguments}
    return found


def _told(job: Path) -> dict[str, Any] | None:
    """Wait for what there is to do; None once the other side is gone."""
    parent = os.getppid()
    while not (job / "job.json").exists():
        if os.getppid() != parent:
            return None
        time.sleep(0.01)
    spec: dict[str, Any] = json.loads((job / "job.json").read_text())
    return spec


def _look(cell: Any, mode: Mapping[str, Any], spec: Mapping[str, Any], job: Path, keep: Any) -> dict[str, Any]:
    """Run one mode: cells alone, the forward pass, gradients of some batches, or steps of training."""
    if "alone" in mode:
        cells = [{**entry, "inputs": load_inputs(entry["inputs"], job)} for entry in mode["alone"]]

        def begin(name: str) -> None:
            (job / "stage").write_text(f"alone {name}")

        return dict(run_alone(cell, cells, mode["train"], mode["gradient"], begin))
    if "batches" not in mode:
        return observe(cell, mode, load_inputs(spec["inputs"], job), spec["mapped"], keep)
    batches = [
        {
            "inputs": load_inputs(batch["inputs"], job),
            "cotangents": [np.load(job / file) for file in batch.get("cotangents") or ()],
        }
        for batch in mode["batches"]
    ]
    if "steps" in mode:
        return train(cell, mode, batches, spec["mapped"], Desk(job / mode["mode"]))
    return observe_gradient(cell, mode, batches, spec["mapped"], keep)


def load_inputs(skeleton: Mapping[str, Any], job: Path) -> dict[str, Any]:
    """Named inputs from their skeleton, where ``{"tensor": FILE}`` stands for a tensor."""

    def load(value: Any) -> Any:
        if isinstance(value, dict) and "tensor" in value:
            return ms.Tensor(np.load(job / value["tensor"]))
        if isinstance(value, dict) and "tuple" in value:
            return tuple(map(load, value["tuple"]))
        if isinstance(value, dict):
            return {k: load(v) for k, v in value.items()}
        return [load(v) for v in value] if isinstance(value, list) else value

    return {name: load(value) for name, value in skeleton.items()}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
