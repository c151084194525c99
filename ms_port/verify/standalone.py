"""Compare the port with ``report/reference.safetensors``, without torch. The end of every OUT/verify.py."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from ms_port.verify.judge import Array, Comparison, Truth, compare
from ms_port.verify.noise import perturb
from ms_port.verify.observe import observe


def weights_of(file: Path, about: Mapping[str, Any], stored: Mapping[str, Array]) -> dict[str, Array]:
    """The weights that the reference was made with: those of ``file`` with its noise. Raises ValueError for others."""
    weights: dict[str, Array] = load_file(file)
    if about["noise"] is not None:
        kinds = about["kinds"]
        weights = {name: perturb(name, array, kinds[name], about["noise"]) for name, array in weights.items()}
    weights.update(stored)
    if (found := digest(weights)) != about["weights"]:
        raise ValueError(f"{file} is not what was verified (sha256 {found[:12]}, expected {about['weights'][:12]})")
    return weights


def digest(weights: Mapping[str, Array]) -> str:
    """SHA-256 of all values by name."""
    total = hashlib.sha256()
    for name in sorted(weights):
        total.update(name.encode())
        total.update(np.ascontiguousarray(weights[name]).tobytes())
    return total.hexdigest()


def rebuild(skeleton: Any, arrays: Mapping[str, Array]) -> Any:
    """Inputs from their skeleton: ``{"tensor": KEY}`` stands for a tensor, ``{"tuple": [...]}`` for a tuple."""
    if isinstance(skeleton, dict) and "tensor" in skeleton:
        return ms.Tensor(arrays[skeleton["tensor"]])
    if isinstance(skeleton, dict) and "tuple" in skeleton:
        return tuple(rebuild(item, arrays) for item in skeleton["tuple"])
    if isinstance(skeleton, dict):
        return {key: rebuild(item, arrays) for key, item in skeleton.items()}
    return [rebuild(item, arrays) for item in skeleton] if isinstance(skeleton, list) else skeleton


def compare_mode(
    cell: Any, mode: Mapping[str, Any], about: Mapping[str, Any], arrays: Mapping[str, Array], tolerance: float
) -> Iterator[Comparison]:
    """Run one mode and compare what the reference holds of it, in forward order."""
    got: dict[tuple[Any, ...], Array] = {}

    def keep(kind: str, name: str, call: int, leaf: int, array: Array) -> None:
        got[kind, name, call, leaf] = array

    report = observe(cell, mode, rebuild(about["inputs"], arrays), about["mapped"], keep)
    if report["unanswered"]:
        raise ValueError(f"nothing in the port answers the random draws of {', '.join(report['unanswered'])}")
    for row in mode["rows"]:
        array = got.get((row["kind"], row["cell"], row["call"], row["leaf"]))
        if array is not None and list(array.shape) == row["shape"]:
            array = array.reshape(-1)[:: row["step"]]
        elif array is None and row["kind"] == "cell" and not report["cells"].get(row["cell"]):
            continue  # not run as a cell of its own here
        else:
            array = None
        yield compare(row["name"], array, Truth(arrays[row["key"]], row["error"], row["scale"]), tolerance)


def show(mode: str, comparisons: Sequence[Comparison]) -> bool:
    """Print the outcome of a mode; returns whether all is equal."""
    wrong = [c for c in comparisons if not c.equal]
    worst = max(comparisons, key=lambda c: c.error)
    counts = f"{len(comparisons)} tensors compared, {len(wrong)} differ"
    print(f"{mode}: {counts}; largest error {worst.error:.1e} ({worst.name})")
    for c in wrong[:5]:
        print(f"  {c.name}: error {c.error:.1e}, torch's own {c.truth_error:.1e} {c.note}")
    if wrong:
        print(f"  first in forward order: {wrong[0].name}")
    return not wrong


def main(arguments: Sequence[str] | None = None, here: Path | None = None) -> int:
    """Run the comparison; returns 0 (equal), 3 (not equal) or 2 (can't be compared)."""
    here = here or Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Compare this port with what torch computed, without torch.")
    parser.add_argument("--device", default="CPU", choices=("CPU", "Ascend", "GPU"))
    parser.add_argument("--reference", type=Path, default=here / "report" / "reference.safetensors")
    parser.add_argument("--weights", type=Path, default=here / "weights.safetensors")
    parser.add_argument("--tolerance", type=float, default=1.0, help="multiply what counts as rounding (1: float32)")
    options = parser.parse_args(arguments)
    for file in (options.reference, options.weights):
        if not file.is_file():
            print(f"there is no {file}: ms-port verify writes the reference where torch is", file=sys.stderr)
            return 2
    with safe_open(str(options.reference), "np") as file:
        about = json.loads(file.metadata()["ms_port"])
    arrays = load_file(options.reference)
    stored = {name.removeprefix("weight."): a for name, a in arrays.items() if name.startswith("weight.")}
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_device(options.device)
    sys.path.insert(0, str(here))
    package = importlib.import_module(about["package"])
    equal = True
    with tempfile.TemporaryDirectory() as folder:
        try:
            save_file(weights_of(options.weights, about, stored), f"{folder}/weights.safetensors")
            for mode in about["modes"]:
                cell = package.build_model()
                package.load_weights(cell, f"{folder}/weights.safetensors")
                equal &= show(mode["mode"], list(compare_mode(cell, mode, about, arrays, options.tolerance)))
        except ValueError as error:
            print(error, file=sys.stderr)
            return 2
    print(
        f"{'equal' if equal else 'NOT equal'} to torch {about['torch']} on {options.device}, MindSpore {ms.__version__}"
    )
    return 0 if equal else 3
