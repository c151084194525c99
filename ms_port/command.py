"""What the commands other than ``convert`` do, apart from printing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ms_port.conversion import LEVELS, Clock, Progress, load_op_map
from ms_port.errors import BadInput
from ms_port.ir.flags import Flag, Place
from ms_port.report import Coverage, Report, write_json_and_page

if TYPE_CHECKING:
    from ms_port.opmap import Row


_FIELD = re.compile(r"\{\{\s*(\w+)[^{}]*\}\}")


def verify_port(
    out: Path,
    level: str,
    loss: str | None,
    progress: Progress | None = None,
    *,
    steps: int = 50,
    seed: int = 0,
    precisions: tuple[str, ...] = (),
) -> Report:
    """Verify an existing port, and put the verdict into its report. Raises BadInput."""
    from ms_port import verify

    if level not in LEVELS or level == "none":
        raise BadInput(f"there is no level '{level}'", where="--level", advice=f"one of {', '.join(LEVELS[1:])}")
    clock = Clock(progress)
    with clock.stage("verify"):
        verdict = verify(out, level=level, loss=loss, steps=steps, seed=seed, precisions=precisions)
    before = read_report(out)
    report = Report(
        model=before.model,
        target=before.target,
        flags=before.flags,
        coverage=before.coverage,
        verification=verdict.to_json(),
        timings={**before.timings, **clock.seconds},
        notes=before.notes,
        versions=before.versions,
    )
    write_json_and_page(report, out / "report")
    return report


def read_report(out: Path) -> Report:
    """The report of an earlier run; an empty one where there is none."""
    try:
        found = json.loads((out / "report" / "report.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Report(model=out.name)
    return Report(
        model=found["model"],
        target=found.get("target"),
        flags=tuple(_flag(entry) for entry in found["flags"]),
        coverage=Coverage(**found["coverage"]),
        verification=found["verification"],
        timings=found["timings"],
        notes=tuple(found.get("notes", ())),
        versions=found.get("versions", {}),
    )


def _flag(entry: Mapping[str, Any]) -> Flag:
    places = {key: Place(**entry[key]) if entry[key] else None for key in ("source", "generated")}
    return Flag(**{**entry, **places})


def open_stubs(out: Path, name: str | None) -> list[str]:
    """Functions and cells of fixes.py that still raise NotImplementedError. Raises BadInput."""
    from ms_port.verify.stubs import definitions
    from ms_port.verify.stubs import open_stubs as unwritten_stubs

    try:
        package = json.loads((out / "port.json").read_text(encoding="utf-8"))["package"]
    except (OSError, ValueError, KeyError):
        raise BadInput(f"{out} holds no port.json", advice="name a folder that ms-port convert wrote") from None
    file = out / package / "fixes.py"
    stubs, names = unwritten_stubs(file), definitions(file)
    if name is not None and name not in names:
        raise BadInput(f"fixes.py has no '{name}'", where=str(file), advice=f"one of {', '.join(names)}")
    return [stub for stub in stubs if name in (None, stub)]


def list_ops(name: str | None, target: str, directories: tuple[Path, ...]) -> list[dict[str, Any]]:
    """The rows whose API holds ``name``. Raises BadInput."""
    op_map = load_op_map(directories, target)
    apis = [api for api in sorted(op_map.apis) if name is None or name.lower() in api.lower()]
    if name is not None and not apis:
        raise BadInput(f"no row names '{name}'", advice="an API without a row is expanded by torch, or flagged")
    found = []
    for api in apis:
        row = op_map.row(api)
        assert row is not None
        found.append(
            {
                "api": api,
                "mindspore": _forms(row),
                "differs": row.differs,
                "why": row.why,
                "examples": [asdict(example) for example in row.examples],
            }
        )
    return found


def _forms(row: Row) -> str:
    """The forms of a row in a few words: ``nn.Dense``, ``ops.softmax``, ``.swapaxes``, or the expression."""
    if row.same_as is not None:
        return f"as {row.same_as}"
    shown = {"method": ".{}", "drop": "(left out)", "initializer": "initializer({})"}
    forms = [form for overload in row.overloads for form in reversed(overload.forms)]
    return ", ".join(dict.fromkeys(shown.get(form.kind, "{}").format(_plain(form.target)) for form in forms))


def _plain(template: str) -> str:
    """A template as a person writes it, up to its first condition: ``ops.add({{ input }}, 1)`` is ops.add(input, 1)."""
    text, condition, _ = template.partition("{%")
    return _FIELD.sub(r"\1", text) + ("…" if condition else "")
