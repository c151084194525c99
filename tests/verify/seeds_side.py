"""``python seeds_side.py JOB``: one port on many seeds in one process, each graph compiled once.

``ms_port.verify`` compiles anew for every run. Here taps and players stay in while weights and inputs change.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2"

import mindspore as ms
import numpy as np
from mindspore import Tensor
from safetensors.numpy import load_file

from ms_port.verify.device import EMPTY, ProjectedLoss, Tap, bind, leaves, put, taps, to_numpy
from ms_port.verify.mindspore_side import load_inputs
from ms_port.verify.noise import numbers
from ms_port.verify.players import playing


def main(job: Path) -> None:
    spec = json.loads((job / "job.json").read_text())
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_device("CPU")
    sys.path.insert(0, spec["out"])
    package = importlib.import_module(spec["package"])
    for mode in spec["modes"]:
        cell = package.build_model()
        with ExitStack() as stack:
            draws = stack.enter_context(playing(cell, mode["draws"], spec["mapped"]))
            assert not draws["unanswered"], draws
            placed = stack.enter_context(taps(cell, mode["taps"], stride=1, inputs=False))
            cell.set_train(mode["train"])
            for seed in spec["seeds"]:
                folder = job / str(seed) / mode["mode"]
                folder.mkdir()
                package.load_weights(cell, str(job / str(seed) / "weights.safetensors"))
                rewind(cell, placed)
                inputs = load_inputs(spec["inputs"], job / str(seed))
                out = [to_numpy(t) for t in leaves(cell(*bind(cell, inputs)))]
                report = {**draws, "outputs": len(out), "cells": {n: t.tensors() for n, t in placed.items()}}
                for name, tap in placed.items():
                    for call, leaf, array in tap.read():
                        np.save(folder / f"cell.{name}.{call}.{leaf}.npy", array)
                for i, array in enumerate(out):
                    np.save(folder / f"output..0.{i}.npy", array)
                parameters = cell.parameters_dict()
                for name in mode["statistics"]:
                    np.save(folder / f"statistic.{name}.0.0.npy", to_numpy(parameters[name]))
                (folder / "report.json").write_text(json.dumps(report))
    gradients(package, spec, job)


def rewind(cell: Any, placed: dict[str, Tap]) -> None:
    """Players and taps count their calls: back to the first."""
    for tap in placed.values():
        for _, _, slot, row in tap._places:
            array = slot.asnumpy()
            slot.set_data(Tensor(np.full(array.shape, EMPTY[str(array.dtype)], array.dtype)))
        tapped = vars(tap.cell)
        counters = [*tapped.get("tap_count", ()), *(row for _, _, row in tapped.get("tap_rows", ()))]
        for counter in counters:
            counter.set_data(Tensor(np.zeros(counter.shape, np.int32)))
    for _, child in cell.cells_and_names():
        for counter in vars(child).get("play_count", ()):
            counter.set_data(Tensor(0, ms.int32))


def gradients(package: Any, spec: Any, job: Path) -> None:
    """The gradient of the projected outputs by every parameter, as ``observe_gradient`` has it."""
    mode = spec["modes"][-1]
    cell = package.build_model()
    with playing(cell, mode["draws"], spec["mapped"]):
        projections = tuple(Tensor(numbers("projection", i, "normal", s)) for i, s in enumerate(spec["projected"]))
        loss = ProjectedLoss(cell, [False] * len(projections))
        loss.set_train(mode["train"])
        parameters = list(cell.trainable_params())
        differentiate = ms.value_and_grad(loss, None, weights=parameters)
        for seed in spec["seeds"]:
            folder = job / str(seed) / "gradient"
            folder.mkdir()
            weights = load_file(job / str(seed) / "weights.safetensors")
            for name, parameter in cell.parameters_dict().items():
                put(parameter, weights[name])  # the graph would not see what load_weights sets after its first run
            rewind(cell, {})
            _, found = differentiate(*projections, *bind(cell, load_inputs(spec["inputs"], job / str(seed))))
            for parameter, gradient in zip(parameters, found, strict=True):
                np.save(folder / f"gradient.{parameter.name}.0.0.npy", to_numpy(gradient))
            (folder / "report.json").write_text(json.dumps({"trained": [p.name for p in parameters]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
