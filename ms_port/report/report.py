"""The report of one conversion: one JSON; CSV, HTML and terminal are views of it."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ms_port.ir.flags import Flag
from ms_port.report.rules import rules

SCHEMA = 1
Status: TypeAlias = Literal["ok", "flagged", "failed"]
# The columns of msTransplant's files of the same names.
_API_COLUMNS = ("File", "Start Line", "End Line", "OP", "Tips")
_CHANGE_COLUMNS = ("File", "Start Line", "End Line", "Operation Type", "Message")


@dataclass(frozen=True, slots=True)
class Coverage:
    """How the torch calls of the translated source were carried over."""

    calls: int = 0
    mapped: int = 0
    decomposed: int = 0
    flagged: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """A source line that the port has differently: ``kind`` is ``modify``, ``delete`` or ``insert``."""

    file: str
    line: int
    end_line: int
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """All that is said about one port. ``verification``: level -> {status, max_error, truth_error, worst}."""

    model: str
    target: str | None = None
    flags: tuple[Flag, ...] = ()
    coverage: Coverage = Coverage()
    verification: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    edits: tuple[tuple[str, str], ...] = ()
    """(file, what became of it)"""
    conflicts: int = 0
    """Marked in edited files: a person has to settle them."""
    versions: Mapping[str, str] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()

    @property
    def open_flags(self) -> tuple[Flag, ...]:
        return tuple(flag for flag in self.flags if flag.open)

    @property
    def unequal(self) -> bool:
        """Whether a level of verification found the port not equal, or crashed."""
        return any(level.get("status") in ("not equal", "crashed") for level in self.verification.values())

    @property
    def unproven(self) -> bool:
        """Whether a level was asked for and could not show anything, or not run (there is a note then)."""
        levels = self.verification.values()
        return any(v.get("status") == "not proven" or (v.get("status") == "not run" and v.get("notes")) for v in levels)

    @property
    def status(self) -> Status:
        if self.unequal:
            return "failed"
        return "flagged" if self.open_flags or self.unproven or self.conflicts else "ok"

    def to_json(self) -> dict[str, Any]:
        """What ``report.json`` holds (``schema.json`` describes it)."""
        return {
            "schema": SCHEMA,
            "model": self.model,
            "target": self.target,
            "status": self.status,
            "flags": [_flag_json(flag) for flag in self.flags],
            "coverage": asdict(self.coverage),
            "verification": {level: dict(found) for level, found in self.verification.items()},
            "timings": {stage: round(seconds, 3) for stage, seconds in self.timings.items()},
            "notes": list(self.notes),
            "edits": [{"file": file, "action": action} for file, action in self.edits],
            "versions": dict(self.versions),
        }


def _flag_json(flag: Flag) -> dict[str, Any]:
    """In the order of the contract."""
    found = asdict(flag)
    order = ("rule", "severity", "op", "module", "source", "generated", "message", "advice")
    return {name: found[name] for name in order} | {"advice": advice_of(flag)}


def advice_of(flag: Flag) -> str:
    """The flag's own advice, else the rule's."""
    rule = rules().get(flag.rule)
    return flag.advice or (rule.instead if rule else "")


def write_report(report: Report, folder: Path, log: Sequence[str] = ()) -> None:
    """Write report.json, the CSVs, report.html and conversion.log into ``folder`` (made if it isn't there)."""
    write_json_and_page(report, folder)
    unknown = [flag for flag in report.flags if flag.rule == "MSP102"]
    unsupported = [flag for flag in report.flags if flag.rule.startswith("MSP1") and flag.open and flag not in unknown]
    _write_csv(folder / "unsupported_api.csv", _API_COLUMNS, map(_api_row, unsupported))
    _write_csv(folder / "unknown_api.csv", _API_COLUMNS, map(_api_row, unknown))
    changes = [(c.file, c.line, c.end_line, c.kind, c.message) for c in report.changes]
    _write_csv(folder / "change_list.csv", _CHANGE_COLUMNS, changes)
    (folder / "conversion.log").write_text("".join(f"{line}\n" for line in log), encoding="utf-8")


def write_json_and_page(report: Report, folder: Path) -> None:
    """Write report.json and report.html alone: a later verification leaves the CSVs as they are."""
    from ms_port.report.html import render

    folder.mkdir(parents=True, exist_ok=True)
    found = report.to_json()
    (folder / "report.json").write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "report.html").write_text(render(found), encoding="utf-8")


def _api_row(flag: Flag) -> tuple[object, ...]:
    file, line = (flag.source.file, flag.source.line) if flag.source else ("", "")
    return file, line, line, flag.op or "", f"{flag.rule}: {flag.message} {advice_of(flag)}".strip()


def _write_csv(file: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    # With a byte order mark, so that spreadsheets read it as UTF-8.
    with file.open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(rows)
