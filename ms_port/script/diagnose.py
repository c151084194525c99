"""``ms-port diagnose``: what a log of a failed or stalled run says, by stable words in it and not by guessing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from ms_port.errors import BadInput

STAGES = ("import", "graph", "operator", "communication", "memory", "precision", "data")
STALLED = re.compile(r"hccl|init_process_group|rank|nccl|msrun|distributed", re.I)
_LARGEST = 64_000_000
_DETAIL = re.compile(r"0x[0-9a-fA-F]+|/[\w./-]{4,}|\b\d+\b|'[^']{30,}'|\[[\d, ]+\]")
_TROUBLE = re.compile(r"error|exception|fail|fatal|abort|traceback|refused|timeout|killed|\bE[A-Z]?\d{4}\b", re.I)
_OWN_LINE = re.compile(r"(?:In file |File \")([^\":\n]+\.py)\"?(?::(\d+)|, line (\d+))")


@dataclass(frozen=True)
class Symptom:
    """One row of symptoms.yaml."""

    id: str
    stage: str
    words: tuple[re.Pattern[str], ...]
    cause: str
    checks: tuple[str, ...]
    sample: str
    rule: str | None = None


@dataclass(frozen=True)
class Diagnosis:
    """A symptom and where it was seen."""

    symptom: Symptom
    file: str
    line: int
    text: str
    own: str | None
    """The line of the person's own file nearest to it."""


@dataclass(frozen=True)
class Read:
    """What one log holds."""

    file: str
    lines: int
    found: tuple[Diagnosis, ...]
    search: tuple[str, ...]
    """Where nothing is known: lines worth a search, without paths and numbers."""
    last: tuple[str, ...]
    """Where no line tells of trouble either: how the log ends."""
    stalled: bool
    """Whether it ends without an error after setting up communication."""


@cache
def symptoms() -> tuple[Symptom, ...]:
    """All rows, in their order."""
    rows: list[dict[str, Any]] = yaml.safe_load(
        resources.files("ms_port.script").joinpath("symptoms.yaml").read_text(encoding="utf-8")
    )
    return tuple(
        Symptom(
            row["id"],
            row["stage"],
            tuple(re.compile(w) for w in row["words"]),
            row["cause"],
            tuple(map(str, row["checks"])),
            row["sample"],
            row.get("rule"),
        )
        for row in rows
    )


def diagnose(path: Path) -> Read:
    """Read one log. Raises BadInput if it can't be read."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_LARGEST)
    except OSError as error:
        raise BadInput(
            f"{path} can't be read: {error.strerror}", where=str(path), advice="name the log of the run"
        ) from None
    return diagnose_text(data.decode("utf-8", "replace"), str(path))


def diagnose_text(text: str, name: str) -> Read:
    """Every symptom at its first line; the first one found stands first, within one line the more special one."""
    lines = text.splitlines()
    found: dict[str, Diagnosis] = {}
    taken: set[int] = set()
    for number, line in enumerate(lines):
        for symptom in symptoms():
            if symptom.id in found or number in taken or not any(word.search(line[:4000]) for word in symptom.words):
                continue
            found[symptom.id] = Diagnosis(symptom, name, number + 1, line.strip()[:300], _own_line(lines, number))
            taken.add(number)
    ordered = sorted(
        found.values(), key=lambda d: (STAGES.index(d.symptom.stage) if d.symptom.stage != "precision" else 9, d.line)
    )
    trouble = [line for line in lines if _TROUBLE.search(line)]
    stalled = not trouble and bool(lines) and bool(STALLED.search("\n".join(lines[-40:])))
    search = () if found else tuple(_searchable([line for line in trouble if not line.startswith("Traceback (")]))
    last = () if found or search else tuple(line.strip()[:160] for line in lines if line.strip())[-3:]
    return Read(name, len(lines), tuple(ordered), search, last, stalled and not found)


def _own_line(lines: Sequence[str], number: int) -> str | None:
    """The nearest line of a file that belongs to no installed package."""
    for line in [*lines[number : number + 40], *reversed(lines[max(0, number - 40) : number])]:
        match = _OWN_LINE.search(line)
        if match and "site-packages" not in match[1] and "/lib/python" not in match[1]:
            return f"{match[1]}:{match[2] or match[3]}"
    return None


def _searchable(lines: Sequence[str]) -> list[str]:
    """Lines without what is special to this run."""
    cleaned = [" ".join(_DETAIL.sub("", line).split())[:160] for line in lines]
    return list(dict.fromkeys(line for line in reversed(cleaned) if len(line) > 12))[:5]
