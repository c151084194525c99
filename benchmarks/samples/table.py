"""docs/samples.md from what the two halves wrote."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Line = Mapping[str, Any]

INTRODUCTION = """\
Written by `python -m benchmarks.samples`. Samples of `op_db` and `module_db` of PyTorch's tests, each converted, run in
GRAPH_MODE on CPU, forward and gradient, and compared with float64. "Imprecise" is outside the bound of verification (4
times torch float32's own error and 16 ulp of the scale) by less than a thousandth of the scale: MindSpore's CPU kernels
of tanh, exp and log are approximations (docs/mindspore-notes.md)."""

VERDICTS = ("passed", "imprecise", "gradient wrong", "gradient crash", "differs, flagged", "wrong", "crash", "flagged")


def verdict(made: Line, ran: Line | None) -> str:
    """One word or two for a sample; "" where torch itself has nothing to compare."""
    status = str(made["status"])
    if status in ("skipped", "crash", "flagged"):
        return "" if status == "skipped" else status
    if ran is None:
        return ""
    if ran["forward"] == "wrong" or ran["gradient"] == "wrong":
        if _imprecise(str(ran["reason"])):
            return "imprecise"
        if any(rule.startswith("MSP5") or rule == "MSP107" for rule in made["rules"]):
            return "differs, flagged"
        return "wrong" if ran["forward"] == "wrong" else "gradient wrong"
    if ran["forward"] == "crash":
        return "crash"
    return "gradient crash" if ran["gradient"] == "crash" else "passed"


def _imprecise(reason: str) -> bool:
    """Only errors below a thousandth of the tensor's scale: kernels of tanh, exp and log are approximations."""
    faults = reason.split("; ")
    found = [re.search(r"error (\S+), bound \S+ \(scale (\S+?)\)", fault) for fault in faults]
    return all(f is not None and float(f[1]) <= 1e-3 * float(f[2]) for f in found)


def name_of(key: str) -> str:
    """``nn.Conv2d`` of ``module:nn.Conv2d:3``."""
    kind, name, _ = key.split(":")
    return name if kind in ("op", "module") else f"{name} ({kind.removeprefix('module-').removeprefix('op-')})"


def _translated(made: Mapping[str, Line]) -> str:
    """How the samples were translated, run or not."""
    tried = [line for line in made.values() if line["status"] != "skipped"]
    flagged = sum(line["status"] != "ready" for line in tried)
    expanded = sum(line["status"] == "ready" and line["decomposed"] for line in tried)
    mapped = len(tried) - flagged - expanded
    return f"Translated: {mapped} by rows, {expanded} with torch's expansion, {flagged} flagged."


def write_table(made: Mapping[str, Line], ran: Mapping[str, Line], file: Path) -> None:
    """A row an API: how many samples ended how, and the first thing that is wrong."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    whys: dict[str, str] = {}
    for key, line in made.items():
        word = verdict(line, ran.get(key))
        name = name_of(key)
        rows[name][word] += 1
        if word not in ("", "passed") and name not in whys:
            why = line["reason"] or ran.get(key, {}).get("reason", "")
            whys[name] = " ".join(why.split())[:160].replace("|", "/")
    total: Counter[str] = Counter()
    for row in rows.values():
        total.update(row)
    tried = {name: row for name, row in rows.items() if any(row[v] for v in VERDICTS)}
    whole = sum(1 for row in tried.values() if row["passed"] == sum(row[v] for v in VERDICTS))
    text = ["# PyTorch's own samples", "", INTRODUCTION, ""]
    text += [f"{sum(total[v] for v in VERDICTS)} samples of {len(tried)} operators and layers (call styles apart);"]
    text += [f"all samples pass of {whole}. {_translated(made)}"]
    text += ["", "| " + " | ".join(VERDICTS) + " |", "|" + " --- |" * len(VERDICTS)]
    text += ["| " + " | ".join(str(total[v]) for v in VERDICTS) + " |", "", "## What does not pass", ""]
    text += ["| what | passed | else | the first of them |", "| --- | --- | --- | --- |"]
    for name, row in sorted(tried.items()):
        rest = ", ".join(f"{row[v]} {v}" for v in VERDICTS[1:] if row[v])
        if rest:
            text.append(f"| `{name}` | {row['passed']} | {rest} | {whys.get(name, '')} |")
    text += ["", "## What passes", ""]
    text.append(", ".join(f"`{n}`" for n, r in sorted(tried.items()) if r["passed"] == sum(r[v] for v in VERDICTS)))
    file.write_text("\n".join(text) + "\n", encoding="utf-8")
