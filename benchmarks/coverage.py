"""``python -m benchmarks.coverage {torchvision,timm,transformers,extra}``: how much of a zoo converts and is equal.

Every case is converted, compiled in GRAPH_MODE and compared with torch, forward and gradient; with ``--level none`` it
is only converted, which is quick and shows most causes of failure. Results go to ``build/coverage/ZOO.jsonl``; what
stands there isn't run again, and two runs (``--every 2``, with and without ``--skip 1``) may share it. The zoo's tables
in ``docs/coverage.md`` are written anew when a run has ended.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.coverage_run import Case, Limits, Result, causes_of, read_results, run_cases

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "coverage.md"
ZOOS = {
    "torchvision": "benchmarks.coverage_vision",
    "timm": "benchmarks.coverage_vision",
    "transformers": "benchmarks.coverage_transformers",
    "extra": "benchmarks.coverage_extra",
}
"""Zoo -> the module whose ``cases(zoo)`` lists its models."""

HEAD = """# Coverage

Written by `python -m benchmarks.coverage ZOO`: models of public libraries with small configurations and random weights,
compared with torch in GRAPH_MODE on CPU. Beside a verdict stands the largest error as a multiple of what is allowed
([the rule](verification.md#the-rule)); memory is that of all processes of the case, without what they share. What torch
itself does not run on the inputs that were made counts for nothing.

| status | |
| --- | --- |
| ok | equal, forward in evaluation and training and every gradient, and no flag is open |
| flagged | the report names lines at which the port may differ or can't run; it may be equal all the same |
| not proven | nothing differs, but some output, gradient or input could not be judged |
| not equal | differs and says nothing: a fault |
| crashed | ms-port or MindSpore failed |
| too slow, too large | over the limit of time or memory, mostly of compiling or verifying |
"""


def cases(zoo: str) -> list[Case]:
    """The cases of a zoo, in a fixed order. Names are unique."""
    found: list[Case] = list(importlib.import_module(ZOOS[zoo]).cases(zoo))
    doubled = [name for name, count in Counter(c.name for c in found).items() if count > 1]
    assert not doubled, f"{zoo}: {doubled}"
    return found


def main(arguments: Sequence[str]) -> int:
    """Run a zoo, or what matches a pattern of it; print a summary by cause; write its tables."""
    options = _parser().parse_intermixed_args(arguments)
    chosen = cases(options.zoo)
    results = options.results / f"{options.zoo}.jsonl"
    if options.match:
        chosen = [c for c in chosen if any(fnmatch.fnmatch(c.name, p) for p in options.match)]
    chosen = chosen[options.skip :: options.every]
    if options.again is not None:
        _forget(results, {c.name for c in chosen}, options.level, options.again)
    import ms_port.capture
    import ms_port.emit
    import ms_port.pipeline
    import ms_port.verify
    import ms_port.weights  # noqa: F401  (loaded once, before the forks)

    limits = Limits(options.seconds, int(options.gigabytes * 2**30), options.budget)
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
    if not options.tables:
        run_cases(chosen, options.level, results, limits, options.keep)
    found = {r["name"]: r for r in read_results(results) if r["level"] == options.level}
    print("\n".join(summary([found[c.name] for c in chosen if c.name in found])))
    if options.level == "gradient":
        whole = cases(options.zoo)
        write_section(options.zoo, [found[c.name] for c in whole if c.name in found], len(whole))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("zoo", choices=list(ZOOS))
    parser.add_argument("match", nargs="*", help="patterns of names, such as 'bert*'")
    parser.add_argument("--level", choices=("none", "forward", "gradient"), default="gradient")
    parser.add_argument("--again", metavar="STATUS", nargs="*", help="run again what had a status (none given: all)")
    parser.add_argument("--every", type=int, default=1, help="every n-th case only")
    parser.add_argument("--skip", type=int, default=0, help="leave out so many at the beginning")
    parser.add_argument("--seconds", type=float, default=300.0, help="limit a case, of processor time")
    parser.add_argument("--gigabytes", type=float, default=4.0, help="limit a case")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no case is begun")
    parser.add_argument("--tables", action="store_true", help="run nothing: write the tables of what there is")
    parser.add_argument("--keep", type=Path, help="folder in which the ports stay")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "coverage", help="folder of the JSON lines")
    return parser


def _forget(results: Path, names: set[str], level: str, statuses: list[str] | None) -> None:
    import json

    kept = [
        r
        for r in read_results(results)
        if not (r["name"] in names and r["level"] == level and (not statuses or r["status"] in statuses))
    ]
    results.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in kept), encoding="utf-8")


# --- what is told ---------------------------------------------------------------------------------------------------


def summary(results: Sequence[Result]) -> list[str]:
    """Counts and the commonest causes, as Markdown."""
    ran = [r for r in results if r["status"] not in ("not built", "torch fails")]
    levels = [r.get("verification", {}) for r in ran]
    proven = [[v.get(level, {}).get("status") == "equal" for v in levels] for level in ("forward", "gradient")]
    statuses = Counter(str(r["status"]) for r in results)
    lines = [
        f"{len(results)} models, of which torch runs {len(ran)}:",
        f"{sum(not r.get('flags') and 'flags' in r for r in ran)} converted without a flag, "
        f"{sum(r['status'] == 'flagged' for r in ran)} flagged, "
        f"{sum(proven[0])} equal forward, {sum(proven[1])} equal in every gradient.",
        "",
        "By status: " + ", ".join(f"{status} {count}" for status, count in statuses.most_common()) + ".",
        "",
    ]
    counted = Counter(cause for r in ran for cause in dict.fromkeys(map(kind, causes_of(r))))
    first = Counter(kind(found[0]) for r in ran if (found := causes_of(r)))
    if counted:
        lines += ["| models | first cause in | cause |", "| --- | --- | --- |"]
        lines += [f"| {n} | {first[cause]} | {_cell(cause)} |" for cause, n in counted.most_common(30)]
    return lines


def kind(cause: str) -> str:
    """A cause without what is particular to a model: numbers and quoted names."""
    cause = re.sub(r"`[^`]*`|'[^']*'|\"[^\"]*\"", "`…`", cause)
    cause = re.sub(r"\S*\.(\w+) (?=could not be ported|is written)", "… ", cause)
    cause = re.sub(r"/?<\w+ [\w.]*>|[\w./]+:\d+", "…", cause)
    return re.sub(r"(?<!MSP)\b\d+(\.\d+)?(e-?\d+)?\b", "N", cause)[:160]


def write_section(zoo: str, results: Sequence[Result], whole: int) -> None:
    """Replace the zoo's section of docs/coverage.md; ``whole`` is how many models the zoo has here."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else HEAD
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    sections = {part.split("\n", 1)[0]: part for part in parts[1:]}
    commits = ", ".join(f"{commit or '?'} ({n})" for commit, n in Counter(r.get("commit") for r in results).items())
    measured = f"Measured so far: {len(results)} of {whole} models; commits (models): {commits}."
    sections[f"## {zoo}"] = "\n".join([f"## {zoo}", "", measured, "", *summary(results), "", *table(results), ""])
    body = [sections[name].rstrip() + "\n" for name in sorted(sections)]
    PAGE.write_text("\n".join([parts[0].rstrip() + "\n", *body]), encoding="utf-8")


def table(results: Sequence[Result]) -> list[str]:
    """A line a model."""
    head = (
        "model, status, classes, lines, calls, mapped, decomposed, flagged, open flags, "
        "forward, gradient, convert s, MindSpore s, all s, MB, commit"
    ).split(", ")
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for r in results:
        if r["status"] in ("not built", "torch fails"):
            continue
        coverage, timings = r.get("coverage", {}), r.get("timings", {})
        levels = [r.get("verification", {}).get(level) for level in ("forward", "gradient")]
        convert = sum(timings.get(stage, 0.0) for stage in ("capture", "translate", "emit", "weights"))
        run = sum(level["seconds"].get("mindspore", 0.0) for level in levels if level)
        size = [r.get("classes", ""), r.get("lines", "")]
        calls = [coverage.get(k, "") for k in ("calls", "mapped", "decomposed", "flagged")]
        shown = [f"{level['status']} ({level['ratio']})" if level else "" for level in levels]
        times = [f"{convert:.1f}", f"{run:.0f}", f"{r['seconds']:.0f}", r.get("peak_mb", ""), r.get("commit", "")]
        row = [r["name"], r["status"], *size, *calls, len(r.get("flags", ())), *shown, *times]
        lines.append(f"| {' | '.join(map(str, row))} |")
    failed = [r for r in results if r["status"] != "ok" and r["status"] not in ("not built", "torch fails")]
    if failed:
        lines += ["", "What is not ok, and the first reason:", ""]
        lines += [f"- {r['name']}: {r['status']}. {_cell((causes_of(r) or [''])[0])[:300]}" for r in failed]
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
