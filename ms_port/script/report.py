"""OUT/report of a migration: the tables that teams know from msTransplant, a log, and the difference side by side."""

from __future__ import annotations

import csv
import difflib
import html
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ms_port.script.migrate import Migration
from ms_port.script.needs import Note

API_COLUMNS = ("File", "Start Line", "End Line", "OP", "Tips")
CHANGE_COLUMNS = ("File", "Start Line", "End Line", "Operation Type", "Message", "Rule", "Before", "After")
LONGEST_DIFF = 4000
"""Lines beyond which a file's difference is shown as unified text: side by side takes minutes there."""
_STYLE = """body{font-family:sans-serif;margin:2em}table.diff{font:12px monospace;border-collapse:collapse}
.diff_header{background:#eee;color:#666;padding:0 .5em}td.diff_header{text-align:right}.diff_next{background:#ddd}
.diff_add{background:#cfc}.diff_chg{background:#ffc}.diff_sub{background:#fcc}td{vertical-align:top;white-space:pre-wrap}"""


def counts(found: Migration) -> dict[str, int]:
    """How many places were rewritten, left out, marked, and how many files there are."""
    by_rule = Counter(note.rule if note.severity == "info" else note.severity for note in found.notes)
    return {
        "files": len(found.originals),
        "rewritten": by_rule["MSP601"] + by_rule["MSP604"] + by_rule["MSP607"],
        "left_out": by_rule["MSP603"],
        "warnings": by_rule["warning"],
        "marked": by_rule["error"],
    }


def to_json(found: Migration) -> dict[str, Any]:
    return {
        **counts(found),
        "flags": [
            {
                "rule": n.rule,
                "severity": n.severity,
                "file": n.file,
                "line": n.line,
                "op": n.api,
                "before": n.before,
                "message": n.after,
            }
            for n in found.open
        ],
    }


def write_report(found: Migration, folder: Path) -> None:
    """Write all files of ``report/``."""
    folder.mkdir(parents=True, exist_ok=True)
    errors = [n for n in found.notes if n.severity == "error"]
    unknown = [n for n in errors if "no row in the op map" in n.after]
    _csv(folder / "unsupported_api.csv", API_COLUMNS, (_api(n) for n in errors if n not in unknown))
    _csv(folder / "unknown_api.csv", API_COLUMNS, map(_api, unknown))
    cuda = [n for n in found.notes if "cuda" in n.api.lower() or "cpp_extension" in n.api or "triton" in n.api]
    _csv(folder / "cuda_op_list.csv", API_COLUMNS, map(_api, cuda))
    _csv(folder / "change_list.csv", CHANGE_COLUMNS, map(_change, found.notes))
    (folder / "conversion.log").write_text("".join(f"{line}\n" for line in log(found)), encoding="utf-8")
    (folder / "diff.html").write_text(difference(found), encoding="utf-8")


def _api(note: Note) -> tuple[object, ...]:
    return note.file, note.line, note.end_line, note.api, f"{note.rule}: {note.after}".strip()


def _change(note: Note) -> tuple[object, ...]:
    kind = "delete" if not note.after else "modify"
    return note.file, note.line, note.end_line, kind, note.api, note.rule, note.before, note.after


def _csv(file: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with file.open("w", encoding="utf-8-sig", newline="") as stream:  # spreadsheets want the byte order mark
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(rows)


def log(found: Migration) -> list[str]:
    """One line a file, then what is open."""
    lines = []
    for file in found.originals:
        mine = [n for n in found.notes if n.file == file]
        state = "rewritten" if file in found.files else "has no torch: copied as it is"
        lines.append(
            f"{file}: {state}; {sum(n.severity == 'info' for n in mine)} changes, {sum(n.severity != 'info' for n in mine)} to look at"
        )
    lines += [f"{file}: not read as Python ({reason}): copied as it is" for file, reason in found.broken.items()]
    lines += [f"{n.severity}: {n.file}:{n.line}: {n.rule} {n.api}: {n.after}" for n in found.open]
    return lines


def difference(found: Migration) -> str:
    """All changed files side by side, without scripts or outside files."""
    parts = [
        f"<!doctype html><meta charset=utf-8><title>ms-port script</title><style>{_STYLE}</style><h1>What changed</h1>"
    ]
    for file, text in found.files.items():
        before = found.originals.get(file)
        parts.append(f"<h2>{html.escape(file)}</h2>")
        old, new = (before or "").splitlines(), text.splitlines()
        if before is None:
            parts.append(f"<p>new</p><pre>{html.escape(text)}</pre>")
        elif len(old) > LONGEST_DIFF:
            parts.append(f"<pre>{html.escape(chr(10).join(difflib.unified_diff(old, new, lineterm='')))}</pre>")
        else:
            parts.append(
                difflib.HtmlDiff(tabsize=4, wrapcolumn=100).make_table(
                    old, new, "torch", "MindSpore", context=True, numlines=3
                )
            )
    return "\n".join(parts)
