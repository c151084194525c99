"""From the cell at fault to the call in it, with both source lines, the likely cause and a script that shows it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ms_port.ir.flags import Place
from ms_port.verify.built import constructions
from ms_port.verify.causes import Cause, causes
from ms_port.verify.judge import Array, Truth, compare, make_truth
from ms_port.verify.session import Mode, Session
from ms_port.verify.sites import Site, instrument
from ms_port.verify.torch_calls import Change, Finished, TorchCall, Watch, frontier, is_source
from ms_port.verify.torch_side import as_array
from ms_port.verify.verdict import Divergence

SECONDS = 60.0
"""For trying causes."""


@dataclass
class Scene:
    """One call of the module at fault: what torch did there, in both precisions, and what the port gave."""

    session: Session
    mode: Mode
    first: Divergence
    call: int
    single: Watch
    double: Watch
    given: list[Array | None] = field(default_factory=list)
    """What the cell of the port gave."""
    remembered: dict[str, Array] = field(default_factory=dict)
    """The cell's running statistics after a step of training, by torch's names of the buffers."""
    sites: list[Site] = field(default_factory=list)
    seen: dict[int, list[Array]] = field(default_factory=dict)
    """Values of the port's expressions by site, in the order in which they came."""
    built: Mapping[str, Any] = field(default_factory=dict)
    guilty: TorchCall | None = None
    cause: str = ""
    changed: tuple[Array, ...] = ()
    """What the guilty call gives with the cause."""
    site: Site | None = None

    def truths(self, call: TorchCall) -> list[Truth]:
        """Of the results of a call."""
        near = self.single.calls[self.double.calls.index(call)].results
        return [make_truth(as_array(d), as_array(s)) for d, s in zip(call.results, near, strict=True)]


def pinpoint(
    session: Session,
    mode: Mode,
    first: Divergence,
    note: str,
    built: Mapping[str, Any],
    arrays: Path,
    folder: Path,
    timeout: float,
) -> tuple[Divergence, Scene | None]:
    """Name the call, its places and its likely cause, as far as they can be told.

    Args:
        first: where the port leaves the truth, as a cell.
        note: what the comparison said beside its numbers.
        built: how the port's cells are made, as the MindSpore side tells it.
        arrays: where the port's cell outputs are.
        folder: for another run of the port; it must not exist.
    """
    scene = _scene(session, mode, first)
    if scene is None:
        return first, None
    scene.built = built
    scene.given = _given(scene, arrays)
    scene.remembered = _remembered(scene, arrays)
    _run_port(scene, folder, timeout)
    _find_call(scene)
    if scene.guilty is None:
        return _with_places(scene), scene
    if note.startswith("drops "):
        scene.cause = note
    else:
        _find_cause(scene, folder, timeout)
    _find_site(scene)
    return _with_places(scene), scene


def _scene(session: Session, mode: Mode, first: Divergence) -> Scene | None:
    """Run torch twice, up to the end of the call at fault."""
    before = mode.truth.order[: mode.truth.order.index((first.seen_at, first.call))] if first.seen_at else []
    call = first.call if first.path == first.seen_at else sum(path == first.path for path, _ in before)
    single, double = (_watch(session, mode, first.path, call, wide) for wide in (False, True))
    if not (single.done and double.done) or len(single.calls) != len(double.calls):
        return None
    return Scene(session, mode, first, call, single, double)


def _watch(
    session: Session, mode: Mode, path: str, call: int, double: bool, change: Mapping[int, Change] | None = None
) -> Watch:
    watch = Watch(path, call, change or {})
    with suppress(Finished):
        session.record(mode.train, watched=False, double=double, watch=watch.watching)
    return watch


def _given(scene: Scene, arrays: Path) -> list[Array | None]:
    """What the port's cell gave at this call."""
    cell = scene.first.cell
    call = scene.call - scene.mode.calls.get(cell, 0)
    stem = f"cell.{cell}.{call}" if scene.first.path else "output..0"
    files = [arrays / f"{stem}.{i}.npy" for i in range(len(scene.double.outputs))]
    return [np.load(f) if f.exists() else None for f in files]


def _remembered(scene: Scene, arrays: Path) -> dict[str, Array]:
    if not scene.mode.train:
        return {}
    found = {}
    for row in scene.session.port.rows:
        owner, _, name = row.torch.rpartition(".")
        file = arrays / f"statistic.{row.mindspore}.0.0.npy"
        if owner == scene.first.path and row.rule == "same" and file.exists():
            found[name] = np.load(file)
    return found


def _run_port(scene: Scene, folder: Path, timeout: float) -> None:
    """Run the port with sites in the class at fault; without where that fails."""
    session, mode = scene.session, scene.mode
    folder.mkdir()
    scene.sites = instrument(session.port.out, session.port.package, scene.first.cls, folder / "out")
    if not scene.sites:
        return
    side = session.launch(folder / "sites", [session.describe(mode, {})], out=str(folder / "out"))
    try:
        side.finish(timeout)
    finally:
        side.stop()
    file = folder / "sites" / mode.name / "sites.npz"
    if file.exists():
        with np.load(file) as saved:
            for i, number in enumerate(saved["sites"]):
                scene.seen.setdefault(int(number), []).append(saved[f"arr_{i}"])


def _find_call(scene: Scene) -> None:
    """The first torch call whose result the port does not have, on the way to a wrong output."""
    calls, ends = scene.double.calls, scene.double.output_from
    if not scene.seen:
        wrong = dict.fromkeys(range(len(calls)), False)
        number = frontier(calls, wrong, ends)
    else:
        values = [v for found in scene.seen.values() for v in found]
        right = {
            i: all(any(_agrees(v, truth) for v in values) for truth in scene.truths(call))
            for i, call in enumerate(calls)
        }
        # A port seldom computes a mask as torch does: one that it does not have is at fault only if nothing else is.
        masks = {i: True for i, call in enumerate(calls) if call.results and all(_is_mask(t) for t in call.results)}
        number = frontier(calls, right | masks, ends)
        number = frontier(calls, right, ends) if number is None else number
    if number is None and len(calls) == 1:
        number = 0
    scene.guilty = None if number is None else calls[number]


def _is_mask(result: torch.Tensor) -> bool:
    return result.dtype == torch.bool


def _agrees(value: Array, truth: Truth) -> bool:
    return value.shape == truth.values.shape and compare("", value, truth).equal


def _find_cause(scene: Scene, folder: Path, timeout: float) -> None:
    """Run torch with each change that the table knows, until it gives what the port gives."""
    assert scene.guilty is not None
    number = scene.double.calls.index(scene.guilty)
    tried: Iterable[tuple[Cause, Watch]] = _tried(scene, scene.guilty, number)
    if scene.first.path and [got is None for got in scene.given] == [True]:
        tried = list(tried)
        scene.given = _given_in_another_shape(scene, [watch for _, watch in tried], folder, timeout)
    for cause, watch in tried:
        if _explains(scene, watch):
            scene.cause = cause.text
            results = watch.calls[number].results if len(watch.calls) > number else ()
            scene.changed = tuple(as_array(t) for t in results)
            return


def _tried(scene: Scene, guilty: TorchCall, number: int) -> Iterator[tuple[Cause, Watch]]:
    start = time.perf_counter()
    for cause in causes(guilty):
        if time.perf_counter() - start > SECONDS:
            return
        try:
            watch = _watch(scene.session, scene.mode, scene.first.path, scene.call, True, {number: cause.change})
        except Exception:  # the change does not fit these arguments
            continue
        if watch.done:
            yield cause, watch


def _given_in_another_shape(scene: Scene, tried: Sequence[Watch], folder: Path, timeout: float) -> list[Array | None]:
    """What the port's cell gave, if its shape is that of one of the causes: a tap keeps only shapes that it awaits."""
    session, mode, cell = scene.session, scene.mode, scene.first.cell
    shapes = dict.fromkeys(tuple(watch.outputs[0].shape) for watch in tried if len(watch.outputs) == 1)
    if not shapes or session.stride > 1:
        return [None]
    folder.mkdir(exist_ok=True)
    taps = {cell: [[(list(shape), "float32")] for shape in shapes]}
    side = session.launch(folder / "shapes", [session.describe(mode, taps)])
    try:
        side.finish(timeout)
    finally:
        side.stop()
    files = [folder / "shapes" / mode.name / f"cell.{cell}.{call}.0.npy" for call in range(len(shapes))]
    return [next((np.load(file) for file in files if file.exists()), None)]


def _explains(scene: Scene, watch: Watch) -> bool:
    """Whether torch, changed, gives what the port gives: the outputs, or the statistic that was wrong."""
    if len(watch.outputs) != len(scene.given) or not watch.outputs:
        return False
    near = [
        make_truth(as_array(d), as_array(s)) for d, s in zip(scene.double.outputs, scene.single.outputs, strict=True)
    ]
    pairs = list(zip(scene.given, watch.outputs, near, strict=True))
    if all(got is not None and _agrees(got, truth) for got, _, truth in pairs):
        return _explains_statistics(scene, watch)
    stride = scene.session.stride if scene.first.path else 1
    for got, out, truth in pairs:
        other = as_array(out, stride)
        size = make_truth(other, other).scale  # what is infinite or NaN on both sides is not measured
        limit = Truth(other, truth.error * (size / truth.scale if truth.scale else 1.0), size)
        if got is None or got.shape != other.shape or not compare("", got, limit).equal:
            return False
    return True


def _explains_statistics(scene: Scene, watch: Watch) -> bool:
    """All outputs are right, so it must be what a normalisation remembers."""
    floats = {name: as_array(t) for name, t in watch.buffers.items() if t.is_floating_point()}
    pairs = [(scene.remembered.get(name), array) for name, array in floats.items()]
    return bool(pairs) and all(
        got is not None and _agrees(got, make_truth(array, array.astype(np.float32))) for got, array in pairs
    )


def _find_site(scene: Scene) -> None:
    """The port's expression for the guilty call: what gives the result of the cause, or the first wrong one."""
    assert scene.guilty is not None
    truths = [truth for call in scene.double.calls for truth in scene.truths(call)]
    truths += [
        make_truth(as_array(d), as_array(s))
        for d, s in zip(scene.double.arguments, scene.single.arguments, strict=True)
    ]
    wrong = []
    for number, values in scene.seen.items():
        site = scene.sites[number]
        if not site.name and any(v.dtype.kind == "f" and v.ndim for v in values):
            wrong += [] if any(_agrees(v, t) for v in values for t in truths) else [site]
    shapes = {tuple(t.shape) for t in scene.guilty.results}
    changed = [make_truth(array, array.astype(np.float32)) for array in scene.changed]
    tests = (
        lambda v: any(_agrees(v, t) for t in changed),
        lambda v: v.shape in shapes,
        lambda v: True,
    )
    for test in tests:
        for site in wrong:
            if any(test(v) for v in scene.seen[site.number]):
                scene.site = site
                return


def _with_places(scene: Scene) -> Divergence:
    """The divergence with all that was found."""
    first, guilty = scene.first, scene.guilty
    module = scene.session.model.get_submodule(first.path)
    made = _made_at(scene.session, first.path)
    layer = not is_source(_file_of(type(module)))
    source = made if layer or guilty is None else guilty.place
    generated = scene.site.place if scene.site else None
    if generated is None and (row := scene.built.get(first.cell)):
        generated = Place(row["file"], row["line"])
    op = "" if guilty is None else guilty.name or guilty.child
    return replace(
        first, op=op, source=source or (guilty.place if guilty else made), generated=generated, cause=scene.cause
    )


def _file_of(cls: type) -> str:
    return str(getattr(sys.modules.get(cls.__module__), "__file__", "") or "")


def _made_at(session: Session, path: str) -> Place | None:
    """Where the person's code makes the module: seen by making the model again, where port.json says how."""
    try:
        with constructions(nn.Module, is_source) as table, torch.random.fork_rng(devices=[]):
            model = session.port.model()
            found = table.get(id(model.get_submodule(path)))
    except Exception:  # it arrived built, or its factory needs what is not here
        return None
    return Place(found[1].file, found[1].line) if found else None
