"""``--compare``: the torch script and the migrated one, run side by side from the same weights, batches and draws."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

_NUMBER = re.compile(
    r"(?<![A-Za-z_0-9])[-+]?(?:\d+\.\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|\d+(?:[eE][-+]?\d+)?|inf|nan)(?![A-Za-z_0-9]*\()"
)
_LABEL = r"(?<![a-z])(?:[a-z_]*time|secs?|[a-z_]*seconds?|took|elapsed|speed|throughput|eta|ms|duration)(?![a-z])(?:/[a-z]+)?"
"""Whole words: `beta`, `section` and `params` tell no time."""
_UNIT = r"(?:[a-z]*/s(?:ec)?|s|secs?|seconds?|ms|h|hrs?|hours?|m|mins?|minutes?)\b"
_CLOCK = r"(?<![A-Za-z_0-9.])[-+]?\d[\d:.]*(?:[eE][-+]?\d+)?"
_TIMES = re.compile(
    rf"(?:{_LABEL}|(?<![a-z])data(?:_time)?(?![a-z]))[\s:]*{_CLOCK}\s*\(\s*{_CLOCK}\s*\)|{_CLOCK}\s*{_UNIT}(?:/[a-z]+)?|{_LABEL}[^\dA-Za-z|,;]{{0,6}}?{_CLOCK}(?:\s*{_UNIT})?|\d+:\d[\d:.]*",
    re.I,
)
"""A number beside a word or unit of time, with its mean in parentheses (a meter's ``Time 0.1 (0.2)``, ``Data 0.1 (0.2)``). The rest is compared."""

NOISE = "noise"
"""A file of this name in the folder: the first weights are changed by one part in ten millions."""
UNSTABLE = (
    ". torch itself, with its first weights changed by one part in ten millions, is as far from its own numbers ({}): "
    "rounding grows in this script; compare fewer steps, or a smaller learning rate"
)
_SIZE = re.compile(r"torch\.Size\(\[([\d, ]*)\]\)")
_TYPE = re.compile(r"\b(?:torch\.)?((?:[Ff]loat|[Ii]nt|[Uu]int|[Bb]float)(?:8|16|32|64)|[Bb]ool)\b(?!\()")


@dataclass(frozen=True)
class Comparison:
    """What both runs printed, and how far their numbers are apart."""

    status: str
    """``equal``, ``not equal``, ``torch failed`` or ``mindspore failed``."""
    reason: str
    compared: int
    """Numbers compared."""
    worst: float
    torch: str
    mindspore: str
    number: bool = False
    """Whether what differs is a number."""


def compare(source: Path, out: Path, entry: Path, arguments: str, timeout: float = 600.0) -> Comparison:
    """Run ``entry`` (relative to IN and OUT) on both sides on CPU."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sides = {"torch": source, "mindspore": out}
        printed: dict[str, str] = {}
        for side, project in sides.items():
            place = folder / side
            if project.is_dir():
                shutil.copytree(
                    project, place, ignore=shutil.ignore_patterns("__pycache__", ".git", "report"), symlinks=True
                )
            else:
                place.mkdir()
                shutil.copy2(project, place / project.name)
            code, text = _run(side, folder, place / entry, arguments, timeout)
            if code:
                tail = "\n".join(text.strip().splitlines()[-12:])
                return Comparison(
                    f"{side} failed",
                    f"exit code {code}: {tail}",
                    0,
                    0.0,
                    printed.get("torch", text),
                    text if side == "mindspore" else "",
                )
            printed[side] = text
        found = judge(printed["torch"], printed["mindspore"])
        if not found.number:
            return found
        (folder / NOISE).touch()
        code, text = _run("torch", folder, folder / "torch" / entry, arguments, timeout)
        again = judge(printed["torch"], text) if not code else None
        return replace(found, reason=found.reason + UNSTABLE.format(again.reason)) if again and again.number else found


def _run(side: str, folder: Path, script: Path, arguments: str, timeout: float) -> tuple[int, str]:
    environment = {
        **os.environ,
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "GLOG_v": "3",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONHASHSEED": "0",  # the order of sets
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH")])
        ),
    }
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        f"ms_port.script.replay_{side}",
        str(folder),
        str(script),
        *shlex.split(arguments),
    ]
    try:
        done = subprocess.run(
            command, cwd=script.parent, env=environment, capture_output=True, text=True, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return 124, f"no end within {timeout:.0f} s"
    return done.returncode, done.stdout if done.returncode == 0 else done.stdout + done.stderr


def _plain(line: str) -> str:
    """torch's shapes and types as MindSpore prints them; times are left out."""
    line = _SIZE.sub(lambda found: f"({found[1]}{',' if found[1] and ',' not in found[1] else ''})", line)
    return _TIMES.sub("<time>", _TYPE.sub(lambda found: found[1].lower(), line))


def judge(torch: str, mindspore: str) -> Comparison:
    """Line by line: the words must be equal, the numbers within rounding; numbers of time are not compared."""
    left, right = _lines(torch), _lines(mindspore)
    worst, compared = 0.0, 0
    for number, (one, other) in enumerate(zip(left, right, strict=False), 1):
        one, other = _plain(one), _plain(other)
        if _NUMBER.sub("#", one) != _NUMBER.sub("#", other):
            return Comparison(
                "not equal", f"line {number}: {one!r} became {other!r}", compared, worst, torch, mindspore
            )
        for a, b in zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True):
            compared += a != "nan" or b != "nan"  # two of them prove nothing
            distance = _distance(a, b)
            worst = max(worst, distance)
            if distance > 1:
                return Comparison(
                    "not equal", f"line {number}: {a} became {b} in {other!r}", compared, worst, torch, mindspore, True
                )
    if len(left) != len(right):
        return Comparison("not equal", f"{len(left)} lines became {len(right)}", compared, worst, torch, mindspore)
    if not compared:
        return Comparison("not equal", "nothing was printed that could be compared", 0, 0.0, torch, mindspore)
    return Comparison("equal", "", compared, worst, torch, mindspore)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.replace("\r", "\n").splitlines() if line.strip()]


def _distance(one: str, other: str) -> float:
    """1 is the limit: one part in a thousand of the value, or one unit of the last printed place (ten of them for long numbers)."""
    a, b = float(one), float(other)
    if a == b or (a != a and b != b):
        return 0.0
    digits = len(one.partition(".")[2]) if "e" not in one.lower() else 0
    limit = max(1e-3 * abs(a), 1.01 * 10.0**-digits if digits else 0.0)
    return abs(a - b) / limit if limit else float("inf")
