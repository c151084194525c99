"""Runs cases of a zoo, each in a process forked from one that has all imports loaded, with limits of time and memory.

A case is a model with example inputs. What becomes of it is one JSON line; a run that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ms_port.conversion import Level, Request, run


@dataclass(frozen=True)
class Example:
    """A model and the arguments that its ``forward`` gets."""

    target: Any
    """A class or factory, called with ``arguments``; or an instance."""
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One line of a zoo's table. ``make`` is called in the forked process and may be slow; it may raise."""

    name: str
    make: Callable[[], Example]


@dataclass(frozen=True)
class Limits:
    """Processor seconds and bytes that one case may take, its MindSpore process included.

    Not the clock's seconds: on a busy machine those would say more of the machine than of the port.
    """

    seconds: float = 300.0
    bytes: int = 4 * 2**30
    budget: float = float("inf")
    """Seconds by the clock after which no further case is begun."""


HANGS = 10
"""A case that took so many times its limit by the clock waits for something that doesn't come."""


Result = dict[str, Any]
"""``name``, ``level``, ``status`` and what the stages told (see ``_report``)."""

STATUSES = ("ok", "flagged", "not equal", "not proven", "crashed", "too slow", "too large", "torch fails", "not built")
"""``crashed``: ms-port or MindSpore; the last two are no fault of the port and count for nothing."""


def run_cases(cases: Sequence[Case], level: Level, results: Path, limits: Limits, keep: Path | None = None) -> None:
    """Append to ``results`` (JSON lines) what it does not hold at this level yet. Several runs may share the file.

    ``keep`` is a folder in which the ports stay.
    """
    commit, start = _commit(), time.monotonic()
    results.parent.mkdir(parents=True, exist_ok=True)
    for number, case in enumerate(cases, 1):
        if any(r["name"] == case.name and r["level"] == level for r in read_results(results)):
            continue
        if time.monotonic() - start > limits.budget:
            return
        result = run_case(case, level, limits, keep, commit)
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result, ensure_ascii=False) + "\n")
        print(f"{number}/{len(cases)} {describe(result)}", flush=True)


def _commit() -> str:
    """The commit that is checked out, with ``+`` where files of the program differ from it; empty without git."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def read_results(path: Path) -> list[Result]:
    """The JSON lines of a file; none where it isn't there. A later line of one name and level replaces an earlier."""
    if not path.is_file():
        return []
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return list({(r["name"], r["level"]): r for r in lines}.values())


def describe(result: Result) -> str:
    """One line for the terminal."""
    text = f"{result['status']:11} {result['name']} {result['seconds']:.0f}s"
    causes = causes_of(result)
    return f"{text}: {causes[0][:150]}" if causes else text


def causes_of(result: Result) -> list[str]:
    """Why a case isn't ok, in words that are alike for alike causes: errors before warnings."""
    if result.get("error"):
        return [str(result["error"])]
    found = [
        f"{flag['rule']} {flag['op'] or ''} {flag['message']}"
        for flag in sorted(result.get("flags", ()), key=lambda f: str(f["severity"]))
    ]
    for level, outcome in result.get("verification", {}).items():
        if outcome["status"] != "equal":
            found.append(f"{level}: {outcome['status']} {outcome['why']}")
    return found


def run_case(case: Case, level: Level, limits: Limits, keep: Path | None = None, commit: str = "") -> Result:
    """One case in a process of its own; ``commit`` names the program that is measured."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ms-port-coverage-") as name:
        folder = Path(name)
        process = multiprocessing.get_context("fork").Process(target=_child, args=(case, level, folder, keep))
        process.start()
        assert process.pid is not None
        stopped, peak = _watch(process, limits, start)
        file = folder / "result.json"
        if stopped is None and file.is_file():
            result: Result = json.loads(file.read_text(encoding="utf-8"))
        else:
            stage = folder / "stage"
            at = stage.read_text(encoding="utf-8") if stage.is_file() else "start"
            status = stopped or "crashed"
            result = {"status": status, "error": f"{status} in {at}" + ("" if stopped else f" ({process.exitcode})")}
            if at in ("build", "torch") and stopped is not None:
                result["status"] = "not built"
    seconds = round(time.monotonic() - start, 1)
    return {"name": case.name, "level": level, **result, "seconds": seconds, "peak_mb": peak >> 20, "commit": commit}


def _watch(process: multiprocessing.process.BaseProcess, limits: Limits, start: float) -> tuple[str | None, int]:
    """Wait for the end; end it, with its children, where it is over a limit. The limit and the most bytes seen."""
    assert process.pid is not None
    peak, used = 0, 0.0
    while process.exitcode is None:
        process.join(0.2)
        size, seconds = _usage(process.pid)
        peak, used = max(peak, size), max(used, seconds)
        if used > limits.seconds or time.monotonic() - start > HANGS * limits.seconds:
            stopped = "too slow"
        elif peak > limits.bytes:
            stopped = "too large"
        else:
            continue
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
        return stopped, peak
    return None, peak


def _usage(group: int) -> tuple[int, float]:
    """Resident bytes of all processes of a process group, without what they share; their processor seconds."""
    total, ticks, page = 0, 0, os.sysconf("SC_PAGE_SIZE")
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[2]) == group:
                _, resident, shared, *_ = (entry / "statm").read_text().split()
                total += (int(resident) - int(shared)) * page
                ticks += sum(map(int, fields[11:15]))  # with those of children that ended
        except OSError:
            continue  # it ended meanwhile
    return total, ticks / os.sysconf("SC_CLK_TCK")


def _child(case: Case, level: Level, folder: Path, keep: Path | None) -> None:
    os.setpgid(0, 0)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    stage = folder / "stage"

    def say(text: str) -> None:
        stage.write_text(text, encoding="utf-8")

    try:
        result = _convert(case, level, folder, say)
    except Exception as error:
        at = stage.read_text(encoding="utf-8")
        status = {"build": "not built", "torch": "torch fails"}.get(at, "crashed")
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        text = " ".join(str(error).split())[:300]
        result = {"status": status, "error": f"{at}: {type(error).__name__} {text} ({place})"}
    if keep is not None and (folder / "out").is_dir():
        shutil.copytree(folder / "out", keep / case.name.replace("/", "."), dirs_exist_ok=True)
    (folder / "result.json").write_text(json.dumps(result, ensure_ascii=False), encoding="utf-8")


def _convert(case: Case, level: Level, folder: Path, say: Callable[[str], None]) -> Result:
    import torch

    from ms_port.capture import Inputs

    torch.set_num_threads(1)
    torch.manual_seed(0)
    say("build")
    example = case.make()
    say("torch")
    _run_torch(example)
    say("convert")
    request = Request(
        target=example.target,
        inputs=Inputs(tuple(example.args), dict(example.kwargs)),
        arguments=dict(example.arguments),
        out=folder / "out",
        level=level,
        name="port",
    )
    return _report(run(request, lambda event: say(event.stage)).report.to_json(), folder / "out" / "port")


def _run_torch(example: Example) -> None:
    """torch itself: a model that doesn't run on its inputs is no case."""
    import torch

    with torch.no_grad():
        target = example.target
        model = target if isinstance(target, torch.nn.Module) else target(**example.arguments)
        model.eval()
        model(*example.args, **example.kwargs)


def _report(report: Mapping[str, Any], package: Path) -> Result:
    """What the tables and the search for causes need of report.json."""
    keys = ("rule", "severity", "op", "message")
    flags = [{k: f[k] for k in keys} | {"source": _place(f["source"])} for f in report["flags"]]
    levels = {name: found for name, found in report["verification"].items() if found["status"] != "not run"}
    statuses = [found["status"] for found in levels.values()]
    open_flags = [f for f in flags if f["severity"] != "info"]
    texts = [f.read_text(encoding="utf-8") for f in sorted(package.glob("*.py"))]
    status = next((s for s in ("crashed", "not equal", "not proven") if s in statuses), None)
    if any(f["severity"] == "error" for f in flags):
        status = "flagged"  # it says itself that it can't run
    return {
        "status": status or ("flagged" if open_flags else "ok"),
        "flags": open_flags,
        "held": sum(f["rule"] == "MSP105" for f in flags),
        "coverage": report["coverage"],
        "verification": {name: _level(found) for name, found in levels.items()},
        "timings": report["timings"],
        "classes": sum(text.count("\nclass ") for text in texts),
        "lines": sum(len(text.splitlines()) for text in texts),
    }


def _place(source: Mapping[str, Any] | None) -> str:
    return f"{Path(source['file']).name}:{source['line']}" if source else ""


def _level(found: Mapping[str, Any]) -> dict[str, Any]:
    """Status, the largest error as a multiple of what is allowed, and why it isn't equal."""
    ratios = [w["error"] / w["allowed"] for w in found["worst"] if w["error"] is not None and w["allowed"]]
    why = " ".join(str(found.get("message") or "").split())[:400]
    if not why and found.get("first"):
        first = found["first"]
        why = f"first in {first['cls']} ({first['path']}): {first['why']}"[:300]
    if not why and found.get("not_proven"):
        why = f"not proven: {', '.join(found['not_proven'][:3])}"
    if not why and found["worst"]:
        why = f"{found['worst'][0]['tensor']} {found['worst'][0]['note']}"
    return {
        "status": found["status"],
        "ratio": round(max(ratios, default=0.0), 3),
        "why": why,
        "where": found.get("where", ""),
        "seconds": found.get("seconds", {}),
    }
