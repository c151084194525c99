"""``ms-port scan``: what stands in the way of a project, from its source alone. Nothing of it is imported or run."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ms_port.opmap import OpMap
from ms_port.script.apis import apis, normal
from ms_port.script.checks import Check, check_file
from ms_port.script.project import FOREIGN, SKIPPED

LARGEST = 4_000_000
"""Bytes beyond which a file is named and not read."""


@dataclass(frozen=True)
class Finding:
    """One place."""

    rule: str
    file: str
    line: int
    what: str


@dataclass
class Scanned:
    """What was found in a project."""

    root: Path
    files: int = 0
    lines: int = 0
    torch_files: int = 0
    findings: list[Finding] = field(default_factory=list)
    uses: Counter[str] = field(default_factory=Counter)
    """torch APIs and how often each is used."""
    status: dict[str, str] = field(default_factory=dict)
    """API -> supported, differs, unsupported, unknown."""
    places: dict[str, tuple[str, int]] = field(default_factory=dict)
    """API -> its first place."""
    frameworks: dict[str, str] = field(default_factory=dict)
    switches: set[str] = field(default_factory=set)
    entries: list[str] = field(default_factory=list)
    version: str = ""
    models: list[str] = field(default_factory=list)

    def of(self, *rules: str) -> list[Finding]:
        return [f for f in self.findings if f.rule in rules]


def scan(paths: Iterable[Path], workers: int | None = None) -> Scanned:
    """Scan files and folders. Broken, huge and unreadable files become findings; nothing is fatal."""
    roots = list(paths)
    found = Scanned(roots[0] if roots else Path("."))
    jobs = [(str(path), _shown(path, root)) for root in roots for path in files_below(root)]
    count = workers or min(4, os.cpu_count() or 1)
    if count > 1 and len(jobs) > 200:
        with ProcessPoolExecutor(count) as pool:
            results = list(pool.map(check_file, jobs, chunksize=32))
    else:
        results = list(map(check_file, jobs))
    for result in results:
        _take(found, result)
    _classify(found)
    found.findings.sort(key=lambda f: (f.file, f.line, f.rule))
    return found


def files_below(root: Path) -> Iterator[Path]:
    """Python, CUDA and shell files, requirement lists and YAML; links and special files are left alone."""
    if root.is_file():
        yield root
        return
    stack = [root]
    while stack:
        folder = stack.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda e: e.name)
        except OSError:
            continue
        for entry in entries:
            try:
                if entry.is_symlink():
                    continue
                if entry.is_dir():
                    if entry.name not in SKIPPED:
                        stack.append(Path(entry.path))
                elif entry.is_file() and entry.name.endswith(
                    (".py", ".cu", ".cuh", ".sh", "requirements.txt", ".ipynb")
                ):
                    yield Path(entry.path)
            except OSError:
                continue


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if root.is_dir() else path.name


def _take(found: Scanned, result: Check) -> None:
    found.files += 1
    found.lines += result.lines
    found.torch_files += result.torch
    found.findings += [Finding(rule, result.file, line, what) for rule, line, what in result.findings]
    found.switches |= set(result.switches)
    found.models += result.models
    if result.main and result.torch:
        found.entries.append(result.file)
    found.version = found.version or result.version
    for name, lines in result.uses.items():
        found.uses[name] += len(lines)
        found.places.setdefault(name, (result.file, lines[0]))
    for name, line in result.frameworks.items():
        found.frameworks.setdefault(name, f"{result.file}:{line}")


def _classify(found: Scanned) -> None:
    rows = known_rows()
    for name in found.uses:
        found.status[name] = status_of(name, rows)


@cache
def known_rows() -> dict[str, bool]:
    """APIs of the op map; whether something differs."""
    op_map = OpMap.load()
    return {api: "MSP5" in op_map.text_of(api).text for api in op_map.apis}


def status_of(name: str, rows: dict[str, bool]) -> str:
    """supported, differs, unsupported or unknown."""
    table = apis()
    name = normal(name)
    if name in rows:
        return "differs" if rows[name] else "supported"
    if name in table.refused:
        return "unsupported"
    if (
        name in table.parts
        or name in table.values
        or name in table.templates
        or name in table.drop
        or name in table.identity
        or name in table.contexts
    ):
        return "supported"
    last = name.rpartition(".")[2]
    if (
        name.startswith("torch.")
        and name.count(".") == 1
        and re.fullmatch(
            r"(u?int|float|bfloat|complex)\d+|float|double|half|long|int|short|bool|strided|channels_last|contiguous_format",
            last,
        )
    ):
        return "supported"
    if (
        f"{name}_" in rows
        or name in ("torch.nn.functional", "torch.nn.init", "torch.distributed")
        or name.startswith("torch.backends.")
    ):
        return "supported"
    if name.split(".")[0] == "torchvision" and ".transforms" in name:
        return "supported"
    return "unknown" if name.split(".")[0] in FOREIGN else "unsupported"
