"""What the terminal shows of a report, as Rich renderables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from ms_port.ir.flags import Flag
from ms_port.report.report import Report, advice_of

_COLOURS = {
    "ok": "green",
    "equal": "green",
    "flagged": "yellow",
    "not proven": "yellow",
    "warning": "yellow",
    "info": "dim",
}


def _coloured(word: str) -> str:
    return f"[{_COLOURS.get(word, 'red')}]{escape(word)}[/]"


def summary(report: Report, limit: int = 20) -> RenderableType:
    """Status, verification, and the first ``limit`` flags grouped by rule and place."""
    parts: list[RenderableType] = [f"[bold]{escape(report.model)}[/]: {_coloured(report.status)}"]
    cover = report.coverage
    if cover.calls:
        rest = f", {cover.decomposed} expanded" if cover.decomposed else ""
        parts.append(f"{cover.calls} torch calls: {cover.mapped} mapped{rest}, {cover.flagged} flagged")
    if any(found.get("status") != "not run" for found in report.verification.values()):
        parts.append(_verification(report))
    parts += _explained(report)
    if report.flags:
        parts += _flags(report.flags, limit)
    parts += [f"[yellow]{escape(file)}[/]: your version was {escape(action)}" for file, action in report.edits]
    parts += [f"[dim]{escape(note)}[/]" for note in report.notes]
    return Group(*parts)


def _verification(report: Report) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("level", "verdict", "largest error", "torch's own"):
        table.add_column(column, overflow="fold")
    for level, found in report.verification.items():
        ran = found.get("status") != "not run"
        errors = [
            f"{found[k]:.1e}" if ran and isinstance(found.get(k), int | float) else ""
            for k in ("max_error", "truth_error")
        ]
        table.add_row(level, _coloured(str(found.get("status"))), *errors)
    return table


def _explained(report: Report) -> list[str]:
    """What a level says beyond its verdict: where the port diverges first, what ended it, what was not proven."""
    lines: list[str] = []
    for level, found in report.verification.items():
        if first := found.get("first"):
            at = first.get("path") or "the root"
            lines.append(
                f"[red]{level}[/]: diverges first in {escape(at)} ({escape(first['cls'])}): {escape(first['why'])}"
            )
            lines += [f"    {escape(line)}" for line in _told(first)]
        if message := found.get("message"):
            inside = f"in {found['crashed_in']}: " if found.get("crashed_in") else ""
            lines.append(f"[red]{level}[/]: {escape(inside + message)} {escape(found.get('where') or '')}")
        lines += [f"[yellow]not proven[/]: {escape(text)}" for text in found.get("not_proven") or ()]
        lines += [f"[dim]{level}, a jump within rounding: {escape(text)}[/]" for text in found.get("kinks") or ()]
        lines += [f"[dim]{level}: {escape(note)}[/]" for note in found.get("notes") or ()]
    return lines


def _told(first: Mapping[str, Any]) -> list[str]:
    """What more is known of a divergence: sizes, the call with both places, the cause, the script."""
    error = first.get("error")
    size = f"{error:.1e}" if isinstance(error, int | float) else "of another shape"
    lines = [f"error {size}, torch's own in float32 {first.get('truth_error') or 0.0:.1e}"]
    if first.get("last_right"):
        lines.append(f"last right in backward order: {first['last_right']}")
    places = [f"{p['file']}:{p['line']}" for p in (first.get("source"), first.get("generated")) if p]
    if first.get("op") or places:
        lines.append(f"{first.get('op') or 'made'} at {' -> '.join(places)}")
    if first.get("cause"):
        lines.append(f"likely cause: {first['cause']}")
    if first.get("repro"):
        lines.append(f"the op alone: {first['repro']}")
    return lines


def _flags(flags: tuple[Flag, ...], limit: int) -> list[str]:
    """The gravest first, two lines each: rule and place, then what it is about."""
    order = {"error": 0, "warning": 1, "info": 2}
    notes = sum(flag.severity == "info" for flag in flags)
    counts = ((len(flags) - notes, "flag"), (notes, "note"))
    lines = [", ".join(f"{n} {what}{'s' if n > 1 else ''}" for n, what in counts if n)]
    for flag in sorted(flags, key=lambda f: order[f.severity])[:limit]:
        text = f"{flag.op}: {flag.message}" if flag.op and flag.op not in flag.message else flag.message
        lines.append(f"[bold]{flag.rule}[/] {_coloured(flag.severity)} {escape(_shown(flag))}")
        lines.append(f"    {escape(text)}")
        if flag.severity == "error":
            lines.append(f"    [dim]{escape(advice_of(flag))}[/]")
    if len(flags) > limit:
        lines.append(f"[dim]... {len(flags) - limit} more in report/report.html[/]")
    return lines


def _shown(flag: Flag) -> str:
    """The place, relative to the working folder where the file lies in it."""
    if flag.source is None:
        return ""
    file = Path(flag.source.file)
    here = Path.cwd()
    return f"{file.relative_to(here) if here in file.parents else file}:{flag.source.line}"
