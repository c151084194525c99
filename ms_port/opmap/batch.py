"""One graph out of many cases: generated source, run in the worker, compared; a failing batch is bisected."""

from __future__ import annotations

import math
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ms_port.opmap.cases import Case
from ms_port.opmap.opmap import OpMap
from ms_port.opmap.truth import Array
from ms_port.opmap.worker import read_message, write_message

HEADER = '''"""Generated from examples."""

import math
from functools import partial

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, mint, nn, ops
from mindspore.common import initializer as _initializers
from mindspore.common.initializer import *
from mindspore.common.initializer import initializer

'''


class Worker:
    """A MindSpore process that is started when first needed, and again after a crash."""

    def __init__(self, timeout: float = 400.0, module: str = "ms_port.opmap.worker") -> None:
        self.timeout, self.module = timeout, module
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def ask(self, message: Any) -> tuple[str, Any]:
        """Send one batch. A crash or hang is an error answer."""
        process = self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            write_message(process.stdin, message)  # type: ignore[arg-type]
            ready, _, _ = select.select([process.stdout], [], [], self.timeout)
            answer = read_message(process.stdout) if ready else None  # type: ignore[arg-type]
        except BrokenPipeError:
            answer, ready = None, [process.stdout]
        if answer is None:
            self.close()
            code = process.wait()
            return "error", f"the process died with {code}" if ready else f"no answer in {self.timeout:.0f} s"
        status, content = answer
        return str(status), content

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            root = str(Path(__file__).resolve().parents[2])
            environment = {
                "GLOG_v": "4",
                **os.environ,
                "ONEDNN_MAX_CPU_ISA": "AVX2",
                "OMP_NUM_THREADS": "1",
                "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")])),
            }
            self._folder = tempfile.TemporaryDirectory()  # MindSpore leaves rank_0/ where it runs
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", self.module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd=self._folder.name,
            )
        return self._process

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._process = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class Outcome:
    """What became of one case: no faults, or what is wrong."""

    name: str
    faults: tuple[str, ...]


def source(op_map: OpMap, cases: Sequence[Case], gradient: bool) -> str:
    """The module of a batch."""
    functions = op_map.function_sources(frozenset().union(*(case.functions for case in cases), _randoms(cases)))
    future = "from __future__ import annotations\n"
    head = future + HEADER if functions.startswith(future) else HEADER
    parts = [head, functions.removeprefix(future), ""]
    for index, case in enumerate(cases):
        lines = [
            f"class Case{index}(nn.Cell):",
            f"    example = {case.name!r}",
            "",
            "    def __init__(self):",
            "        super().__init__()",
        ]
        if case.initializer:
            ((name, array),) = case.inputs.items()
            lines += [
                f"        {name} = Parameter(Tensor(np.zeros({array.shape}, np.float32)), name={name!r})",
                f"        {case.text}",
                f"        {name}.init_data()",
                f"        self.{name} = {name}",
            ]
        if case.layer:
            lines.append(f"        self.m = {case.text}")
        if case.random:
            lines.append(f"        self.rand = {case.random}()")
        lines += ["", f"    def construct(self, {', '.join(case.inputs)}):", f"        return {case.call}", "", ""]
        parts.append("\n".join(lines))
    parts.append(_batch(cases, gradient))
    return "\n".join(parts)


def _randoms(cases: Sequence[Case]) -> frozenset[str]:
    return frozenset(case.random for case in cases if case.random)


def _batch(cases: Sequence[Case], gradient: bool) -> str:
    """The cell that runs all cases, and their projected sum."""
    lines = [
        "class Batch(nn.Cell):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.projections = ()",
    ]
    lines += [f"        self.c{index} = Case{index}()" for index in range(len(cases))]
    lines += [
        "",
        "    def cells_of_cases(self):",
        f"        return [{', '.join(f'self.c{index}' for index in range(len(cases)))}]",
        "",
        "    def set_projections(self, projections):",
        "        self.projections = projections",
        "",
    ]
    count = sum(len(case.inputs) for case in cases)
    lines.append(f"    def construct(self, {', '.join(f'i{index}' for index in range(count))}):")
    position = leaf = 0
    terms: list[str] = []
    for index, case in enumerate(cases):
        names = ", ".join(f"i{position + offset}" for offset in range(len(case.inputs)))
        position += len(case.inputs)
        lines.append(f"        o{index} = self.c{index}({names})")
        for path, projection in zip(case.paths, case.projections, strict=True):
            if projection is not None:
                terms.append(f"(o{index}{path}.astype(ms.float32) * self.projections[{leaf}]).sum()")
            leaf += 1
    if gradient:
        lines.append("        loss = ms.Tensor(0.0, ms.float32)")
        lines += [f"        loss = loss + {term}" for term in terms]
    outputs = "".join(f"({''.join(f'o{i}{path}, ' for path in case.paths)}), " for i, case in enumerate(cases))
    lines.append(f"        return loss, ({outputs})" if gradient else f"        return ({outputs})")
    return "\n".join(lines) + "\n"


def run_batch(op_map: OpMap, cases: Sequence[Case], worker: Worker, gradient: bool) -> list[Outcome]:
    """Run cases in one graph; on failure halves, until the culprit stands alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "batch.py"
        path.write_text(source(op_map, cases, gradient), encoding="utf-8")
        arrays = [array for case in cases for array in case.inputs.values()]
        wanted = [i for i, array in enumerate(arrays) if array.dtype.kind == "f"] if gradient else None
        projections = [p for case in cases for p in case.projections]
        message = (
            str(path),
            arrays,
            [case.weights for case in cases],
            [case.example.train for case in cases],
            projections,
            wanted,
        )
        status, answer = worker.ask(message)
    if status == "ok":
        return list(_judge(cases, answer, wanted))
    if len(cases) == 1:
        return [Outcome(cases[0].name, (str(answer),))]
    middle = len(cases) // 2
    return run_batch(op_map, cases[:middle], worker, gradient) + run_batch(op_map, cases[middle:], worker, gradient)


def _judge(cases: Sequence[Case], answer: dict[str, Any], wanted: list[int] | None) -> Iterator[Outcome]:
    gradients = iter(answer["gradients"])
    for index, case in enumerate(cases):
        faults = []
        rows = zip(case.paths, case.truth, case.single, answer["outputs"][index], strict=True)
        for path, truth, single, got in rows:
            faults += compare(f"output{path}", truth, single, got, case.example.check)
        if wanted is not None:
            for name, array in case.inputs.items():
                if array.dtype.kind != "f":
                    continue
                got = next(gradients)
                if name in case.gradients and case.example.check == "values":
                    faults += compare(f"gradient of {name}", *case.gradients[name], got, "values")
            for name, pair in case.gradients.items():
                if name not in case.inputs:
                    got = answer["weights"].get(f"c{index}.m.{name}")
                    faults += (
                        [f"no gradient for {name}"]
                        if got is None
                        else compare(f"gradient of {name}", *pair, got, "values")
                    )
        for name, pair in case.buffers.items():
            faults += compare(name, *pair, answer["buffers"][index][name], "values")
        yield Outcome(case.name, tuple(faults))


def compare(what: str, truth: Any, single: Any, got: Any, check: str) -> list[str]:
    """Error against float64 within 4 times torch float32's own plus 16 ulp of the scale; integers exactly."""
    if not isinstance(truth, np.ndarray):
        same = tuple(got) == tuple(truth) if isinstance(truth, tuple) else got == truth
        if isinstance(truth, float) and isinstance(got, float):  # numbers in a graph are float32
            same = math.isclose(got, truth, rel_tol=1e-6)
        return [] if same else [f"{what}: {got!r}, torch {truth!r}"]
    if not isinstance(got, np.ndarray) or got.shape != truth.shape:
        return [f"{what}: shape {getattr(got, 'shape', type(got).__name__)}, torch {truth.shape}"]
    if check == "shape" or not truth.size:
        return []
    if check == "distribution":
        return [] if same_distribution(single.ravel(), got.ravel()) else [f"{what}: another distribution"]
    if _kind(single.dtype) != _kind(got.dtype):
        return [f"{what}: dtype {got.dtype}, torch {single.dtype}"]
    if truth.dtype.kind not in "fc":
        return [] if np.array_equal(got, truth) else [f"{what}: {np.sum(got != truth)} of {truth.size} elements differ"]
    finite = np.isfinite(truth)
    if not np.array_equal(np.where(finite, 0, truth), np.where(finite, 0, got), equal_nan=True):
        return [f"{what}: infinities or nans stand elsewhere"]
    wide = truth[finite]
    scale = float(np.max(np.abs(wide), initial=0.0))
    own = float(np.max(np.abs(single[finite].astype(wide.dtype) - wide), initial=0.0))
    error = float(np.max(np.abs(got[finite].astype(wide.dtype) - wide), initial=0.0))
    bound = 4 * own + 16 * float(np.finfo(single.dtype).eps) * scale
    return [] if error <= bound else [f"{what}: error {error:.3g}, bound {bound:.3g} (scale {scale:.3g})"]


def same_distribution(one: Array, other: Array) -> bool:
    """Two-sample Kolmogorov-Smirnov test at about 1e-4."""
    places = np.sort(np.concatenate((one, other)))
    gap = [np.searchsorted(np.sort(sample), places, side="right") / sample.size for sample in (one, other)]
    return float(np.max(np.abs(gap[0] - gap[1]))) < float(2.2 * (1 / one.size + 1 / other.size) ** 0.5)


def _kind(dtype: Any) -> str:
    """int32 for int64 is let pass: MindSpore's indices are int32 (rows say so where it matters)."""
    return "i" if dtype.kind in "iu" else str(dtype)


__all__ = ["Array", "Outcome", "Worker", "compare", "run_batch"]
