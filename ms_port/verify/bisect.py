"""Which cell ends the MindSpore process: run the children of what failed alone, and go into the first that fails."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ms_port.verify.port import CellPair, Inputs, mapped
from ms_port.verify.process import Outcome, explain, save_inputs
from ms_port.verify.session import Mode, Session
from ms_port.verify.torch_side import run, state_of

BUDGET = 300.0
"""Seconds for the whole search."""
PATIENCE = 60.0
"""Seconds for the cells of one module: one that takes longer hangs."""


@dataclass(frozen=True)
class Culprit:
    """The smallest module whose cell does not run: alone it fails, and none of its own children does."""

    path: str
    message: str = ""
    where: str = ""


def find_culprit(session: Session, mode: Mode, folder: Path, timeout: float, gradient: bool = False) -> Culprit:
    """Search from the root down, as long as the time allows. What can't be told is put down to the module around it."""
    ends = time.perf_counter() + min(BUDGET, timeout)
    found, depth = Culprit(""), 0
    while time.perf_counter() < ends:
        children = _children(session, found.path, mode)
        if not children:
            break
        job = folder / f"alone{depth}"
        patience = min(PATIENCE, timeout, ends - time.perf_counter())
        deeper = _first_failing(session, mode, children, job, patience, gradient)
        if deeper is None:
            break
        found, depth = deeper, depth + 1
    return found


def _children(session: Session, path: str, mode: Mode) -> list[CellPair]:
    """The nearest modules below that were called and have a cell, in the order in which they began."""
    prefix = f"{path}." if path else ""
    began = mode.single.began
    ran = [p for p in session.port.cells if p.cell and p.path in began]
    below = [p for p in ran if p.path != path and p.path.startswith(prefix)]
    paths = {p.path for p in below}
    nearest = [p for p in below if not any(q != p.path and p.path.startswith(f"{q}.") for q in paths)]
    return sorted(nearest, key=lambda p: began.index(p.path))


def _first_failing(
    session: Session, mode: Mode, children: Sequence[CellPair], job: Path, timeout: float, gradient: bool
) -> Culprit | None:
    inputs = arguments_of(session, mode, [c.path for c in children])
    modules = dict(session.model.named_modules())
    job.mkdir(parents=True)
    cells = []
    for i, child in enumerate(children):
        if child.path in inputs:
            named = inputs[child.path].named(modules[child.path])
            cells.append({"cell": child.cell, "inputs": save_inputs(named, job, f"alone{i}.")})
    side = session.launch(job, [{"mode": "alone", "train": mode.train, "alone": cells, "gradient": gradient}])
    try:
        outcome = side.finish(timeout)
    finally:
        side.stop()
    return _culprit(session, children, outcome)


def _culprit(session: Session, children: Sequence[CellPair], outcome: Outcome) -> Culprit | None:
    paths = {child.cell: child.path for child in children}
    errors = outcome.result.get("modes", {}).get("alone", {})
    for cell, text in errors.items():
        message, where = explain(text, 1, str(session.port.out))
        return Culprit(paths[cell], message, where)
    name = outcome.stage.removeprefix("alone ")
    if outcome.status == "crashed" and name in paths:
        return Culprit(paths[name], outcome.message.removeprefix(f"{outcome.stage}: "), outcome.where)
    return None


def arguments_of(session: Session, mode: Mode, paths: Sequence[str]) -> dict[str, Inputs]:
    """What torch gives each module at its first call, in float32."""
    found: dict[str, Inputs] = {}
    modules = dict(session.model.named_modules())
    handles = []
    for path in paths:

        def keep(module: nn.Module, args: Any, kwargs: Any, path: str = path) -> None:
            if path not in found:
                args, kwargs = mapped((args, kwargs), lambda t: t.detach().clone())
                found[path] = Inputs(tuple(args), dict(kwargs))

        handles.append(modules[path].register_forward_pre_hook(keep, with_kwargs=True))
    try:
        with state_of(session.model, session.state), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            run(session.model, session.inputs.call, [], train=mode.train)
    finally:
        for handle in handles:
            handle.remove()
    return found
