"""The end of a scan: the baseline to record first, the route that fits and why, and what to touch."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from ms_port.script.scan import Finding, Scanned

COLUMNS = ("File", "Start Line", "End Line", "OP", "Tips")


@dataclass(frozen=True)
class Route:
    """One way to Ascend: how well it fits this project and why."""

    name: str
    fits: bool
    why: str
    command: str


@cache
def _tables() -> dict[str, Any]:
    text = resources.files("ms_port.script").joinpath("ports.yaml").read_text(encoding="utf-8")
    tables: dict[str, Any] = yaml.safe_load(text)
    return tables


def baseline(found: Scanned) -> str:
    """What to do before anything is moved."""
    entry = found.entries[0] if found.entries else "train.py"
    return f"python {entry} <your arguments, one epoch> 2>&1 | tee baseline.log"


def existing_ports(found: Scanned) -> list[str]:
    """MindSpore projects that hold a model of one of the names in this project."""
    names = {re.sub(r"[^a-z0-9]", "", model.lower()) for model in found.models}
    hits = []
    for port in _tables()["ports"]:
        words = [w for w in port["words"] if any(name.startswith(w.replace("_", "")) for name in names)]
        if words:
            hits.append(f"{port['where']} ({', '.join(words)}; list of {_tables()['date']}): {port['url']}")
    return hits


def routes(found: Scanned) -> list[Route]:
    """The four routes in the order in which to consider them."""
    switches = found.switches
    conflicts = [
        (bool(switches & {"jit"}), "torch.jit.script is used, which transfer_to_npu masks"),
        (bool(switches & {"channels_last"}), "channels_last is used, which it does not support"),
        (bool(switches & {"apex"}), "apex is used, which it does not move"),
        (bool(switches & {"extension"}), "CUDA or Triton code of its own must be replaced first"),
    ]
    reasons = [text for hit, text in conflicts if hit]
    strings = found.of("MSP802")
    automatic = "; ".join(reasons) or "nothing speaks against it" + (
        f" ({len(strings)} places say nccl in strings: change them by hand)" if strings else ""
    )
    unknown = [name for name, status in found.status.items() if status in ("unknown", "unsupported")]
    ports = existing_ports(found)
    version = next(
        (
            v
            for v in ("2.1.0", "2.6.0", "2.7.1", "2.8.0")
            if found.version and v.startswith(found.version.rsplit(".", 1)[0])
        ),
        "2.8.0",
    )
    native = (
        f"{len(unknown)} torch APIs without a MindSpore form: {', '.join(sorted(unknown)[:6])}"
        if unknown
        else "every torch API here has a MindSpore form"
    )
    if found.frameworks:
        native += f"; {', '.join(found.frameworks)} owns the loop"
    return [
        Route(
            "first check: torch_npu with transfer_to_npu",
            not reasons,
            automatic,
            "from torch_npu.contrib import transfer_to_npu",
        ),
        Route(
            "transplant to torch_npu",
            "extension" not in switches,
            "a written record of every change; needed where the first check conflicts",
            f"ms-port npu IN -o OUT -v {version}",
        ),
        Route(
            "an existing MindSpore port",
            bool(ports),
            "; ".join(ports) or "none known for the names in this project",
            "see its own documentation",
        ),
        Route(
            "native MindSpore", not found.frameworks and "extension" not in switches, native, "ms-port script IN -o OUT"
        ),
    ]


def to_json(found: Scanned) -> dict[str, Any]:
    statuses = Counter(found.status.values())
    return {
        "files": found.files,
        "lines": found.lines,
        "torch_files": found.torch_files,
        "torch_version": found.version or None,
        "apis": {
            "counts": dict(statuses),
            "list": [
                {"api": a, "uses": n, "status": found.status[a], "first": "{}:{}".format(*found.places[a])}
                for a, n in found.uses.most_common()
            ],
        },
        "frameworks": {
            name: {"place": place, "route": _tables()["frameworks"].get(name, "")}
            for name, place in found.frameworks.items()
        },
        "findings": [asdict(f) for f in found.findings],
        "plan": {
            "baseline": baseline(found),
            "routes": [asdict(route) for route in routes(found)],
            "touch": touch(found),
        },
    }


def touch(found: Scanned) -> list[dict[str, Any]]:
    """Places to change, by rule, the most frequent first."""
    grouped: dict[str, list[Finding]] = {}
    for finding in found.findings:
        grouped.setdefault(finding.rule, []).append(finding)
    return [
        {"rule": rule, "places": len(items), "first": f"{items[0].file}:{items[0].line}"}
        for rule, items in sorted(grouped.items(), key=lambda g: -len(g[1]))
    ]


def write(found: Scanned, folder: Path) -> None:
    """scan.json, findings.csv, unsupported_api.csv and unknown_api.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scan.json").write_text(json.dumps(to_json(found), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    _csv(folder / "findings.csv", [(f.file, f.line, f.line, f.rule, f.what) for f in found.findings])
    for status in ("unsupported", "unknown"):
        rows = [
            (*found.places[a], found.places[a][1], a, f"{n} uses")
            for a, n in found.uses.items()
            if found.status[a] == status
        ]
        _csv(folder / f"{status}_api.csv", rows)


def _csv(file: Path, rows: list[tuple[Any, ...]]) -> None:
    with file.open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        writer.writerows(rows)
