"""The commands for people's own scripts: scan, script, npu, diagnose. Exit codes as in ``ms_port.cli``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from ms_port.errors import BadInput

FLAGGED, UNEQUAL = 1, 3
_out = Console()
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, and nothing else there.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    for command in (scan, script, npu, diagnose):
        app.command()(command)


def script(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A Python file or a project's folder.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")],
    compare: Annotated[
        str | None,
        typer.Option(metavar="ARGS", help="Run both on CPU with these arguments and compare what they print."),
    ] = None,
    entry: Annotated[Path | None, typer.Option(help="The script to run for --compare, relative to IN.")] = None,
    op_map: Annotated[
        list[Path] | None, typer.Option("--op-map", metavar="DIR", help="Rows of your own, before ours.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Migrate a training project to MindSpore: same entry, same arguments, same log lines."""
    from ms_port.library_models import port_torchvision
    from ms_port.script.migrate import migrate, write
    from ms_port.script.report import to_json, write_report

    _not_inside(source, out)
    found = migrate(source, tuple(op_map or ()), port_torchvision)
    write(found, source, out)
    write_report(found, out / "report")
    shown = to_json(found)
    result = None
    if compare is not None:
        from ms_port.script.compare import compare as run

        result = run(source, out, entry or _entry(source, found.originals), compare)
        shown["compare"] = {
            "status": result.status,
            "reason": result.reason,
            "compared": result.compared,
            "worst": result.worst,
        }
    if as_json:
        _print_json(shown)
    else:
        _script_summary(shown, out)
    if result is not None and result.status != "equal":
        raise typer.Exit(UNEQUAL)
    if found.open:
        raise typer.Exit(FLAGGED)


def _not_inside(source: Path, out: Path) -> None:
    if out.is_file():
        raise BadInput(f"{out} is a file", where="-o", advice="name a folder")
    if source.exists() and out.exists() and out.resolve() in (source.resolve(), source.resolve().parent):
        raise BadInput(
            "OUT is the folder of IN: the script would be overwritten", where="-o", advice="name another folder"
        )


def _entry(source: Path, files: dict[str, str]) -> Path:
    """The script to run: the only file with a main guard, else the only file, else train.py or main.py."""
    if source.is_file():
        return Path(source.name)
    guarded = [name for name, text in files.items() if "__main__" in text]
    for choice in (guarded, list(files)):
        if len(choice) == 1:
            return Path(choice[0])
    for name in ("train.py", "main.py"):
        if name in files:
            return Path(name)
    raise BadInput("which script is to run is not clear", where="--compare", advice="say it: --entry train.py")


def _script_summary(shown: dict[str, Any], out: Path) -> None:
    for flag in shown["flags"]:
        colour = "red" if flag["severity"] == "error" else "yellow"
        place = escape(f"{flag['file']}:{flag['line']}")
        _out.print(
            f"[{colour}]{flag['rule']}[/] {place} {escape(flag['op'])}: {escape(flag['message'])}",
            soft_wrap=True,
            highlight=False,
        )
    _out.print(
        f"{shown['files']} files, {shown['rewritten']} places rewritten, "
        f"{shown['left_out']} left out, {shown['warnings']} to look at, {shown['marked']} that raise"
    )
    if "compare" in shown:
        found = shown["compare"]
        colour = "green" if found["status"] == "equal" else "red"
        _out.print(
            f"compare: [{colour}]{found['status']}[/], {found['compared']} numbers {escape(found['reason'])}",
            soft_wrap=True,
            highlight=False,
        )
    _out.print(f"[dim]{escape(str(out))}: report/diff.html shows every change[/]", soft_wrap=True, highlight=False)


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def scan(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files or folders.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for scan.json and the CSVs.")] = None,
    limit: Annotated[int, typer.Option(help="Findings shown for each rule.")] = 5,
    as_json: Json = False,
) -> None:
    """Say what stands in the way of a project, and which route fits. Nothing of it is run."""
    from ms_port.script.plan import to_json, write
    from ms_port.script.scan import scan as run

    for path in paths:
        if not path.exists():
            raise BadInput(f"there is no {path}", where=str(path), advice="name files or folders")
    found = run(paths)
    if out is not None:
        write(found, out)
    shown = to_json(found)
    if as_json:
        _print_json(shown)
    else:
        _scan_table(shown, limit)
        if out is not None:
            _out.print(f"[dim]written: {escape(str(out))}/scan.json and the CSVs[/]", soft_wrap=True, highlight=False)
    if found.findings:
        raise typer.Exit(FLAGGED)


def _scan_table(shown: dict[str, Any], limit: int) -> None:
    from rich.table import Table

    from ms_port.report.rules import rules

    titles = rules()
    table = Table(box=None, pad_edge=False)
    for column in ("rule", "what", "places", "first"):
        table.add_column(column, justify="right" if column == "places" else "left", overflow="fold")
    for entry in shown["plan"]["touch"]:
        title = titles[entry["rule"]].title if entry["rule"] in titles else ""
        table.add_row(entry["rule"], title, str(entry["places"]), escape(entry["first"]))
    _out.print(table)
    for entry in shown["plan"]["touch"]:
        for item in [f for f in shown["findings"] if f["rule"] == entry["rule"]][:limit]:
            _out.print(
                f"  {entry['rule']} {escape(item['file'])}:{item['line']}: {escape(item['what'])}",
                soft_wrap=True,
                highlight=False,
            )
    counts = shown["apis"]["counts"]
    _out.print(
        f"{shown['files']} files, {shown['lines']} lines; torch APIs: "
        + ", ".join(f"{n} {status}" for status, n in counts.items())
    )
    for name, entry in shown["frameworks"].items():
        _out.print(
            f"[bold]{name}[/] ({escape(entry['place'])}): {escape(entry['route'])}", soft_wrap=True, highlight=False
        )
    _out.print("[bold]Plan[/]")
    _out.print(f"  first record what runs today: {escape(shown['plan']['baseline'])}", soft_wrap=True, highlight=False)
    for route in shown["plan"]["routes"]:
        mark = "[green]fits[/]" if route["fits"] else "[yellow]not yet[/]"
        _out.print(
            f"  {mark} {escape(route['name'])}: {escape(route['why'])}. {escape(route['command'])}",
            soft_wrap=True,
            highlight=False,
        )


def npu(
    source: Annotated[Path, typer.Argument(metavar="IN", help="The folder of the scripts, or one script.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for NAME_msft; it must exist.")],
    version: Annotated[str, typer.Option("--version", "-v", help="torch version: 2.1.0, 2.6.0, 2.7.1 or 2.8.0")],
    mode: Annotated[
        str | None, typer.Argument(metavar="[distributed]", help="Single-card to multi-card as well.")
    ] = None,
    main: Annotated[
        str | None, typer.Option("--main", "-m", help="With distributed: the entry, relative to IN.")
    ] = None,
    model: Annotated[
        str, typer.Option("--target-model", "-t", help="With distributed: the model's variable.")
    ] = "model",
    device: Annotated[bool, typer.Option("--specify-device", "-s", help="Set the device by DEVICE_ID.")] = False,
    as_json: Json = False,
) -> None:
    """Transplant a project to torch_npu: the first-check route of Ascend's guides."""
    from ms_port.script.npu import transplant

    if mode not in (None, "distributed"):
        raise BadInput(f"there is no mode '{mode}'", advice="distributed, or nothing")
    if (mode is None) != (main is None):
        raise BadInput(
            "distributed and -m belong together",
            where="distributed",
            advice="ms-port npu IN -o OUT -v 2.8.0 distributed -m main.py",
        )
    found = transplant(source, out, version, main=main, model=model, device=device)
    if as_json:
        _print_json(
            {
                "folder": str(found.folder),
                "changes": len(found.changes),
                "unsupported": [list(u) for u in found.unsupported],
                "notes": found.notes,
            }
        )
    else:
        for file, line, what, tip in found.unsupported:
            _out.print(
                f"[yellow]{escape(what)}[/] {escape(file)}:{line}: {escape(tip)}", soft_wrap=True, highlight=False
            )
        for note in found.notes:
            _out.print(escape(note), soft_wrap=True, highlight=False)
        _out.print(
            f"{found.files} files, {len(found.changes)} changes: {escape(str(found.folder))}",
            soft_wrap=True,
            highlight=False,
        )
    if found.unsupported or found.notes:
        raise typer.Exit(FLAGGED)


def diagnose(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="Logs of one run, one for each rank.")],
    as_json: Json = False,
) -> None:
    """Say from a log which stage failed, the likely cause, and what to check in which order."""
    from ms_port.script.diagnose import diagnose as read

    results = [read(path) for path in logs]
    if as_json:
        _print_json([_diagnosis_json(result) for result in results])
    for result in [] if as_json else results:
        _show_diagnosis(result)
    if any(result.found or result.stalled or result.search for result in results):
        raise typer.Exit(FLAGGED)


def _diagnosis_json(result: Any) -> dict[str, Any]:
    found = [
        {
            "id": d.symptom.id,
            "stage": d.symptom.stage,
            "cause": d.symptom.cause,
            "checks": list(d.symptom.checks),
            "rule": d.symptom.rule,
            "line": d.line,
            "text": d.text,
            "own": d.own,
        }
        for d in result.found
    ]
    return {
        "file": result.file,
        "lines": result.lines,
        "found": found,
        "stalled": result.stalled,
        "search": list(result.search),
        "last": list(result.last),
    }


def _show_diagnosis(result: Any) -> None:
    _out.print(f"[bold]{escape(result.file)}[/] ({result.lines} lines)", soft_wrap=True, highlight=False)
    for d in result.found:
        _out.print(f"[red]{d.symptom.stage}[/] line {d.line}: {escape(d.text)}", soft_wrap=True, highlight=False)
        _out.print(
            f"  {escape(d.symptom.cause)}" + (f" Your line: {escape(d.own)}." if d.own else ""),
            soft_wrap=True,
            highlight=False,
        )
        for number, check in enumerate(d.symptom.checks, 1):
            _out.print(f"  {number}. {escape(check)}", soft_wrap=True, highlight=False)
        if d.symptom.rule:
            _out.print(f"  more: ms-port explain {d.symptom.rule}", soft_wrap=True, highlight=False)
    if result.stalled:
        _out.print("communication: the log ends without an error after setting up processes: a run that waits.")
        for number, check in enumerate(
            (
                "rank table or launch script: RANK_ID, DEVICE_ID, addresses",
                "the process group is made before the model and the data (ms-port scan: MSP804)",
                "a collective that one rank alone reaches (MSP805)",
                "then the network",
            ),
            1,
        ):
            _out.print(f"  {number}. {check}", soft_wrap=True, highlight=False)
    if not result.found and not result.stalled:
        said = "Worth a search, as they stand:" if result.search else "It tells of no trouble. It ends with:"
        _out.print(f"nothing in this log is known. {said}")
        for line in result.search or result.last:
            _out.print(f"  {escape(line)}", soft_wrap=True, highlight=False)
