"""``verify``: run both sides of a port and judge it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from ms_port.errors import BadInput
from ms_port.verify.backward import locate_backward
from ms_port.verify.certificate import write_certificate
from ms_port.verify.clock import Clock
from ms_port.verify.curves import write_curves
from ms_port.verify.forward_level import FIRST, forward_level
from ms_port.verify.gradient import gradient_level
from ms_port.verify.gradient_causes import untied
from ms_port.verify.loss import Loss
from ms_port.verify.port import Inputs, Port, as_inputs
from ms_port.verify.precision import in_precision
from ms_port.verify.process import Side
from ms_port.verify.reference import Reference
from ms_port.verify.session import Session, check_inputs
from ms_port.verify.step_level import UPDATES, step_level
from ms_port.verify.stubs import unwritten
from ms_port.verify.torch_side import NotDifferentiable
from ms_port.verify.train_level import train_level
from ms_port.verify.verdict import LEVELS, Level, Verdict
from ms_port.weights import WeightsError

TIMEOUT = 900.0


def verify(
    out: str | Path,
    level: str = "forward",
    model: nn.Module | None = None,
    inputs: Any = None,
    loss: str | Callable[..., Any] | None = None,
    steps: int = 50,
    seed: int = 0,
    timeout: float = TIMEOUT,
    progress: Callable[[str], None] | None = None,
    precisions: Sequence[str] = (),
) -> Verdict:
    """Compare the port in folder ``out`` with the torch model it came from.

    Args:
        level: the highest level to run: ``forward``, ``gradient``, ``step`` or ``train``.
        model: the torch model, where port.json can't make it again; it is left as it was.
        inputs: args, or (args, kwargs), instead of those of port.json.
        loss: ``FILE.py:FUNC`` or a function of the model's output (and the inputs by name), written for torch, instead
            of a random projection of the outputs.
        steps: of the train level.
        seed: of the noise on the weights and of the inputs.
        timeout: seconds for the MindSpore process.
        progress: told what happens, a short line each.
        precisions: ``float16``, ``bfloat16``: the port computes in these as well, as far as the backend can; the
            outcome is noted, stands in the certificate, and doesn't change the verdict of float32.

    Raises BadInput if nothing can be compared: no port, no torch model, inputs that do not fit.
    """
    if level not in LEVELS:
        raise BadInput(f"there is no level '{level}'", where="--level", advice=f"one of {', '.join(LEVELS)}")
    if unknown := set(precisions) - {"float16", "bfloat16"}:
        raise BadInput(f"there is no precision '{min(unknown)}'", where="--precision", advice="float16 or bfloat16")
    if steps < 1:
        raise BadInput(f"{steps} steps can't be taken", where="--steps", advice="1 or more")
    own = Loss.of(loss) if loss is not None else None
    port = Port.read(out)
    if stubs := unwritten(port.out / port.package):
        return _not_verified(level, stubs)
    model = port.model() if model is None else model
    given = port.inputs(seed) if inputs is None else as_inputs(inputs)
    check_inputs(model, given)
    job = Job(port, own, steps, seed, timeout, progress or (lambda text: None))
    verdict = _levels(job, model, given, LEVELS.index(level))
    write_certificate(port, verdict, seed, own.name if own else None)
    notes = [in_precision(port.out, precision, level, timeout) for precision in precisions]
    if notes:
        verdict = replace(verdict, forward=replace(verdict.forward, notes=(*verdict.forward.notes, *notes)))
    return verdict


@dataclass(frozen=True)
class Job:
    """What was asked for."""

    port: Port
    loss: Loss | None
    steps: int
    seed: int
    timeout: float
    say: Callable[[str], None]


def _levels(job: Job, model: nn.Module, given: Inputs, highest: int) -> Verdict:
    """Run the levels up to ``highest``, the index of one."""
    clock = Clock()
    with tempfile.TemporaryDirectory(prefix="ms-port-verify-") as name:
        folder = Path(name)
        side = Side(folder / FIRST)  # imports MindSpore while torch works
        try:
            session = Session.prepare(job.port, model, given, job.seed)
            reference = Reference(session)
            clock.lap("weights")
            forward, modes = forward_level(session, folder, job.timeout, clock, reference, job.say, side)
        finally:
            side.stop()
        verdict = Verdict(forward=replace(forward, seconds=clock.rounded()))
        if highest >= LEVELS.index("gradient"):
            job.say("gradients")
            steps = highest >= LEVELS.index("step")
            specs = UPDATES if steps else ()
            gradient, seen = gradient_level(session, modes, folder / "gradient", job.timeout, job.loss, specs)
            if gradient.first is not None and seen is not None:
                first = locate_backward(session, modes[-1], gradient.first, folder / "backward", job.timeout, job.loss)
                gradient = replace(gradient, first=untied(session, seen, first))
            verdict = replace(verdict, gradient=gradient)
            if steps:
                kinked = [text.partition(":")[0] for text in gradient.kinks]
                verdict = replace(verdict, step=step_level(session, seen and (seen.closer or seen), kinked))
            if seen is not None:
                reference.add_gradient(seen, steps)
                session = (seen.closer or seen).batches[0].session  # in the arithmetic that the port was found equal in
            del seen
        if highest >= LEVELS.index("train"):
            try:
                level = train_level(session, modes, folder / "train", job.timeout, job.steps, job.loss, job.say)
            except NotDifferentiable as error:
                level = Level("not proven", not_proven=(str(error),))
            verdict = replace(verdict, train=level)
            write_curves(job.port.out / "report", level)
    try:
        reference.write()
    except (OSError, WeightsError) as error:
        note = f"no reference for other devices was written: {error}"
        verdict = replace(verdict, forward=replace(verdict.forward, notes=(*verdict.forward.notes, note)))
    return verdict


def _not_verified(level: str, stubs: list[str]) -> Verdict:
    """A port that still raises can't be run: that is no fault of what was ported."""
    number = f"{len(stubs)} stub{'s' if len(stubs) > 1 else ''}"
    listed = ", ".join(stubs[:10]) + (" ..." if len(stubs) > 10 else "")
    unrun = Level("not run", notes=(f"not verified: {number} to be written by hand ({listed})",))
    return Verdict(**dict.fromkeys(LEVELS[: LEVELS.index(level) + 1], unrun))
