"""``python -m benchmarks.samples``: PyTorch's own samples through ms-port, and a table of what became of them.

    python -m benchmarks.samples [convert] [run] [table] [--out DIR] [--samples N] [--match REGEX] [--again] [--limit N]

``convert`` captures and writes every sample, ``run`` runs what was written, ``table`` writes docs/samples.md. Without a
step all three. What is done already is not done again; ``--again`` forgets what matches; ``--limit`` ends a step early.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.samples.table import write_table


def main(arguments: list[str]) -> int:
    """Run the steps."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.samples", description=__doc__)
    parser.add_argument("steps", nargs="*", choices=[[], "convert", "run", "table"])
    parser.add_argument("--out", type=Path, default=Path("build/samples"))
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--match", default="")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--limit", type=int, default=1_000_000)
    options = parser.parse_args(arguments)
    steps = options.steps or ["convert", "run", "table"]
    options.out.mkdir(parents=True, exist_ok=True)
    if "convert" in steps:
        _convert(options)
    if "run" in steps:
        _run(options)
    if "table" in steps:
        write_table(_lines(options.out / "convert.jsonl"), _lines(options.out / "run.jsonl"), Path("docs/samples.md"))
    return 0


def _lines(file: Path) -> dict[str, dict[str, Any]]:
    """The last line of each key."""
    if not file.exists():
        return {}
    return {line["key"]: line for line in map(json.loads, file.read_text(encoding="utf-8").splitlines())}


def _forget(file: Path, pattern: str) -> dict[str, dict[str, Any]]:
    kept = {key: line for key, line in _lines(file).items() if not re.search(pattern, key)}
    file.write_text("".join(json.dumps(line) + "\n" for line in kept.values()), encoding="utf-8")
    return kept


def _samples(options: argparse.Namespace) -> Iterator[Any]:
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db

    from benchmarks.samples.written import module_samples, op_name, op_samples

    for info in module_db:
        if re.search(options.match, f"module:{info.name}:") or re.search(options.match, f"module-train:{info.name}:"):
            yield from module_samples(info, options.samples)
    for op in op_db:
        name = op_name(op)
        if any(
            re.search(options.match, f"{kind}:{name}:") for kind in ("op", "op-int64", "op-bool", "method", "inplace")
        ):
            yield from op_samples(op, options.samples)


def _convert(options: argparse.Namespace) -> None:
    from benchmarks.samples.converting import Converted, convert_sample
    from ms_port.opmap import OpMap

    warnings.simplefilter("ignore")
    file = options.out / "convert.jsonl"
    if options.again:
        _forget(file, options.match)
        _forget(options.out / "run.jsonl", options.match)
    done, op_map, start, count = _lines(file), OpMap.load(), time.time(), 0
    now = options.out / "now"
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    with file.open("a", encoding="utf-8") as out:
        if now.exists() and (key := now.read_text(encoding="utf-8")) not in done:
            done[key] = Converted(key, "", "crash", "the process died of it").to_json()
            print(json.dumps(done[key]), file=out, flush=True)
        for item in _samples(options):
            key = item[0] if isinstance(item, tuple) else item.key
            if count >= options.limit:
                break
            if key in done:
                continue
            if isinstance(item, tuple):
                made = Converted(key, "", "skipped", item[1])
            else:
                now.write_text(key, encoding="utf-8")
                made = convert_sample(item, op_map, options.out)
            made.commit = commit
            print(json.dumps(made.to_json()), file=out, flush=True)
            count += 1
    print(f"converted {count} samples in {time.time() - start:.0f} s")


def _in_turn(keys: list[str]) -> list[str]:
    """The first sample of each, then the second of each: what ends early has seen a bit of everything."""
    seen: Counter[str] = Counter()
    places: dict[str, int] = {}
    for key in keys:
        name = key.rpartition(":")[0]
        places[key] = seen[name]
        seen[name] += 1
    return sorted(keys, key=lambda key: places[key])


def _run(options: argparse.Namespace) -> None:
    from benchmarks.samples.running import run_samples
    from benchmarks.samples.written import package_name

    file = options.out / "run.jsonl"
    if options.again and "convert" not in options.steps:
        _forget(file, options.match)
    done = _lines(file)
    made = _lines(options.out / "convert.jsonl")
    ready = [key for key, line in made.items() if line["status"] == "ready" and re.search(options.match, key)]
    names = [package_name(key) for key in _in_turn(ready) if key not in done][: options.limit]
    start = time.time()
    with file.open("a", encoding="utf-8") as out:
        for number, ran in enumerate(run_samples(options.out, names)):
            print(json.dumps(asdict(ran)), file=out, flush=True)
            if number % 200 == 199:
                print(f"{number + 1} of {len(names)} in {time.time() - start:.0f} s", flush=True)
    print(f"ran {len(names)} samples in {time.time() - start:.0f} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
