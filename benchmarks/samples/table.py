"""docs/samples.md from what the two halves wrote."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Line = Mapping[str, Any]

INTRODUCTION = """\
Written by `python -m benchmarks.samples`. Samples of `op_db` and `module_db` of PyTorch's tests (of each OpInfo
and ModuleInfo a few, spread evenly; the last one also as method and in place; integers and truth values), each
converted, run in GRAPH_MODE on CPU, forward and gradient, and compared with float64. Equal is within the bound of
verification: 4 times torch float32's own error and 16 ulp of the tensor's scale. "Imprecise" is outside of it by
less than a thousandth of the scale: MindSpore's CPU kernels of tanh, exp and log are approximations
([measured](mindspore-notes.md)). "Flagged" is a call for which ms-port says that it has no form (MSP101): the port
raises there."""

VERDICTS = ("passed", "imprecise", "gradient wrong", "gradient crash", "differs, flagged", "wrong", "crash", "flagged")
KINDS = {
    "op": "functions, float32 (or the first type that the op takes)",
    "op-int64": "functions, int64",
    "op-bool": "functions, bool",
    "method": "methods",
    "inplace": "in place",
    "module": "layers",
    "module-train": "layers in training mode",
}


def verdict(made: Line, ran: Line | None) -> str:
    """One word or two for a sample; "" where torch itself has nothing to compare, or it was not run."""
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


class _Row:
    """What became of the samples of one OpInfo or ModuleInfo."""

    def __init__(self) -> None:
        self.words: Counter[str] = Counter()
        self.forward = self.gradient = self.differentiable = self.waiting = 0
        self.why = ""

    @property
    def tried(self) -> int:
        return sum(self.words.values())

    def add(self, key: str, made: Line, ran: Line | None) -> None:
        word = verdict(made, ran)
        if not word:
            self.waiting += made["status"] == "ready"
            return
        self.words[word] += 1
        if ran is not None and made["status"] == "ready":
            self.forward += ran["forward"] == "passed"
            self.differentiable += ran["gradient"] != "none"
            self.gradient += ran["gradient"] == "passed"
        if word != "passed" and not self.why:
            reason = str(made["reason"] or (ran or {}).get("reason", ""))
            kind = key.partition(":")[0]
            where = "" if kind in ("op", "module") else f" ({kind.partition('-')[2] or kind})"
            self.why = f"{word}{where}: " + " ".join(reason.split())[:150].replace("|", "/").replace("`", "'")


def _rows(made: Mapping[str, Line], ran: Mapping[str, Line]) -> dict[str, _Row]:
    rows: dict[str, _Row] = defaultdict(_Row)
    for key, line in made.items():
        rows[key.split(":")[1]].add(key, line, ran.get(key))
    return rows


def _table(head: Iterable[str], lines: Iterable[Iterable[object]]) -> list[str]:
    head = list(head)
    return [f"| {' | '.join(map(str, line))} |" for line in [head, ["---"] * len(head), *lines]]


def _totals(made: Mapping[str, Line], ran: Mapping[str, Line]) -> list[str]:
    """A line a kind of sample."""
    count: dict[str, Counter[str]] = defaultdict(Counter)
    for key, line in made.items():
        count[key.partition(":")[0]][verdict(line, ran.get(key))] += 1
    lines = []
    for kind, name in KINDS.items():
        tried = sum(count[kind][v] for v in VERDICTS)
        lines.append([name, tried, *(count[kind][v] for v in VERDICTS)])
    whole = [sum(column) for column in zip(*(line[1:] for line in lines), strict=True)]
    return _table(["samples", "tried", *VERDICTS], [*lines, ["**all**", *whole]])


def _how(made: Mapping[str, Line]) -> str:
    """How the samples were translated, and by which commits."""
    tried = [line for line in made.values() if line["status"] != "skipped"]
    flagged = sum(line["status"] != "ready" for line in tried)
    expanded = sum(line["status"] == "ready" and line["decomposed"] for line in tried)
    commits = Counter(str(line.get("commit") or "unknown") for line in tried)
    spoken = ", ".join(f"{number} by {commit}" for commit, number in commits.most_common())
    return (
        f"Translated: {len(tried) - flagged - expanded} by rows, {expanded} with torch's expansion, {flagged} flagged. "
        f"Commits that did it: {spoken}."
    )


def write_table(made: Mapping[str, Line], ran: Mapping[str, Line], file: Path) -> None:
    """Totals, then a row an OpInfo or ModuleInfo: tried, forward equal, gradient equal, why not."""
    rows = _rows(made, ran)
    tried = {name: row for name, row in sorted(rows.items()) if row.tried}
    whole = sum(row.words["passed"] == row.tried for row in tried.values())
    waiting = sum(row.waiting for row in rows.values())
    text = ["# PyTorch's own samples", "", INTRODUCTION, "", _how(made)]
    text.append(
        f"{sum(row.tried for row in tried.values())} samples of {len(tried)} OpInfos and ModuleInfos were tried; "
        f"all samples pass of {whole}. Converted and not run: {waiting}."
    )
    text += ["", *_totals(made, ran), "", "## By operator and layer", ""]
    text += ["Gradients are counted where torch has one.", ""]
    text += _table(
        ["what", "tried", "forward equal", "gradient equal", "why not (the first)"],
        [
            [f"`{n}`", r.tried, r.forward, f"{r.gradient} of {r.differentiable}" if r.differentiable else "", r.why]
            for n, r in tried.items()
        ],
    )
    idle = sorted(name for name, row in rows.items() if not row.tried and not row.waiting)
    text += [
        "",
        "## Nothing to compare",
        "",
        "PyTorch makes no sample that a person could write, or its own call fails:",
    ]
    text += ["", ", ".join(f"`{name}`" for name in idle)]
    file.write_text("\n".join(text) + "\n", encoding="utf-8")
