"""The commands around training: doctor, profile, tune-data. Exit codes as in ``ms_port.cli``."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from ms_port.project.profile import Profile

FLAGGED = 1
_out = Console()
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, and nothing else there.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    app.command()(doctor)
    app.command()(profile)
    app.command("tune-data", context_settings={"ignore_unknown_options": True})(tune_data)


def doctor(
    distributed: Annotated[
        bool, typer.Option("--distributed", help="Check ranks, devices and addresses, and that the others answer.")
    ] = False,
    machines: Annotated[int | None, typer.Option(help="How many run this; msrun's environment without it.")] = None,
    node: Annotated[int | None, typer.Option(help="Which of them this is, from 0.")] = None,
    address: Annotated[str | None, typer.Option(help="Of node 0.")] = None,
    port: Annotated[int, typer.Option(help="On node 0; free.")] = 8118,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the others.")] = 30.0,
    as_json: Json = False,
) -> None:
    """Check this machine: versions that work together, known traps, and a smallest graph compiled and trained."""
    if distributed:
        from ms_port.project.distributed import examine_distribution, meeting

        findings = examine_distribution(meeting(os.environ, machines, node, address, port, timeout))
    else:
        from ms_port.project.doctor import examine

        findings = examine()
    if as_json:
        _print_json([{"name": f.name, "status": f.status, "message": f.message} for f in findings])
    for finding in [] if as_json else findings:
        colour = {"ok": "green", "warning": "yellow"}.get(finding.status, "red")
        _out.print(
            f"[{colour}]{finding.status:8}[/] [bold]{finding.name}[/]: {escape(finding.message)}", soft_wrap=True
        )
    if any(f.status == "error" for f in findings):
        raise typer.Exit(FLAGGED)


def profile(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What `python train.py --profile` wrote, or OUT.")],
    as_json: Json = False,
) -> None:
    """Say what a step's time goes into: operators, communication, data; and what to do."""
    from ms_port.project.profile import by_type, diagnose, read_profile

    found = read_profile(folder)
    advice = diagnose(found)
    if as_json:
        kernels = [{"type": t, "count": c, "milliseconds": ms} for t, c, ms in by_type(found.kernels)]
        steps = asdict(found.steps) if found.steps else None
        known = {"platform": found.platform, "steps": steps, "waiting_for_data": found.waiting}
        _print_json({**known, "operators": kernels, "advice": [asdict(a) for a in advice]})
        return
    _profile_table(found)
    for number, item in enumerate(advice, 1):
        _out.print(f"{number}. [bold]{item.part}[/]: {escape(item.found)}", soft_wrap=True)
        _out.print(f"   {escape(item.advice)}", style="dim", soft_wrap=True)
    if not advice:
        _out.print("nothing stands out: the operators above are the work itself")


def _profile_table(found: Profile) -> None:
    from ms_port.project.profile import by_type

    rows = by_type(found.kernels)
    total = sum(spent for _, _, spent in rows) or 1.0
    table = Table(title=f"operators on {found.platform}, by type")
    for name in ("type", "a step", "us each", "share"):
        table.add_column(name, justify="left" if name in ("type", "share") else "right")
    for name, count, spent in rows[:12]:
        each = f"{spent / count * 1000:.1f}"
        bar = "#" * round(20 * spent / total)
        table.add_row(name, f"{count / found.step_count:.0f}", each, f"{spent / total:4.0%} {bar}")
    _out.print(table)
    if found.steps:
        parts = (("computing", found.steps.computing), ("communication", found.steps.communication))
        text = ", ".join(f"{name} {value:.1f} ms" for name, value in (*parts, ("idle", found.steps.free)))
        _out.print(f"a step of {found.steps.total:.1f} ms: {text}")
    if found.waiting is not None:
        _out.print(f"waiting for data: {found.waiting:.0%} of the time")


def tune_data(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder written by convert.")],
    options: Annotated[list[str] | None, typer.Argument(help="Options of train.py: --data, --batch-size.")] = None,
    seconds: Annotated[float, typer.Option(help="Of each measurement.")] = 2.0,
    write: Annotated[bool, typer.Option("--write", help="Put the fastest into config.yaml.")] = False,
    as_json: Json = False,
) -> None:
    """Measure how many workers, threads or processes, and how much prefetch read the data fastest."""
    from ms_port.project.tune import tune, write_setting

    speeds = tune(out, options or [], seconds)
    best = next(speed for speed in speeds if speed.setting.kind != "torch")
    if as_json:
        _print_json([{**asdict(s.setting), "samples_a_second": s.samples, "said": s.said} for s in speeds])
    else:
        for speed in speeds:
            kind = "torch's DataLoader" if speed.setting.kind == "torch" else speed.setting.kind
            text = f"{speed.samples:10.1f} samples/s   {speed.setting.workers} workers, {kind}"
            text += "" if speed.setting.kind == "torch" else f", prefetch {speed.setting.prefetch}"
            _out.print(text + (f"   {escape(speed.said)}" if speed.said else ""), soft_wrap=True, highlight=False)
        chosen = f"workers: {best.setting.workers}, worker_kind: {best.setting.kind}, prefetch: {best.setting.prefetch}"
        _out.print(f"{'written to' if write else 'for'} config.yaml: {chosen}")
    if write:
        write_setting(out, best.setting)


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
