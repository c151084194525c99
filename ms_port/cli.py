"""The command line. Exit codes: 0 done and equal, 1 done with flags open, 2 bad input, 3 not equal, 4 internal."""

from __future__ import annotations

import json
import shlex
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape

from ms_port import __version__, cli_scripts, cli_training
from ms_port.errors import BadInput, one_line

DONE, FLAGGED, BAD_INPUT, UNEQUAL, INTERNAL = range(5)

app = typer.Typer(
    name="ms-port",
    help="Translate PyTorch models to native MindSpore source, and prove that they compute the same.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_out, _err = Console(), Console(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, and nothing else there.")]
OpMaps = Annotated[list[Path] | None, typer.Option("--op-map", metavar="DIR", help="Rows of your own, before ours.")]


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show stack traces (anywhere on the line).")] = False,
) -> None:
    if version:
        _out.print(f"ms-port {__version__}")
        raise typer.Exit(DONE)


@app.command()
def convert(
    target: Annotated[str, typer.Argument(help="package.module:Attr or path/file.py:Attr")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write: new, empty, or an earlier port.")],
    input: Annotated[
        list[str] | None, typer.Option(metavar="SPEC", help=r"name:dtype\[dim,...]<range, see docs")
    ] = None,
    inputs: Annotated[str | None, typer.Option(metavar="FILE.py:FUNC", help="Returns args or (args, kwargs).")] = None,
    weights: Annotated[Path | None, typer.Option(help="Checkpoint file or from_pretrained folder.")] = None,
    arg: Annotated[list[str] | None, typer.Option(metavar="K=V", help="Argument of the class or factory.")] = None,
    static: Annotated[str | None, typer.Option(metavar="batch=32,seq=128", help="Sizes of labelled dims.")] = None,
    platform: Annotated[str, typer.Option("--target", help="cpu or ascend")] = "cpu",
    op_map: OpMaps = None,
    freeze: Annotated[bool, typer.Option("--freeze", help="Write sizes as numbers.")] = False,
    verify: Annotated[bool, typer.Option("--verify/--no-verify", help="Compare with torch in GRAPH_MODE.")] = True,
    name: Annotated[str | None, typer.Option(help="Name of the package.")] = None,
    dump_ir: Annotated[str | None, typer.Option(metavar="STAGE", help="Print the program after a stage.")] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Write nothing; show what would change in OUT.")] = False,
    as_json: Json = False,
) -> None:
    """Write a MindSpore port of a torch model, and verify it."""
    from ms_port.conversion import run
    from ms_port.options import ConvertOptions

    chosen = ConvertOptions(
        target=target,
        out=out,
        input=tuple(input or ()),
        inputs=inputs,
        weights=weights,
        arg=tuple(arg or ()),
        static=static,
        platform=platform,
        op_map=tuple(op_map or ()),
        freeze=freeze,
        verify=verify,
        name=name,
        dump_ir=dump_ir,
        diff=diff,
    )
    with _Progress(as_json) as progress:
        outcome = run(chosen.request(), progress)
    if outcome.diff is not None:
        sys.stdout.write(outcome.diff or "" if not as_json else json.dumps({"diff": outcome.diff}) + "\n")
        return
    _finish(outcome.report, out, as_json)


@app.command()
def verify(
    out: Annotated[Path, typer.Argument(help="Folder written by convert.")],
    level: Annotated[str, typer.Option(help="forward, gradient, step or train")] = "forward",
    loss: Annotated[str | None, typer.Option(metavar="FILE.py:FUNC", help="Loss of your own, in torch.")] = None,
    steps: Annotated[int, typer.Option(help="Of the level train.")] = 50,
    precision: Annotated[list[str] | None, typer.Option(help="float16 or bfloat16: compute in it as well.")] = None,
    seed: Annotated[int, typer.Option(help="Of noise on the weights, and of inputs.")] = 0,
    as_json: Json = False,
) -> None:
    """Compare a port with its torch model again."""
    from ms_port.command import verify_port

    with _Progress(as_json) as progress:
        report = verify_port(out, level, loss, progress, steps=steps, seed=seed, precisions=tuple(precision or ()))
    _finish(report, out, as_json)


@app.command()
def weights(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="Checkpoint file or folder.")],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="DST", help=".safetensors or .ckpt; .pt, .pth with --to torch; OUT/checkpoints to train on"
        ),
    ],
    port: Annotated[Path, typer.Option(help="The port whose parameters these are.")],
    to: Annotated[str, typer.Option(help="mindspore or torch")] = "mindspore",
    as_json: Json = False,
) -> None:
    """Convert a checkpoint for a port, or back. Into a folder: with optimizer and schedule, for train.py --resume."""
    from ms_port.weights import convert_file, convert_training_state, read_rows

    if to not in ("mindspore", "torch"):
        raise BadInput(f"there is no side '{to}'", where="--to", advice="mindspore or torch")
    if target.is_dir() or not target.suffix:
        if to == "torch":
            raise BadInput(f"{target} is no file", where="DST", advice="name a .pt or .pth file")
        step, notes = convert_training_state(source, target, read_rows(port))
        target = target / f"step_{step}.safetensors"
    else:
        notes = convert_file(source, target, port, "torch" if to == "torch" else "mindspore")
    if as_json:
        _print_json({"file": str(target), "notes": list(notes)})
        return
    for note in notes:
        _out.print(escape(note), style="dim")
    _out.print(f"wrote {escape(str(target))}")


@app.command()
def ops(
    name: Annotated[str | None, typer.Argument(help="An API or a part of its name.")] = None,
    target: Annotated[str, typer.Option(help="cpu or ascend")] = "cpu",
    why: Annotated[bool, typer.Option("--why", help="Say why MindSpore's own op isn't used, where it isn't.")] = False,
    op_map: OpMaps = None,
    as_json: Json = False,
) -> None:
    """List the torch APIs that have a MindSpore form."""
    from ms_port.command import list_ops

    found = list_ops(name, target, tuple(op_map or ()))
    if as_json:
        _print_json(found)
        return
    for row in found:
        _out.print(f"[bold]{escape(row['api'])}[/] -> {escape(row['mindspore'])}", soft_wrap=True, highlight=False)
        for text in [row["differs"], row["why"] if why else None]:
            if text:
                _out.print(f"    {escape(text)}", style="dim", soft_wrap=True)
    _out.print(f"{len(found)} APIs", style="dim")


@app.command("check-fix")
def check_fix(
    out: Annotated[Path, typer.Argument(help="Folder written by convert.")],
    name: Annotated[str | None, typer.Argument(help="One stub; all of them otherwise.")] = None,
    as_json: Json = False,
) -> None:
    """Say which stubs of fixes.py are still empty; once none is, compare the port with torch."""
    from ms_port.command import open_stubs, verify_port

    empty = open_stubs(out, name)
    if empty:
        if as_json:
            _print_json({"empty": empty})
        for stub in [] if as_json else empty:
            _out.print(f"[yellow]{escape(stub)}[/] still raises: write it in fixes.py")
        raise typer.Exit(FLAGGED)
    with _Progress(as_json) as progress:
        report = verify_port(out, "forward", None, progress)
    _finish(report, out, as_json)


@app.command()
def explain(rule: Annotated[str, typer.Argument(help="A code such as MSP101.")], as_json: Json = False) -> None:
    """Explain a rule: what it means, why graph mode minds, what to write instead."""
    from dataclasses import asdict

    from ms_port.report.rules import rules

    found = rules().get(rule.upper())
    if found is None:
        raise BadInput(f"there is no rule '{rule}'", advice=f"one of {', '.join(rules())}")
    if as_json:
        _print_json(asdict(found))
    else:
        _out.print(Markdown(found.markdown()))


@app.command()
def demo(out: Annotated[Path, typer.Option("--out", "-o", help="Where to write.")] = Path("ms-port-demo")) -> None:
    """Convert, verify and train a small residual network and a small transformer."""
    from ms_port.demo import run_demo

    with _Progress(False) as progress:
        code = run_demo(out, progress, _out)
    raise typer.Exit(code)


for commands in (cli_scripts, cli_training):
    commands.register(app)


class _Progress:
    """Shows the running stage, and each finished one with its seconds, on standard error."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.status = _err.status("") if _err.is_terminal and not quiet else None

    def __enter__(self) -> _Progress:
        if self.status:
            self.status.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.status:
            self.status.stop()

    def __call__(self, event: Any) -> None:
        if self.quiet:
            return
        if event.seconds is not None:
            _err.print(f"[dim]{event.stage:<10} {event.seconds:6.2f} s[/]", highlight=False)
        elif self.status:
            self.status.update(event.stage)


def _finish(report: Any, out: Path, as_json: bool) -> None:
    from ms_port.report import summary

    if as_json:
        _print_json(report.to_json())
    else:
        _out.print(summary(report))
        _out.print(f"[dim]{escape(str(out))}: report/report.html says more[/]", soft_wrap=True, highlight=False)
    code = {"ok": DONE, "flagged": FLAGGED, "failed": UNEQUAL}[report.status]
    if code:
        raise typer.Exit(code)


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def run(arguments: list[str]) -> int:
    """Run one command line; returns the exit code and never raises."""
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    as_json = "--json" in arguments
    try:
        app(args=arguments, prog_name="ms-port")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else INTERNAL if end.code else DONE
    except BadInput as error:
        return _fail(
            error, BAD_INPUT, debug, as_json, {"error": error.what, "where": error.where, "advice": error.advice}
        )
    except KeyboardInterrupt:
        _err.print("interrupted; nothing was changed")
        return 130
    except Exception as error:
        said = {"error": f"internal error: {one_line(error)}", "where": None, "advice": None}
        return _fail(error, INTERNAL, debug, as_json, said)
    return DONE


def _fail(error: Exception, code: int, debug: bool, as_json: bool, said: dict[str, str | None]) -> int:
    if debug:
        traceback.print_exception(error)
    if as_json:
        _print_json(said)
        return code
    _err.print(f"[red]error:[/] {escape(str(said['error']))}", soft_wrap=True, highlight=False)
    for label, text in (("where", said["where"]), ("what to do", said["advice"])):
        if text:
            _err.print(f"  {label}: {escape(text)}", soft_wrap=True, highlight=False)
    if code == INTERNAL:
        command = shlex.join(["ms-port", *sys.argv[1:], "--debug"])
        _err.print(f"  a fault of ms-port; please report it with what this shows: {escape(command)}", soft_wrap=True)
    return code


def main() -> None:
    """Entry point of ``ms-port``."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
