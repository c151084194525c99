"""Run the forward level: both sides, side by side, in eval and in train mode, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from ms_port.errors import BadInput
from ms_port.verify import forward
from ms_port.verify.bisect import Culprit, find_culprit
from ms_port.verify.clock import Clock
from ms_port.verify.cpu_kernels import CpuKernels
from ms_port.verify.explain import explain
from ms_port.verify.forward import Findings
from ms_port.verify.locate import locate
from ms_port.verify.observed import Observed
from ms_port.verify.process import Outcome, Side, peaks
from ms_port.verify.reference import Reference
from ms_port.verify.repro import clear
from ms_port.verify.session import OTHERS, Mode, Session, forward_failed
from ms_port.verify.verdict import Divergence, Level, Status, worst_status

FIRST = "first"
"""Folder of the first MindSpore process."""
FEW = 0.01
"""Share of a tensor's elements that a jump of the function within rounding may change."""


def forward_level(
    session: Session,
    folder: Path,
    timeout: float,
    clock: Clock,
    reference: Reference,
    say: Callable[[str], None],
    side: Side | None = None,
) -> tuple[Level, list[Mode]]:
    """The verdict, and the modes that were compared (for further levels). Raises BadInput if torch's forward fails.

    ``side``: a MindSpore process that waits in ``folder / FIRST``.
    """
    seen = _observe(session, folder, timeout, clock, say, side)
    say("comparing")
    findings = {
        mode.name: forward.find(session, mode, seen.folder / mode.name, seen.outcome)
        for mode in seen.modes
        if mode.name in seen.finished and not seen.finished[mode.name]["unanswered"]
    }
    for name, report in seen.finished.items():
        if report["unanswered"]:
            cells = ", ".join(report["unanswered"][:5])
            seen.unproven[name] = f"{name} mode: nothing in the port answers the random draws of {cells}"
    clock.lap("comparing")
    approximated = _approximated(session, seen, findings)
    clock.lap("kernels")
    kinked = _kinked(session, seen, {k: f for k, f in findings.items() if k not in approximated}, folder, timeout)
    clock.lap("other batches")
    first = None
    clear(session.port.out)
    for mode in seen.modes:
        if first is None and mode.name in findings and mode.name not in {*kinked, *approximated}:
            first = locate(session, mode, findings[mode.name], folder / f"locate-{mode.name}", timeout)
            if first is not None:
                first = explain(session, mode, first, findings[mode.name], seen, folder, timeout)
    clock.lap("locating")
    for mode in seen.modes:
        if mode.name in findings:
            reference.add_forward(mode, findings[mode.name], mode.name in approximated)
            mode.truth.values.clear()
    clock.lap("reference")
    culprit = None
    if seen.outcome.status == "crashed" and seen.outcome.stage in ("eval", "train"):
        mode = next(mode for mode in seen.modes if mode.name == seen.outcome.stage)
        culprit = find_culprit(session, mode, folder / "alone", timeout)
        clock.lap("bisecting")
    for name, (found, why) in approximated.items():
        seen.notes.append(f"{name}: {why}: error up to {forward.largest(findings[name].all(), 'error'):.1e}")
        findings[name] = found
    return _level(seen, findings, first, culprit, kinked), [mode for mode in seen.modes if mode.name in findings]


def _approximated(
    session: Session, seen: Observed, findings: Mapping[str, Findings]
) -> dict[str, tuple[Findings, str]]:
    """Modes that differ from torch, and not from a torch with MindSpore's CPU kernels: how they compare with that."""
    equal = {}
    for mode in seen.modes:
        if mode.name in findings and not all(c.equal for c in findings[mode.name].all()):
            kernels = CpuKernels()
            other = replace(session, arithmetic=kernels)
            again = replace(mode, single=other.record(mode.train))
            if not kernels.used:  # nothing in this mode is computed otherwise
                continue
            again.truth = other.record(mode.train, double=True, single=again.single)
            found = forward.find(other, again, seen.folder / mode.name, seen.outcome)
            if all(c.equal for c in found.all()):
                equal[mode.name] = found, kernels.told
    return equal


def _kinked(
    session: Session, seen: Observed, findings: Mapping[str, Findings], folder: Path, timeout: float
) -> list[str]:
    """Modes that differ on this batch, first in a few elements of a tensor, and on no other batch.

    So does a function that jumps (a rounding, an argmax, a comparison) at a value within rounding of the jump.
    """
    few = []
    for name, found in findings.items():
        place = found.first_wrong()
        if place is not None and place[2].share <= FEW and all(c.equal for c in found.statistics):
            few.append(name)
    if not few:
        return []
    for number in range(OTHERS):
        other = session.varied(number + 1)
        try:
            again = _observe(other, folder / f"other{number}", timeout, Clock(), lambda text: None)
        except Exception:  # the model takes no other values: then what differs is a fault
            return []
        for mode in again.modes:
            if mode.name in few and mode.name in again.finished:
                found = forward.find(other, mode, again.folder / mode.name, again.outcome)
                if not all(c.equal for c in found.all()):
                    few.remove(mode.name)
            elif mode.name in few:
                few.remove(mode.name)
    return few


def _observe(
    session: Session,
    folder: Path,
    timeout: float,
    clock: Clock,
    say: Callable[[str], None],
    side: Side | None = None,
) -> Observed:
    """Run torch in float32 first (the port's taps need the shapes), then torch in float64 beside the port."""
    say("torch in float32")
    modes, notes, unproven = _modes(session)
    clock.lap("torch float32")
    say("torch in float64, and MindSpore beside it")
    folder.mkdir(exist_ok=True)
    side = session.start(folder / FIRST, modes, side=side)
    try:
        for mode in modes:
            mode.truth = session.record(mode.train, double=True, single=mode.single)
        clock.lap("torch float64")
        ignored = forward.ignored_inputs(session, modes[0].single.outputs)
        clock.lap("inputs")
        outcome = side.finish(timeout)
    finally:
        side.stop()
    if outcome.status == "crashed" and not outcome.hopeless:
        again = session.start(folder / "plain", modes, taps=False)
        try:
            second = again.finish(timeout)
        finally:
            again.stop()
        if second.status == "done" or len(second.result.get("modes", {})) > len(outcome.result.get("modes", {})):
            notes.append(f"cells could not be read: {outcome.message}")
            outcome, side = second, again
    if outcome.status == "crashed" and all(mode.name in outcome.result.get("modes", {}) for mode in modes):
        notes.append(f"MindSpore's process failed after its last result: {outcome.message}")
        outcome = replace(outcome, status="done", message="", where="")
    clock.lap("waiting for MindSpore")
    clock.laps |= _stages(outcome)
    return Observed(modes, outcome, side.job, ignored, notes, unproven)


def _stages(outcome: Outcome) -> dict[str, float]:
    """Seconds of the MindSpore process: in all, for start and build, then for each mode."""
    parts = {"mindspore": outcome.seconds, "mindspore build": outcome.result.get("seconds", {}).get("build", 0.0)}
    for name, report in outcome.result.get("modes", {}).items():
        parts |= {f"mindspore {name}": report.get("seconds", 0.0)}
    return parts


def _modes(session: Session) -> tuple[list[Mode], list[str], dict[str, str]]:
    """Eval, and train where torch itself can and all draws can be replayed; why torch can't, and what is not proven."""
    try:
        modes = [session.mode(train=False)]
    except BadInput:
        raise
    except Exception as error:
        raise forward_failed(session.model, error) from error
    try:
        train = session.mode(train=True)
    except Exception as error:
        return modes, [f"train mode was not run: torch raised {type(error).__name__}: {error}"], {}
    if train.single.random:
        return modes, [], {"train": "train mode: the model draws random numbers that can't be replayed"}
    return [*modes, train], [], {}


def _level(
    seen: Observed,
    findings: dict[str, Findings],
    first: Divergence | None,
    culprit: Culprit | None,
    kinked: Collection[str],
) -> Level:
    statuses: dict[str, Status] = {"eval": "not run", "train": "not run"}
    statuses |= dict.fromkeys(seen.unproven, "not proven")
    not_proven = [f"input {name}: torch's outputs do not depend on it here" for name in seen.ignored]
    not_proven += seen.unproven.values()
    notes = list(seen.notes)
    for mode in seen.modes:
        if mode.name not in findings:
            if seen.outcome.status == "crashed" and mode.name not in seen.finished:
                statuses[mode.name] = "crashed"
            continue
        found = findings[mode.name]
        zero = [f"{c.name} is exactly zero ({mode.name})" for c in found.outputs if c.zero]
        not_proven += zero
        wrong = not all(c.equal for c in found.all()) and mode.name not in kinked
        statuses[mode.name] = "not equal" if wrong else "not proven" if zero or seen.ignored else "equal"
        if found.unread:
            listed = ", ".join(dict.fromkeys(found.unread))
            notes.append(f"{mode.name}: {len(set(found.unread))} modules have no output to compare: {listed[:200]}")
    single = sorted({op for mode in seen.modes for op in mode.truth.single})
    if single:
        notes.append(f"without a float64 kernel in torch, run in float32: {', '.join(single)}")
    compared = [c for f in findings.values() for c in f.all()]
    return Level(
        status=worst_status([s for s in statuses.values() if s != "not run"] or ["not run"]),
        max_error=forward.largest(compared, "error"),
        truth_error=forward.largest(compared, "truth_error"),
        worst=tuple(forward.merged(findings)),
        compared=len(compared),
        modes=statuses,
        first=first,
        not_proven=tuple(not_proven),
        kinks=tuple(
            f"{c.name} ({name}) and what follows from it: error {c.error:.1e} in {c.share:.1e} of its elements, "
            f"right on {OTHERS} other batches"
            for name in kinked
            if (place := findings[name].first_wrong()) and (c := place[2])
        ),
        notes=tuple(notes),
        message=seen.outcome.message,
        where=(culprit.where if culprit else "") or seen.outcome.where,
        crashed_in=culprit.path or "the root" if culprit else "",
        peak_bytes=peaks(seen.outcome),
    )
