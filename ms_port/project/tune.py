"""``ms-port tune-data OUT``: how many workers, of which kind, and how much prefetch give the most samples a second."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ms_port.errors import BadInput

Kind: TypeAlias = Literal["thread", "process", "torch"]
_MEASURE = """
import json, os, sys, time
workers, kind, prefetch, seconds = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
sys.argv = ["train.py", *sys.argv[5:]]
sys.path.insert(0, os.getcwd())
import dataset, train
options = train.read_options()
options.workers, options.worker_kind, options.prefetch = workers, kind, prefetch
if kind == "torch":
    import torch
    samples = dataset.own_data(options.data)()
    loader = torch.utils.data.DataLoader(samples, options.batch_size, shuffle=True, num_workers=workers, drop_last=True)
    def endless():
        while True:
            yield from loader
    found = endless()
else:
    found = dataset.batches(options, 10**9)
next(found)
started, count = time.perf_counter(), 0
while (spent := time.perf_counter() - started) < seconds:
    next(found)
    count += 1
print("measured", count * options.batch_size / spent, flush=True)
os._exit(0)  # worker processes need not be waited for
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to read the data; ``torch`` is torch's DataLoader, as a measure."""

    workers: int
    kind: Kind
    prefetch: int = 16


@dataclass(frozen=True, slots=True)
class Speed:
    """Samples a second of a setting, the median of the rounds; 0 where it failed, and what it said."""

    setting: Setting
    samples: float
    said: str = ""


def tune(out: Path, options: Sequence[str] = (), seconds: float = 2.0, rounds: int = 2) -> list[Speed]:
    """Measure all settings in turn, round after round; the fastest first, torch's DataLoader (if any) among them.

    ``options`` are those of train.py (``--data``, ``--batch-size``). Raises BadInput: OUT has no training files, or its
    data is generated.
    """
    if not (out / "dataset.py").is_file():
        raise BadInput(f"{out} has no dataset.py", where="OUT", advice="a folder that `ms-port convert` wrote")
    data = _data_of(out, options)
    if not data:
        raise BadInput("the data is generated: there is nothing to tune", where="--data", advice="name your data")
    cores = os.cpu_count() or 1
    settings = list(_settings(data, cores))
    found = _measured(out, settings, options, seconds, rounds)
    best = max((s for s in found if s.setting.kind != "torch"), key=lambda s: s.samples)
    if best.samples == 0:
        raise BadInput(f"the data can't be read: {best.said}", where=f"--data {data}", advice="see it with train.py")
    others = [Setting(best.setting.workers, best.setting.kind, prefetch) for prefetch in (4, 64)]
    found += _measured(out, others, options, seconds, rounds)
    return sorted(found, key=lambda speed: -speed.samples)


def write_setting(out: Path, setting: Setting) -> None:
    """Put a setting into OUT/config.yaml; its other lines stay."""
    file = out / "config.yaml"
    text = file.read_text(encoding="utf-8")
    for key, value in (
        ("workers", str(setting.workers)),
        ("worker_kind", json.dumps(setting.kind)),
        ("prefetch", str(setting.prefetch)),
    ):
        text = re.sub(rf"^{key}:.*$", f"{key}: {value}", text, flags=re.MULTILINE)
    file.write_text(text, encoding="utf-8")


def _settings(data: str, cores: int) -> Iterator[Setting]:
    counts = sorted({1, 2, min(cores, 4), min(cores, 8)})
    yield from (Setting(count, "thread") for count in counts)
    if re.fullmatch(r".+\.py:\w+", data):  # Python code is what processes help, and what torch can read too
        yield from (Setting(count, "process") for count in counts if count > 1)
        yield from (Setting(count, "torch") for count in (0, min(cores, 4)))


def _measured(
    out: Path, settings: Sequence[Setting], options: Sequence[str], seconds: float, rounds: int
) -> list[Speed]:
    speeds: dict[Setting, list[Speed]] = {setting: [] for setting in settings}
    for _ in range(rounds):  # in turn, so that what else the machine does falls on all of them
        for setting in settings:
            speeds[setting].append(_measure(out, setting, options, seconds))
    return [
        Speed(setting, statistics.median(s.samples for s in found), found[-1].said) for setting, found in speeds.items()
    ]


def _measure(out: Path, setting: Setting, options: Sequence[str], seconds: float) -> Speed:
    command = [sys.executable, "-c", _MEASURE, str(setting.workers), setting.kind, str(setting.prefetch), str(seconds)]
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "GLOG_v": "3"}
    try:
        done = subprocess.run(
            [*command, *options], cwd=out, env=environment, capture_output=True, text=True, timeout=120 + 10 * seconds
        )
    except subprocess.TimeoutExpired:
        return Speed(setting, 0.0, "no batch within two minutes")
    found = re.search(r"^measured (\S+)$", done.stdout, re.MULTILINE)
    if found:
        return Speed(setting, float(found[1]))
    return Speed(setting, 0.0, next(iter(reversed(done.stderr.strip().splitlines())), f"code {done.returncode}"))


def _data_of(out: Path, options: Sequence[str]) -> str:
    """``--data`` of the options, else of config.yaml."""
    for i, option in enumerate(options):
        if option.startswith("--data="):
            return option.partition("=")[2]
        if option == "--data" and i + 1 < len(options):
            return options[i + 1]
    found = re.search(r'^data: "(.*)"$', (out / "config.yaml").read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else ""
