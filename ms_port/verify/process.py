"""The MindSpore side as a process: its job folder, its time limit, and what its end means."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor

_NOISE = re.compile(
    r"^\s*$|^\[?(WARNING|INFO)|^-{5,}|^- (C\+\+ Call Stack|The Traceback|Framework Error)|For framework developers"
    r"|^mindspore/(core|ccsrc|ops)|analyze_fail\.ir|^\s*\^+\s*$|^\s*~*\^~*\s*$|^\s+File \"|^\s{4}|^Traceback"
)
_PLACES = (
    re.compile(r"In file (?P<file>[^,:\s]+)[:,] ?(?P<line>\d+)"),
    re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)'),
)


@dataclass(frozen=True)
class Outcome:
    """How the process ended. ``result`` holds what was finished before, also of one that crashed."""

    status: Literal["done", "crashed"]
    result: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""
    where: str = ""
    stage: str = ""
    """What it was doing: ``build_model``, ``load_weights``, ``eval`` ..."""
    hopeless: bool = False
    """Running again with fewer taps can't help."""
    seconds: float = 0.0


def save_arrays(tensors: Sequence[Tensor], job: Path, prefix: str) -> list[str]:
    """Save tensors into the job folder, and return the names of their files."""
    files = [f"{prefix}{i}.npy" for i in range(len(tensors))]
    for file, tensor in zip(files, tensors, strict=True):
        np.save(job / file, tensor.detach().numpy())
    return files


def save_inputs(named: Mapping[str, Any], job: Path, prefix: str = "input") -> dict[str, Any]:
    """Save all tensors of the inputs into the job folder, and return their skeleton."""
    files: list[str] = []

    def save(tensor: Tensor) -> str:
        files.append(f"{prefix}{len(files)}.npy")
        np.save(job / files[-1], tensor.detach().float().numpy() if tensor.is_floating_point() else tensor.numpy())
        return files[-1]

    return {name: skeleton(value, save) for name, value in named.items()}


def skeleton(value: Any, save: Callable[[Tensor], str]) -> Any:
    """Nested inputs as JSON: ``{"tensor": KEY}`` for a tensor, with the key that ``save`` gives it."""
    if isinstance(value, Tensor):
        return {"tensor": save(value)}
    if isinstance(value, tuple):
        return {"tuple": [skeleton(v, save) for v in value]}
    if isinstance(value, list):
        return [skeleton(v, save) for v in value]
    return {k: skeleton(v, save) for k, v in value.items()} if isinstance(value, Mapping) else value


def peaks(outcome: Outcome) -> dict[str, int]:
    """Peak resident bytes so far: of this process, which runs torch, and of MindSpore's."""
    found = {"torch": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    return found | {"mindspore": int(outcome.result.get("peak_bytes", 0))}


class Side:
    """A running MindSpore process. It works in its job folder, where the runtime may leave its dumps.

    It starts with its imports at once, and waits for what ``give`` says.
    """

    def __init__(self, job: Path) -> None:
        self.job, self.out, self.start = job, "", time.perf_counter()
        job.mkdir(exist_ok=True)
        package_root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, (package_root, os.environ.get("PYTHONPATH", ""))))
        env = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "GLOG_v": "3", "PYTHONPATH": path}
        with (job / "stderr").open("w") as err, (job / "stdout").open("w") as out:
            command = [sys.executable, "-m", "ms_port.verify.mindspore_side", str(job)]
            self.process = subprocess.Popen(command, cwd=job, env=env, stdout=out, stderr=err, start_new_session=True)

    def give(self, spec: Mapping[str, Any]) -> None:
        """Say what to do; time is counted from here."""
        self.out, self.start = str(spec["out"]), time.perf_counter()
        (self.job / "job.part").write_text(json.dumps(spec))
        (self.job / "job.part").rename(self.job / "job.json")

    def stop(self) -> None:
        """End the process, if it still runs, and its children."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def finish(self, timeout: float) -> Outcome:
        """Wait for the end, at most until ``timeout`` seconds after the start."""
        try:
            self.process.wait(max(0.0, self.start + timeout - time.perf_counter()))
        except subprocess.TimeoutExpired:
            self.stop()
            message = f"{self._stage()}: MindSpore did not finish within {timeout:.0f} s"
            return Outcome("crashed", self._result(), message, "", self._stage(), True, timeout)
        seconds = time.perf_counter() - self.start
        if self.process.returncode == 0:
            return Outcome("done", self._result(), seconds=seconds)
        text = (self.job / "stderr").read_text(errors="replace") + (self.job / "stdout").read_text(errors="replace")
        message, where = explain(text, self.process.returncode, self.out)
        memory = self.process.returncode == -signal.SIGKILL or bool(re.search(r"bad_alloc|[Oo]ut of memory", text))
        early = self._stage() not in ("eval", "train")  # the modes' names
        message = f"{self._stage()}: " + message.replace(f"{self.job}/", "")
        return Outcome("crashed", self._result(), message, where, self._stage(), memory or early, seconds)

    def _stage(self) -> str:
        file = self.job / "stage"
        return file.read_text() if file.exists() else "starting"

    def _result(self) -> dict[str, Any]:
        file = self.job / "result.json"
        return dict(json.loads(file.read_text())) if file.exists() else {}


def explain(text: str, code: int, out: str) -> tuple[str, str]:
    """What a failed run said that matters, and the last ``file:line`` of the port in it.

    Args:
        text: everything it printed.
        code: its exit code, negative for a signal.
        out: the port's folder.
    """
    places = [
        f"{m['file'].removeprefix(out).lstrip('/')}:{m['line']}"
        for pattern in _PLACES
        for m in pattern.finditer(text)
        if m["file"].startswith(out)
    ]
    if code == -signal.SIGKILL:
        return "the process was killed: most likely out of memory", places[-1] if places else ""
    head = re.findall(
        r"^(?:\w+\.)*(?:\w*Error|\w*Exception|KeyboardInterrupt|SystemExit)\b.*(?:\n(?!-{5,}).*){0,3}", text, re.M
    )
    what = re.findall(r"what\(\):\s*(.*)", text)
    lines = [
        line.strip() for line in (head[-1] if head else "\n".join(what) or text).splitlines() if not _NOISE.match(line)
    ]
    if code < 0:
        lines.insert(0, f"the process died of {signal.Signals(-code).name}")
    message = " ".join(lines[:6] if head or what or code < 0 else lines[-6:])
    return (message or f"exit code {code} without a word")[:600], places[-1] if places else ""
