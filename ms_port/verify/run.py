"""``verify``: run both sides of a port and judge it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from ms_port.errors import BadInput
from ms_port.verify.backward import locate_backward
from ms_port.verify.clock import Clock
from ms_port.verify.forward_level import forward_level
from ms_port.verify.gradient import gradient_level
from ms_port.verify.port import Port, as_inputs
from ms_port.verify.session import Session, check_inputs
from ms_port.verify.stubs import unwritten
from ms_port.verify.verdict import LEVELS, Level, Verdict

TIMEOUT = 900.0


def verify(
    out: str | Path,
    level: str = "forward",
    model: nn.Module | None = None,
    inputs: Any = None,
    loss: str | None = None,
    seed: int = 0,
    timeout: float = TIMEOUT,
    progress: Callable[[str], None] | None = None,
) -> Verdict:
    """Compare the port in folder ``out`` with the torch model it came from.

    Args:
        level: the highest level to run: ``forward``, ``gradient``, ``step`` or ``train``.
        model: the torch model, where port.json can't make it again; it is left as it was.
        inputs: args, or (args, kwargs), instead of those of port.json.
        loss: ``FILE.py:FUNC`` instead of a random projection of the outputs.
        seed: of the noise on the weights and of the inputs.
        timeout: seconds for the MindSpore process.
        progress: told what happens, a short line each.

    Raises BadInput if nothing can be compared: no port, no torch model, inputs that do not fit.
    """
    if level not in LEVELS:
        raise BadInput(f"there is no level '{level}'", where="--level", advice=f"one of {', '.join(LEVELS)}")
    if loss is not None:
        raise BadInput("a loss of your own can't be used yet", where="--loss", advice="leave --loss out")
    say = progress or (lambda text: None)
    port, clock = Port.read(out), Clock()
    if stubs := unwritten(port.out / port.package):
        return _not_verified(level, stubs)
    model = port.model() if model is None else model
    given = port.inputs(seed) if inputs is None else as_inputs(inputs)
    check_inputs(model, given)
    session = Session.prepare(port, model, given, seed)
    clock.lap("weights")
    with tempfile.TemporaryDirectory(prefix="ms-port-verify-") as name:
        folder = Path(name)
        forward, modes = forward_level(session, folder, timeout, clock, say)
        verdict = Verdict(forward=replace(forward, seconds=clock.rounded()))
        if LEVELS.index(level) >= LEVELS.index("gradient"):
            say("gradients")
            gradient = gradient_level(session, modes, folder / "gradient", timeout)
            if gradient.first is not None:
                first = locate_backward(session, modes[-1], gradient.first, folder / "backward", timeout)
                gradient = replace(gradient, first=first)
            verdict = replace(verdict, gradient=gradient)
        return verdict


def _not_verified(level: str, stubs: list[str]) -> Verdict:
    """A port that still raises can't be run: that is no fault of what was ported."""
    number = f"{len(stubs)} stub{'s' if len(stubs) > 1 else ''}"
    listed = ", ".join(stubs[:10]) + (" ..." if len(stubs) > 10 else "")
    unrun = Level("not run", notes=(f"not verified: {number} to be written by hand ({listed})",))
    return Verdict(**dict.fromkeys(LEVELS[: LEVELS.index(level) + 1], unrun))
