"""One conversion from target to OUT: the stages in order, timed, written beside OUT and put in place at the end."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ms_port.errors import BadInput
from ms_port.inputs import InputSpec, example_tensors, resized
from ms_port.project import FILES, Edit, Staging, TrainInput, plan_training, write_training_files
from ms_port.project.output import STATE
from ms_port.project.places import with_places, write_source_map
from ms_port.project.port_file import port_json, relocated, source_hashes, versions
from ms_port.report import Change, Coverage, Report, write_report

if TYPE_CHECKING:
    from ms_port.capture import Inputs, Recording
    from ms_port.emit import EmittedFiles, Origin
    from ms_port.ir.program import Program
    from ms_port.opmap import OpMap

Level: TypeAlias = Literal["none", "forward", "gradient", "step", "train"]
LEVELS: tuple[Level, ...] = ("none", "forward", "gradient", "step", "train")
DEVICES = {"cpu": "CPU", "ascend": "Ascend"}


@dataclass(frozen=True, slots=True)
class Event:
    """A stage began (``seconds`` is None) or ended."""

    stage: str
    seconds: float | None = None


Progress: TypeAlias = Callable[[Event], None]


@dataclass(frozen=True)
class Request:
    """What to convert and how. ``*_text`` fields are as the command line gave them, for port.json and the banners."""

    target: Any
    """A class, a factory or an instance."""
    inputs: Inputs
    out: Path
    target_text: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    arguments_text: Mapping[str, str] = field(default_factory=dict)
    specs: tuple[InputSpec, ...] = ()
    inputs_text: str | None = None
    static: Mapping[str, int] = field(default_factory=dict)
    weights: Path | None = None
    platform: str = "cpu"
    op_maps: tuple[Path, ...] = ()
    freeze: bool = False
    level: Level = "forward"
    name: str | None = None
    command: str = ""
    """The command that makes the same port again, for the banners."""
    dump_ir: str | None = None
    diff: bool = False
    """Write nothing; tell what would change in OUT."""

    base: Path | None = None
    """Folder from which the files in ``*_text`` count; None: the working folder."""

    @property
    def device(self) -> str:
        return DEVICES[self.platform]


@dataclass(frozen=True)
class Outcome:
    """What a conversion gave: the report, and a unified diff where that was asked for instead of files."""

    report: Report
    diff: str | None = None


class Clock:
    """Times the stages and tells the progress callback of each."""

    def __init__(self, progress: Progress | None) -> None:
        self.seconds: dict[str, float] = {}
        self._progress = progress or (lambda event: None)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self._progress(Event(name))
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        self._progress(Event(name, self.seconds[name]))


_GIVEN_BUILT = (
    "{} was given built, and with what can't be known: its layers stand as they are. To keep the constructors, name "
    "what builds it: a class, or a function such as `lambda: build(...)`"
)


def run(request: Request, progress: Progress | None = None) -> Outcome:
    """Convert. Raises BadInput for what the person can mend; then OUT is as it was before."""
    if request.platform not in DEVICES:
        raise BadInput(f"there is no target '{request.platform}'", where="--target", advice="cpu or ascend")
    clock = Clock(progress)
    with Staging(request.out) as stage:
        with clock.stage("load"):  # imports and tables, so that the other figures are of the work alone
            op_map = load_op_map(request.op_maps, request.platform)
            for name in ("capture", "pipeline", "emit", "weights"):
                import_module(f"ms_port.{name}")
        with clock.stage("capture"):
            recording = _record(request)
        with clock.stage("translate"):
            program = _translate(recording, op_map, request, stage.root)
        with clock.stage("emit"):
            emitted, files, notes = _emit(program, op_map, recording, request, stage)
        if recording.factory is None:
            notes.append(_GIVEN_BUILT.format(type(recording.model).__name__))
        if not request.diff:
            with clock.stage("weights"):
                notes += _write_weights(recording, emitted, request, stage.root)
        edits = stage.keep_edits(files if request.diff else [*files, "weights.safetensors"])
        stubs = {stub.api: stub.name for stub in program.stubs}
        origins = _origins(program.name, emitted, stage.root)
        program = replace(program, flags=with_places(program.flags, stubs, stage.root, files, origins))
        if request.diff:
            return Outcome(_report(request, program, {}, clock, notes, edits), stage.diff(files))
        if request.level != "none":
            with clock.stage("other sizes"):
                program, more = _check_sizes(program, op_map, request, origins, stage.root)
                notes += more
            with clock.stage("padding"):
                program, more = _check_padding(program, recording, request)
                notes += more
        verification: Mapping[str, Any] = {}
        if any(edit.conflicts for edit in edits):
            notes.append("not verified: marked conflicts are open; settle them, then run `ms-port verify`")
        elif request.level != "none":
            with clock.stage("verify"):
                verification = _verify(request, recording, stage.root)
        report = _report(request, program, verification, clock, notes, edits)
        write_report(report, stage.root / "report", _log(report, request, recording))
        write_source_map(origins, stage.root / "report")
        stage.commit()
    return Outcome(report)


def load_op_map(directories: tuple[Path, ...], platform: str) -> OpMap:
    """The op map with the person's directories before ours. Raises BadInput with file and row."""
    from ms_port.opmap import OpMap, OpMapError

    try:
        return OpMap.load(directories, platform)
    except OpMapError as error:
        place = f"{error.file}:{error.line}" if error.line else str(error.file)
        row = f"row {error.row}: " if error.row else ""
        raise BadInput(
            f"bad op map: {row}{error.reason}", where=place, advice="op_maps/README.md describes a row"
        ) from None


def _record(request: Request) -> Recording:
    from ms_port.capture import record

    with _quiet("torch._subclasses.fake_tensor"):  # it logs a stack trace of what becomes our message
        return record(request.target, request.inputs, arguments=request.arguments)


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _translate(recording: Recording, op_map: OpMap, request: Request, root: Path) -> Program:
    from ms_port.pipeline import STAGES, Options, translate

    wanted = STAGES if request.dump_ir == "all" else [request.dump_ir]
    if request.dump_ir is not None and not set(wanted) <= set(STAGES):
        advice = f"one of {', '.join(STAGES)}, or all"
        raise BadInput(f"there is no stage '{request.dump_ir}'", where="--dump-ir", advice=advice)

    def dump(stage: str, program: Program) -> None:
        if stage in wanted:
            file = root / "report" / f"ir_{STAGES.index(stage)}_{stage}.txt"
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"{program}\n", encoding="utf-8")

    name = package_name(request, recording.model)
    return translate(recording, op_map, Options(name=name, freeze=request.freeze, dump=dump))


_SCRIPTS = frozenset(Path(file).stem for file in (*FILES, "verify.py"))
"""Of the files beside the package, which would hide it or be hidden by it."""
_NO_NAMES = frozenset(
    "build builder construct create created default example fn from fresh function get init load main make maker mod "
    "model module my net network new nn setup target test the torch".split()
)
"""Words of a factory that say nothing of what it makes."""


def package_name(request: Request, model: object) -> str:
    """``--name``, else one made of the target (``resnet50``), or of the model's class (``text_encoder``)."""
    if request.name is not None:
        if not request.name.isidentifier():
            raise BadInput(
                f"'{request.name}' can't be a package's name", where="--name", advice="letters, digits and _"
            )
        return request.name
    given = request.arguments.get("model_name")  # timm's and others' create_model
    name = _words(given if isinstance(given, str) else getattr(request.target, "__name__", type(model).__name__))
    if not isinstance(request.target, type) and set(name.split("_")) <= _NO_NAMES:
        name = _words(type(model).__name__)
    usable = name.isidentifier() and not iskeyword(name) and name not in _SCRIPTS
    return name if usable else f"model_{name}".rstrip("_")


def _words(name: str) -> str:
    """``TextEncoder`` as ``text_encoder``."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return re.sub(r"_+", "_", re.sub(r"\W+", "_", words)).strip("_").lower()


def _emit(
    program: Program, op_map: OpMap, recording: Recording, request: Request, stage: Staging
) -> tuple[EmittedFiles, list[str], list[str]]:
    """Write package, port.json and training files; returns also the files that a person may edit, and notes."""
    from ms_port.emit import Banner, write_package

    package, root, here = program.name, stage.root, request.base or Path.cwd()
    made = versions()
    shown = request.target_text or type(recording.model).__name__
    banner = Banner(made["ms_port"], shown, made["torch"], made["mindspore"], request.command)
    emitted = write_package(program, op_map, root, banner)
    content = port_json(
        program,
        package=package,
        parameters=_rows(emitted),
        cells=[{"path": c.path, "cell": c.cell, "class": c.cls} for c in emitted.cells],
        target=relocated(request.target_text, here, root) if request.target_text else None,
        arguments={key: relocated(text, here, root) for key, text in request.arguments_text.items()},
        specs=request.specs,
        inputs_from=relocated(request.inputs_text, here, root) if request.inputs_text else None,
        static=request.static,
        options=_options(request),
        sources=source_hashes([f.file for f in recording.functions], root),
    )
    (root / "port.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    inputs = [
        TrainInput(r["name"], r["dtype"], tuple(r["shape"]), r["keyword"], tuple(r["dims"]), r["range"])
        for r in content["inputs"]
    ]
    files = [path.relative_to(root).as_posix() for path in emitted.files]
    if "train" not in program.outputs:
        return emitted, files, ["no training files: the model did not run in training mode"]
    try:
        plan = plan_training(program.outputs["train"], inputs)
        evaluation = plan_training(program.outputs.get("eval", program.outputs["train"]), inputs)
    except ValueError as error:
        return emitted, files, [f"no training files: {error}"]
    said = f"Generated by ms-port {made['ms_port']}; your edits survive when it is generated again."
    files += write_training_files(
        root,
        package=package,
        model=package,
        banner=said,
        inputs=inputs,
        plan=plan,
        evaluation=evaluation,
        device=request.device,
    )
    return emitted, files, []


def _origins(package: str, emitted: EmittedFiles, root: Path) -> dict[str, Mapping[int, Origin]]:
    """By file: from which source line each line comes, where a person has not changed it."""
    from ms_port.emit import after_edits

    file = f"{package}/model.py"
    texts = [(folder / file).read_text(encoding="utf-8") for folder in (root / STATE / "base", root)]
    return {file: after_edits(emitted.origins, *texts)}


def _check_sizes(
    program: Program, op_map: OpMap, request: Request, origins: Mapping[str, Mapping[int, Origin]], root: Path
) -> tuple[Program, list[str]]:
    """The program with flags for what holds for the example's sizes only, and notes."""
    from ms_port.capture import Inputs
    from ms_port.emit import Banner, write_package
    from ms_port.pipeline import Options, translate
    from ms_port.sizes import find_built_in_sizes, labelled_sizes

    file = f"{program.name}/model.py"
    base = root / STATE / "base" / file
    banner = Banner("", "", "", "", "")

    def text_for(sizes: Mapping[str, int]) -> str | None:
        tensors = example_tensors(resized(request.specs, sizes))
        try:
            recording = _record(replace(request, inputs=Inputs((), dict(tensors))))
            other = translate(recording, op_map, Options(name=program.name, freeze=request.freeze))
        except Exception:  # a check beside the conversion: what fails here is noted, and never ends it
            return None
        with TemporaryDirectory(prefix="ms-port-") as folder:
            write_package(other, op_map, Path(folder), banner)
            return Path(folder, file).read_text(encoding="utf-8")

    sizes = {} if request.freeze or request.inputs_text else labelled_sizes(request.specs)
    found = find_built_in_sizes(base.read_text(encoding="utf-8"), file, origins[file], sizes, text_for)
    notes = [f"not compared with another size of {label}: the model does not run with it" for label in found.fixed]
    return replace(program, flags=(*program.flags, *found.flags)), notes


def _check_padding(program: Program, recording: Recording, request: Request) -> tuple[Program, list[str]]:
    """The program with flags where padding along ``seq`` reaches the results, and notes."""
    from ms_port.padding import find_padding

    found = find_padding(recording.model, () if request.inputs_text else request.specs)
    return replace(program, flags=(*program.flags, *found.flags)), list(found.notes)


def _options(request: Request) -> dict[str, Any]:
    return {
        "target": request.platform,
        "static": dict(request.static),
        "freeze": request.freeze,
        "weights": str(request.weights) if request.weights else None,
        "op_maps": [str(p) for p in request.op_maps],
        "name": request.name,
        "command": request.command,
    }


def _write_weights(recording: Recording, emitted: EmittedFiles, request: Request, root: Path) -> list[str]:
    """weights.safetensors: of the checkpoint, else of the model as it was built. A given instance keeps its own."""
    from ms_port.weights import convert, load_into_module, module_state, read_checkpoint, write_safetensors

    model, notes, rows = recording.model, list[str](), _rows(emitted)
    before = None
    if request.weights is not None:
        checkpoint = read_checkpoint(request.weights)
        if recording.factory is None:
            before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        notes += [f"{request.weights}: {note}" for note in load_into_module(model, checkpoint)]
    try:
        write_safetensors(root / "weights.safetensors", convert(module_state(model, rows), rows))
    finally:
        if before is not None:
            model.load_state_dict(before)
    return notes


def _rows(emitted: EmittedFiles) -> list[dict[str, Any]]:
    """port.json's ``parameters``."""
    return [
        {"torch": row.torch, "mindspore": row.mindspore, "shape": list(row.shape), "rule": row.rule, "kind": row.kind}
        for row in emitted.parameters
    ]


def _verify(request: Request, recording: Recording, root: Path) -> Mapping[str, Any]:
    from ms_port import verify  # by this way, so that `ms_port.verify(...)` can be called afterwards

    inputs = (request.inputs.args, request.inputs.kwargs)
    return verify(root, level=request.level, model=recording.model, inputs=inputs).to_json()


def _report(
    request: Request,
    program: Program,
    verification: Mapping[str, Any],
    clock: Clock,
    notes: list[str],
    edits: tuple[Edit, ...],
) -> Report:
    return Report(
        model=program.name,
        target=request.target_text,
        flags=program.flags,
        coverage=coverage(program),
        verification=verification,
        timings={**clock.seconds, "total": sum(clock.seconds.values())},
        notes=tuple(notes),
        edits=tuple((edit.file, edit.described) for edit in edits),
        conflicts=sum(edit.conflicts for edit in edits),
        versions=versions(),
        changes=changes(program),
    )


def changes(program: Program) -> tuple[Change, ...]:
    """For change_list.csv: the torch calls that were rewritten, and the statements that were left out."""
    found = {Change(e.loc.file, e.loc.line, e.loc.line, "modify", e.api) for e in program.ledger}
    found |= {Change(d.loc.file, d.loc.line, d.loc.line, "delete", f"{d.text} ({d.reason})") for d in program.drops}
    return tuple(sorted(found, key=lambda c: (c.file, c.line, c.kind, c.message)))


def coverage(program: Program) -> Coverage:
    """The places in the source that call torch: with a form of their own, expanded into simpler ops, flagged."""
    places = {(entry.api, entry.loc.file, entry.loc.line) for entry in program.ledger}
    flagged = {(f.op, str(f.source)) for f in program.flags if f.rule == "MSP101"}
    expanded = {(f.op, str(f.source)) for f in program.flags if f.rule == "MSP106"}
    return Coverage(len(places), len(places) - len(flagged) - len(expanded), len(expanded), len(flagged))


def _log(report: Report, request: Request, recording: Recording) -> list[str]:
    """conversion.log: what ran, how long, what was noted."""
    lines = [f"command: {request.command}"] if request.command else []
    lines += [f"{name} {version}" for name, version in report.versions.items()]
    lines += [f"{stage}: {seconds:.3f} s" for stage, seconds in report.timings.items()]
    lines += [f"capture {part}: {seconds:.3f} s" for part, seconds in recording.timings.items()]
    lines += [f"not instrumented: {count} ({reason})" for reason, count in recording.skipped.items()]
    lines += [f"{f.rule} {f.severity} {f.source or ''} {f.op or ''}: {f.message}" for f in report.flags]
    lines += [f"edit: {file} {action}" for file, action in report.edits]
    return [*lines, *(f"note: {note}" for note in report.notes), f"status: {report.status}"]
