"""The second half: the ports run in GRAPH_MODE, many in one graph, and are compared with torch."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ms_port.opmap.batch import Worker, compare

PER_GRAPH = 24
PER_PROCESS = 30
"""Graphs that one process compiles before it is ended: after some fifty MindSpore fails in compiling sound ones."""


@dataclass
class Ran:
    """A line of run.jsonl. Each verdict is passed, wrong, crash or none (there is nothing to compare)."""

    key: str
    forward: str
    gradient: str
    reason: str = ""


class Side:
    """The MindSpore process and how many graphs it has compiled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.worker = Worker(300.0, "benchmarks.samples.mindspore_side")
        self.graphs = 0

    def ask(self, cases: Sequence[dict[str, Any]], gradient: bool) -> tuple[str, Any]:
        """Run cases in one graph; a fresh process where the last one has compiled enough."""
        if self.graphs >= PER_PROCESS:
            self.worker.close()
            self.graphs = 0
        self.graphs += 1
        status, answer = self.worker.ask((str(self.folder), list(cases), gradient))
        if status != "ok":
            self.graphs += 3  # a failed compilation leaves more behind than a sound one
        return status, answer

    def close(self) -> None:
        self.worker.close()


def run_samples(folder: Path, packages: Sequence[str]) -> Iterator[Ran]:
    """Run converted samples; a line each as they come."""
    side = Side(folder)
    try:
        for start in range(0, len(packages), PER_GRAPH):
            cases = [pickle.loads((folder / p / "truth.pkl").read_bytes()) for p in packages[start : start + PER_GRAPH]]
            for gradient in (True, False):
                group = [c for c in cases if _differentiable(c) == gradient]
                if group:
                    yield from _run(side, group, gradient)
    finally:
        side.close()


def _differentiable(case: dict[str, Any]) -> bool:
    return bool(case["inputs_gradient"] or case["parameters"]) and not case["random"]


def _run(side: Side, cases: list[dict[str, Any]], gradient: bool) -> Iterator[Ran]:
    """Where a graph fails, run the port that the error names by itself, or halve; a culprit's forward runs alone."""
    status, answer = side.ask(cases, gradient)
    if status == "ok":
        for case, result in zip(cases, answer, strict=True):
            yield _judge(case, result, gradient)
        return
    answer, named = answer if isinstance(answer, tuple) else (answer, "")
    guilty = [c for c in cases if c["package"] == named]
    if len(cases) > 1 and guilty:
        yield from _run(side, guilty[:1], gradient)  # the port that the error names need not be the one at fault
        yield from _run(side, [c for c in cases if c is not guilty[0]], gradient)
        return
    if len(cases) > 1:
        middle = len(cases) // 2
        yield from _run(side, cases[:middle], gradient)
        yield from _run(side, cases[middle:], gradient)
        return
    yield from _alone(side, cases[0], gradient, str(answer))


def _alone(side: Side, case: dict[str, Any], gradient: bool, reason: str) -> Iterator[Ran]:
    """One port whose graph failed: without its gradient, if that was wanted."""
    if gradient:
        status, answer = side.ask([case], False)
        if status == "ok":
            judged = _judge(case, answer[0], False)
            yield Ran(judged.key, judged.forward, "crash", judged.reason or f"gradient: {reason}")
            return
        reason = str(answer[0] if isinstance(answer, tuple) else answer)
    yield Ran(case["key"], "crash", "crash" if gradient else "none", reason)


def _judge(case: dict[str, Any], result: dict[str, Any], gradient: bool) -> Ran:
    faults: list[str] = []
    check = "shape" if case["random"] else "values"
    for path, (truth, single), got in zip(case["paths"], case["outputs"], result["outputs"], strict=True):
        if check == "values" or isinstance(truth, np.ndarray):
            faults += compare(f"output{path}", truth, single, got, check)
    for name, (truth, single) in ({} if case["random"] else case["buffers"]).items():
        faults += compare(f"buffer {name}", truth, single, result["buffers"].get(name), "values")
    slopes: list[str] = []
    if gradient:
        pairs = {f"input {i}": (pair, result["inputs"].get(i)) for i, pair in case["inputs_gradient"].items()}
        pairs |= {n: (pair, result["parameters"].get(n)) for n, pair in case["parameters"].items()}
        whole = max((float(np.abs(pair[0]).max(initial=0.0)) for pair, _ in pairs.values()), default=0.0)
        for name, ((truth, single), got) in pairs.items():
            slopes += _slope(name, truth, single, got, whole)
    forward = "wrong" if faults else "passed"
    verdict = "none" if not gradient else "wrong" if slopes else "passed"
    return Ran(case["key"], forward, verdict, "; ".join([*faults, *slopes][:6]))


def _slope(name: str, truth: Any, single: Any, got: Any, whole: float) -> list[str]:
    """A gradient; one that is zero in exact arithmetic must be small beside the others."""
    scale = float(np.abs(truth).max(initial=0.0))
    if np.isfinite(truth).all() and scale <= 1e-9 * whole and isinstance(got, np.ndarray):
        size = float(np.abs(got).max(initial=0.0))
        return [] if size <= 1e-5 * whole else [f"gradient of {name}: {size:.3g}, torch 0"]
    return compare(f"gradient of {name}", truth, single, got, "values")
