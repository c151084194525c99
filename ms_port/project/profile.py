"""``ms-port profile DIR``: what MindSpore's profiler wrote, in plain words and in the order in which to look.

Reads what ``train.py --profile`` leaves: on CPU ``FRAMEWORK/cpu_op_detail_info_*.csv``, on Ascend
``ASCEND_PROFILER_OUTPUT/kernel_details.csv`` and ``step_trace_time.csv``, and beside either the run's ``log.csv``.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ms_port.errors import BadInput

Part: TypeAlias = Literal["operators", "communication", "data"]
_SMALL = 20.0
"""Microseconds: a kernel that runs shorter costs about as much to launch."""
_MANY = 200
"""Small kernels a step."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One operator of the graph over all recorded steps; times in milliseconds."""

    type: str
    cell: str
    """The cell around it, such as ``blocks/0/attention``; ``""`` for the step itself."""
    count: int
    total: float


@dataclass(frozen=True, slots=True)
class Steps:
    """Mean times of a step in milliseconds; communication is that which nothing hides."""

    computing: float
    communication: float
    free: float

    @property
    def total(self) -> float:
        return self.computing + self.communication + self.free


@dataclass(frozen=True, slots=True)
class Profile:
    """What was recorded; ``steps`` is None on CPU, ``waiting`` where there is no log.csv."""

    platform: Literal["CPU", "Ascend"]
    kernels: tuple[Kernel, ...]
    step_count: int
    steps: Steps | None
    waiting: float | None
    """Share of a step's time that waits for data."""
    in_graph: bool
    """Whether kernels carry the name of a graph: without one each op was run on its own."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing that costs time, and what to do; ``share`` of a step where it is known."""

    part: Part
    found: str
    advice: str
    share: float | None = None


def read_profile(folder: Path) -> Profile:
    """The newest recording in ``folder`` or below. Raises BadInput where there is none."""
    if not folder.is_dir():
        raise BadInput(f"no such folder: {folder}", where="DIR", advice="the folder of `python train.py --profile`")
    ascend = _newest(folder, "kernel_details.csv")
    cpu = _newest(folder, "cpu_op_detail_info_*.csv")
    log = next(iter(sorted([*folder.glob("log.csv"), *folder.glob("checkpoints/log.csv")])), None)
    waiting = _waiting(log) if log else None
    if ascend:
        rows = _rows(ascend)
        kernels = tuple(_merged(_ascend_kernels(rows)))
        trace = ascend.parent / "step_trace_time.csv"
        count = len({row.get("Step ID", row.get("Step Id", "")) for row in rows}) or 1
        steps = _ascend_steps(_rows(trace)) if trace.is_file() else None
        return Profile("Ascend", kernels, count, steps, waiting, _in_graph(row.get("Name", "") for row in rows))
    if cpu:
        rows = _rows(cpu)
        kernels = tuple(_merged(_cpu_kernels(rows)))
        count = min((int(row["op_occurrences"]) for row in rows), default=1)
        return Profile("CPU", kernels, count, None, waiting, _in_graph(row["full_op_name"] for row in rows))
    raise BadInput(
        f"no profile in {folder}: neither kernel_details.csv nor cpu_op_detail_info_*.csv",
        where="DIR",
        advice="record one with `python train.py --profile --steps 12`",
    )


def diagnose(profile: Profile) -> list[Advice]:
    """What costs time, in the order in which to look: operators, communication, data."""
    return [*_operators(profile), *_communication(profile), *_data(profile)]


def by_type(kernels: Iterable[Kernel]) -> list[tuple[str, int, float]]:
    """(type, count, milliseconds), the slowest first."""
    counts, totals = defaultdict[str, int](int), defaultdict[str, float](float)
    for kernel in kernels:
        counts[kernel.type] += kernel.count
        totals[kernel.type] += kernel.total
    return sorted(((name, counts[name], totals[name]) for name in counts), key=lambda row: -row[2])


def _operators(profile: Profile) -> Iterator[Advice]:
    total = sum(kernel.total for kernel in profile.kernels) or 1.0
    if not profile.in_graph:
        text = "no kernel carries the name of a graph: the ops were run one by one"
        yield Advice("operators", text, "ms.set_context(mode=ms.GRAPH_MODE), and the step under ms.jit as in train.py")
    small = [k for k in profile.kernels if k.total / k.count * 1000 < _SMALL]
    count = sum(k.count for k in small) / profile.step_count
    if count >= _MANY:
        cells = _heaviest((k.cell, float(k.count)) for k in small)
        text = f"{count:.0f} kernels a step take less than {_SMALL:.0f} us each, most of them in {cells}"
        advice = "fuse them: --jit-level O1 (Ascend: also O2), --graph-kernel true, a larger --batch-size"
        yield Advice("operators", text, advice, sum(k.total for k in small) / total)
    for name, _, spent in by_type(profile.kernels)[:1]:
        if spent / total > 0.5:
            cells = _heaviest((k.cell, k.total) for k in profile.kernels if k.type == name)
            yield Advice("operators", f"{name} takes {spent / total:.0%} of the operators' time, most of it in {cells}",
                         _advice_for(name, profile.platform), spent / total)  # fmt: skip


def _advice_for(name: str, platform: str) -> str:
    if "Conv" in name and platform == "CPU":
        return "set ONEDNN_MAX_CPU_ISA=AVX2 (ms-port doctor says whether it matters here)"
    if re.search("Conv|MatMul|Attention", name):
        return "this is the work itself: half precision (--precision O2 --loss-scale dynamic) makes it shorter"
    if re.search("Cast|Trans(pose|Data)", name):
        return "conversions of type or layout: one precision for the whole model (--precision O2 or O3), fewer permutes"
    return "look at the cells named: one larger op instead of this one, or another order"


def _communication(profile: Profile) -> Iterator[Advice]:
    if profile.steps is None or not profile.steps.total:
        return
    share = profile.steps.communication / profile.steps.total
    if share > 0.1:
        text = f"{share:.0%} of a step waits for other ranks ({profile.steps.communication:.1f} ms that nothing hides)"
        advice = "a larger --batch-size or --accumulate; compare the ranks' log.csv: one slow rank holds up all"
        yield Advice("communication", text, advice, share)


def _data(profile: Profile) -> Iterator[Advice]:
    if profile.waiting is not None and profile.waiting > 0.1:
        text = f"{profile.waiting:.0%} of the time waits for data"
        yield Advice(
            "data", text, "`ms-port tune-data OUT` measures workers and prefetch; MindRecord files", profile.waiting
        )
    if profile.steps is None or not profile.steps.total:
        return
    share = profile.steps.free / profile.steps.total
    if share > 0.2:
        text = f"the device is idle for {share:.0%} of a step ({profile.steps.free:.1f} ms)"
        starved = profile.waiting is not None and profile.waiting > 0.1
        advice = "the data is why" if starved else "the host is too slow: one graph for the whole step, larger batches"
        yield Advice("data", text, advice, share)


def _heaviest(weights: Iterable[tuple[str, float]], count: int = 3) -> str:
    totals = defaultdict[str, float](float)
    for cell, weight in weights:
        totals[cell or "the step itself"] += weight
    return ", ".join(sorted(totals, key=lambda cell: -totals[cell])[:count])


def _newest(folder: Path, pattern: str) -> Path | None:
    return max(folder.rglob(pattern), key=lambda file: file.stat().st_mtime, default=None)


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def _waiting(log: Path) -> float | None:
    """Of log.csv: the share of waiting for data, without the first step, which compiles."""
    rows = _rows(log)[1:]
    spent = sum(float(row["seconds"]) for row in rows)
    return sum(float(row["seconds_waiting_for_data"]) for row in rows) / spent if spent else None


def _cpu_kernels(rows: Sequence[dict[str, str]]) -> Iterator[Kernel]:
    for row in rows:
        yield Kernel(
            row["op_type"], _cell(row["full_op_name"]), int(row["op_occurrences"]), float(row["op_total_time(ms)"])
        )


def _ascend_kernels(rows: Sequence[dict[str, str]]) -> Iterator[Kernel]:
    for row in rows:
        yield Kernel(row["Type"], _cell(row["Name"]), 1, float(row["Duration(us)"]) / 1000)


def _ascend_steps(rows: Sequence[dict[str, str]]) -> Steps | None:
    if not rows:
        return None
    names = ("Computing", "Communication(Not Overlapped)", "Free")
    computing, communication, free = (
        sum(float(row.get(name) or 0) for row in rows) / len(rows) / 1000 for name in names
    )
    return Steps(computing, communication, free)


def _merged(kernels: Iterable[Kernel]) -> Iterator[Kernel]:
    found = defaultdict[tuple[str, str], list[float]](lambda: [0, 0.0])
    for kernel in kernels:
        entry = found[kernel.type, kernel.cell]
        entry[0] += kernel.count
        entry[1] += kernel.total
    for (kind, cell), (count, total) in found.items():
        yield Kernel(kind, cell, int(count), total)


def _in_graph(names: Iterable[str]) -> bool:
    return any("/" in name for name in names)


def _cell(name: str) -> str:
    """``Gradients/Default/net-Net/fc1-Dense/gradMatMul/MatMul-op3`` as ``fc1``: the attributes that lead there."""
    parts = [part for part in name.split("/")[:-1] if "-" in part]
    return "/".join(part.partition("-")[0] for part in parts)
