"""Compare the port with ``report/reference.safetensors``, without torch. The end of every OUT/verify.py."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import platform
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from ms_port.verify.judge import SMALL, Array, Comparison, Truth, Update, compare, compare_update
from ms_port.verify.noise import perturb
from ms_port.verify.observe import observe, observe_gradient

LEVELS = ("forward", "gradient", "step")
PRECISIONS = {"float32": 1.0, "hf32": 2.0**12, "float16": 2.0**13, "bfloat16": 2.0**16}
"""How much coarser each rounds than float32: every error, torch's own and the floor, grows in proportion."""


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


class Kept:
    """The elements that the reference has of what the port gives; the rest is not kept."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.rows = {(r["kind"], r["cell"], r["call"], r["leaf"]): r for r in rows}
        self.found: dict[tuple[Any, ...], Array | None] = {}

    def __call__(self, kind: str, name: str, call: int, leaf: int, array: Array) -> None:
        place = kind, name, call, leaf
        row = self.rows.get(place)
        if row is not None:
            fits = list(array.shape) == row["shape"] or "zero" in row
            self.found[place] = array.reshape(-1)[:: row["step"]].copy() if fits else None


def compare_mode(
    cell: Any, mode: Mapping[str, Any], about: Mapping[str, Any], arrays: Mapping[str, Array], options: Any
) -> Iterator[tuple[str, Comparison]]:
    """Run one mode and compare what the reference holds of it: level and comparison, in the order of the reference."""
    kept, inputs = Kept(mode["rows"]), rebuild(about["inputs"], arrays)
    if "projected" in mode:
        batch = {"inputs": inputs, "cotangents": [arrays[key] for key in mode["cotangents"]]}
        report = observe_gradient(cell, mode, [batch], about["mapped"], kept)
    else:
        report = observe(cell, mode, inputs, about["mapped"], kept)
    if report["unanswered"]:
        raise ValueError(f"nothing in the port answers the random draws of {', '.join(report['unanswered'])}")
    for row in mode["rows"]:
        place = row["kind"], row["cell"], row["call"], row["leaf"]
        if place not in kept.found and row["kind"] == "cell" and not report["cells"].get(row["cell"]):
            continue  # not run as a cell of its own here
        kernels = row.get("on_cpu", 1.0) if options.device == "CPU" else 1.0
        yield row["level"], compare_row(row, kept.found.get(place), arrays, PRECISIONS[options.precision] * kernels)


def compare_row(row: Mapping[str, Any], got: Array | None, arrays: Mapping[str, Array], tolerance: float) -> Comparison:
    """Compare one sample by the rule of its kind."""
    name = row["name"]
    if "zero" in row:
        size = float(np.abs(got).max(initial=0.0)) / row["zero"] if got is not None else float("inf")
        return Comparison(name, size, 0.0, 0.0, size <= SMALL * tolerance, "" if size <= SMALL else "should be zero")
    if "bound" not in row:
        return compare(name, got, Truth(arrays[row["key"]], row["error"], row["scale"]), tolerance)
    values, allowed = arrays[row["key"]], arrays[f"{row['key']}.tolerance"].astype(np.float64) * tolerance
    return compare_update(name, got, Update(values, allowed, row["error"], row["scale"], row["bound"] * tolerance))


def show(level: str, comparisons: Sequence[Comparison]) -> str:
    """Print the outcome of a level; returns its status."""
    wrong = [c for c in comparisons if not c.equal]
    worst = max(comparisons, key=lambda c: c.error)
    counts = f"{len(comparisons)} tensors compared, {len(wrong)} differ"
    print(f"{level}: {counts}; largest error {worst.error:.1e} ({worst.name})")
    for c in wrong[:5]:
        print(f"  {c.name}: error {c.error:.1e}, torch's own {c.truth_error:.1e} {c.note}")
    if wrong:
        order = "from the outputs backwards" if level == "gradient" else "in forward order"
        print(f"  first {order}: {wrong[0].name}")
    return "not equal" if wrong else "equal"


def level_of(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """What the certificate says of a level."""
    wrong = [c for c in comparisons if not c.equal]
    errors = [c.error for c in comparisons if np.isfinite(c.error)]
    found = {"compared": len(comparisons), "max_error": max(errors, default=0.0)}
    return {"status": "not equal" if wrong else "equal", **found, "first": wrong[0].name if wrong else None}


def prepare(cell: Any, precision: str, device: str) -> None:
    """Set what the device computes in. On Ascend convolutions are less than float32 unless told otherwise."""
    if device == "Ascend":
        choice = ms.device_context.ascend.op_precision
        choice.conv_allow_hf32(precision != "float32")
        choice.matmul_allow_hf32(precision != "float32")
        choice.precision_mode("must_keep_origin_dtype")
    if precision in ("float16", "bfloat16"):
        cell.to_float(getattr(ms, precision))


def run_levels(about: Mapping[str, Any], arrays: Mapping[str, Array], package: Any, options: Any) -> dict[str, Any]:
    """Run all modes of the reference; what the certificate says of each level. An error of the device is a verdict."""
    by_level: dict[str, list[Comparison]] = {level: [] for level in LEVELS[: LEVELS.index(options.level) + 1]}
    crashed: dict[str, str] = {}
    stored = {name.removeprefix("weight."): a for name, a in arrays.items() if name.startswith("weight.")}
    with tempfile.TemporaryDirectory() as folder:
        save_file(weights_of(options.weights, about, stored), f"{folder}/weights.safetensors")
        for mode in about["modes"]:
            levels = [level for level in dict.fromkeys(r["level"] for r in mode["rows"]) if level in by_level]
            if not levels:
                continue
            cell = package.build_model()
            package.load_weights(cell, f"{folder}/weights.safetensors")
            prepare(cell, options.precision, options.device)
            mode = {**mode, "cast": options.precision in ("float16", "bfloat16")}
            if "updates" in mode and "step" not in by_level:
                mode["updates"] = []
            try:
                for level, comparison in compare_mode(cell, mode, about, arrays, options):
                    if level in by_level:
                        by_level[level].append(comparison)
            except (RuntimeError, TypeError, AttributeError, NameError, LookupError) as error:  # what compiling raises
                text = " ".join(str(error).split())[:300]
                print(f"{mode['mode']}: {type(error).__name__}: {text}", file=sys.stderr)
                crashed.update(dict.fromkeys(levels, text))
    found: dict[str, Any] = {}
    for level, comparisons in by_level.items():
        if level in crashed:
            found[level] = {"status": "crashed", "message": crashed[level]}
        elif comparisons:
            show(level, comparisons)
            found[level] = level_of(comparisons)
        else:
            found[level] = {"status": "not run", "why": "the reference holds nothing of it"}
    for level in LEVELS:
        found.setdefault(level, {"status": "not run", "why": "not asked for"})
    found["train"] = {"status": "not run", "why": "needs torch on the other side of each step"}
    return found


def certify(file: Path, options: Any, about: Mapping[str, Any], levels: Mapping[str, Any]) -> None:
    """Add this run to the certificate, in place of an earlier one on the same device in the same precision."""
    if not file.is_file():
        print(f"there is no {file}, so nothing was certified", file=sys.stderr)
        return
    content = json.loads(file.read_text(encoding="utf-8"))
    run = {
        "by": "verify.py",
        "device": options.device,
        "precision": options.precision,
        "tolerance": f"{PRECISIONS[options.precision]:g} times that of float32",
        "reference": about["torch"],
        "versions": {"mindspore": ms.__version__, "numpy": np.__version__},
        "platform": {
            "system": platform.platform(),
            "processor": platform.machine(),
            "python": platform.python_version(),
        },
        "weights": about["weights"],
        "levels": levels,
    }
    same = ("by", "device", "precision")
    others = [r for r in content["runs"] if any(r[key] != run[key] for key in same)]
    content["runs"] = [*others, run]
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"added to {file}")


def main(arguments: Sequence[str] | None = None, here: Path | None = None) -> int:
    """Run the comparison; returns 0 (equal), 1 (a level was not run), 3 (not equal) or 2 (can't be compared)."""
    here = here or Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Compare this port with what torch computed, without torch.")
    parser.add_argument("--device", default="CPU", choices=("CPU", "Ascend", "GPU"))
    parser.add_argument("--level", choices=LEVELS, help="the highest to run; else all that the reference holds")
    parser.add_argument("--precision", default="float32", choices=tuple(PRECISIONS), help="what the device computes in")
    parser.add_argument("--reference", type=Path, default=here / "report" / "reference.safetensors")
    parser.add_argument("--weights", type=Path, default=here / "weights.safetensors")
    options = parser.parse_args(arguments)
    for file in (options.reference, options.weights):
        if not file.is_file():
            print(f"there is no {file}: ms-port verify writes the reference where torch is", file=sys.stderr)
            return 2
    with safe_open(str(options.reference), "np") as file:
        about = json.loads(file.metadata()["ms_port"])
    held = {row["level"] for mode in about["modes"] for row in mode["rows"]}
    options.level = options.level or max(held, key=LEVELS.index)
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        ms.set_device(options.device)
    except (RuntimeError, ValueError) as error:  # MindSpore adds its own stack to the message
        print(f"this machine or this MindSpore has no {options.device}: {str(error).splitlines()[0]}", file=sys.stderr)
        return 2
    sys.path.insert(0, str(here))
    try:
        levels = run_levels(about, load_file(options.reference), importlib.import_module(about["package"]), options)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    certify(here / "report" / "certificate.json", options, about, levels)
    statuses = [
        found["status"] for level, found in levels.items() if level in LEVELS[: LEVELS.index(options.level) + 1]
    ]
    equal = all(status in ("equal", "not run") for status in statuses)
    place = f"on {options.device} in {options.precision}, MindSpore {ms.__version__}"
    print(f"{'equal' if equal else 'NOT equal'} to torch {about['torch']} {place}")
    if not equal:
        return 3
    return 0 if all(status == "equal" for status in statuses) else 1
