"""``report/certificate.json``: what was compared on which machine, at what tolerance, and what was not."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from ms_port.verify.judge import FLOOR, MULTIPLE, SMALL, ZERO
from ms_port.verify.port import Port
from ms_port.verify.session import OTHERS
from ms_port.verify.torch_updates import BOUND
from ms_port.verify.train_level import BATCHES
from ms_port.verify.verdict import LEVELS, Level, Verdict

SCHEMA = 1
FILE = Path("report", "certificate.json")


def write_certificate(port: Port, verdict: Verdict, seed: int, loss: str | None) -> None:
    """Write it anew: what devices without torch added is of another verification."""
    hashes = {
        "weights.safetensors": _digest(port.out / "weights.safetensors"),
        "torch sources": dict(port.json.get("sources") or {}),
        "port": {str(f.relative_to(port.out)): _digest(f) for f in _sources(port)},
    }
    run = {
        "by": "ms-port verify",
        "device": "CPU",
        "precision": "float32",
        "versions": {name: _version(name) for name in ("torch", "mindspore", "numpy")},
        "platform": {"system": platform.platform(), "processor": _processor(), "python": platform.python_version()},
        "levels": {name: level_json(getattr(verdict, name)) for name in LEVELS},
    }
    content = {
        "schema": SCHEMA,
        "package": port.package,
        "ms_port": _version("ms-port"),
        "truth": "torch in float64",
        "tolerance": tolerances(),
        "seeds": {"weights": None if port.trained else seed, "inputs": seed, "draws and projections": "by name"},
        "loss": loss or "a seeded random projection of all float outputs",
        "sha256": hashes,
        "runs": [run],
    }
    file = port.out / FILE
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def tolerances() -> dict[str, Any]:
    """The rule in numbers; docs/verification.md derives it."""
    return {
        "multiple of torch's own float32 error": MULTIPLE,
        "floor in ulp of the tensor's largest value": FLOOR,
        "a gradient is zero below this share of the largest one": ZERO,
        "and the port's must then be below this share": SMALL,
        "an update of AdamW is bounded by so many learning rates where its gradient is rounding": BOUND,
        "batches of the gradient level": 1 + OTHERS,
        "batches of the train level": BATCHES,
    }


def level_json(level: Level) -> dict[str, Any]:
    """One level; what was not run says why."""
    if level.status == "not run":
        return {"status": level.status, "why": "; ".join(level.notes) or "not asked for"}
    found: dict[str, Any] = {
        "status": level.status,
        "modes": dict(level.modes),
        "compared": level.compared,
        "max_error": _finite(level.max_error),
        "truth_error": _finite(level.truth_error),
        "not_proven": list(level.not_proven),
        "kinks": list(level.kinks),
        "notes": list(level.notes),
    }
    if level.message:
        found |= {"message": level.message, "where": level.where, "crashed_in": level.crashed_in}
    if level.first is not None:
        found["first"] = {"path": level.first.path, "why": level.first.why}
    return found


def _finite(value: float) -> float | None:
    return value if abs(value) < float("inf") else None


def _sources(port: Port) -> Iterable[Path]:
    training = [port.out / name for name in ("train.py", "optimization.py", "config.yaml")]
    files = [*(port.out / port.package).glob("*.py"), *training]
    return sorted(file for file in files if file.is_file())


def _digest(file: Path) -> str | None:
    if not file.is_file():
        return None
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def read_certificate(out: Path) -> Mapping[str, Any]:
    """The certificate of a port; empty where there is none."""
    try:
        found: Mapping[str, Any] = json.loads((out / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found
