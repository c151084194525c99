"""The gradient level: every parameter's and every float input's, of a random projection of all float outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ms_port.verify.clock import Clock
from ms_port.verify.forward import largest
from ms_port.verify.judge import Array, Comparison, compare, make_truth
from ms_port.verify.noise import numbers
from ms_port.verify.process import Outcome
from ms_port.verify.session import Mode, Session
from ms_port.verify.torch_side import as_array, run, state_of, tensors
from ms_port.verify.verdict import Divergence, Level, Worst
from ms_port.weights.convert import apply_rule

ZERO, SMALL = 1e-9, 1e-5
"""A gradient below ZERO of the largest one is zero in exact arithmetic; the port's must then be below SMALL of it."""


@dataclass
class Gradients:
    """Of one run of torch: None where no gradient reaches."""

    parameters: dict[str, Tensor | None] = field(default_factory=dict)
    inputs: dict[str, Tensor | None] = field(default_factory=dict)
    projected: list[list[int]] = field(default_factory=list)
    """Shapes of the float outputs."""


def torch_gradients(session: Session, train: bool, double: bool, watch: Any = None) -> Gradients:
    """Differentiate torch by parameters and float inputs, in float32 or float64; ``watch`` as for ``run``."""
    found = Gradients()
    leaves: dict[int, Tensor] = {}
    model = session.model
    with state_of(model, session.state, double), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        options: dict[str, Any] = {"train": train, "double": double, "gradient": True, "watch": watch}
        record = run(model, lambda m, d: session.inputs.call(m, d, leaves), [], **options)
        outputs = [out for out in record.outputs if out.is_floating_point()]
        found.projected = [list(out.shape) for out in outputs]
        terms = []
        for i, out in enumerate(outputs):
            projection = torch.from_numpy(numbers("projection", i, "normal", out.shape))
            if out.requires_grad:
                terms.append((out * projection.to(out.dtype)).sum())
        names = [name for name, value in session.inputs.named(model).items() for _ in tensors(value)]
        wanted = {name: p for name, p in model.named_parameters() if p.requires_grad}
        by = [*wanted.values(), *leaves.values()]
        grads = torch.autograd.grad(sum(terms[1:], terms[0]), by, allow_unused=True) if terms else [None] * len(by)
        found.parameters = dict(zip(wanted, grads, strict=False))
        found.inputs = {names[i]: g for i, g in zip(leaves, grads[len(wanted) :], strict=True)}
    return found


def gradient_level(session: Session, modes: Sequence[Mode], job: Path, timeout: float) -> Level:
    """Compare gradients in train mode (in eval if the forward level could not run train mode)."""
    if not modes:
        return Level("not run", notes=("the forward pass could not be compared",))
    clock, mode = Clock(), modes[-1]
    single = torch_gradients(session, mode.train, double=False)
    side = session.launch(job, [{**session.describe(mode, {}), "projected": single.projected}])
    try:
        truth = torch_gradients(session, mode.train, double=True)
        clock.lap("torch")
        outcome = side.finish(timeout)
    finally:
        side.stop()
    clock.lap("waiting for MindSpore")
    if outcome.status == "crashed":
        return Level("crashed", modes={mode.name: "crashed"}, message=outcome.message, where=outcome.where)
    level = judge_gradients(session, mode, job / mode.name, outcome, truth, single)
    clock.lap("comparing")
    return replace(level, seconds={**clock.rounded(), "mindspore": round(outcome.seconds, 3)})


def judge_gradients(
    session: Session, mode: Mode, folder: Path, outcome: Outcome, truth: Gradients, single: Gradients
) -> Level:
    """Compare what the port left in ``folder`` with torch's gradients."""
    everything = [g for g in [*truth.parameters.values(), *truth.inputs.values()] if g is not None]
    whole = max((float(g.abs().max()) for g in everything if g.numel()), default=0.0)
    comparisons: list[tuple[str, Comparison]] = []
    unreached, zero = [], []
    trained = set(outcome.result["modes"][mode.name]["trained"])
    for name, cell_name, rule, want, near in _pairs(session, truth, single):
        kind = "gradient" if cell_name else "input gradient"
        got = _load(folder / f"{kind}.{cell_name or name}.0.0.npy")
        if cell_name and cell_name not in trained:
            note = "torch trains it, the port does not"
            comparisons.append((name, Comparison(name, float("inf"), 0.0, 1.0, False, note)))
            continue
        if got is None and not cell_name:
            continue
        if want is None or near is None:
            unreached.append(name)
            size = float(np.abs(got).max(initial=0.0)) if got is not None else 0.0
            note = "no gradient of torch reaches it" if size else ""
            comparisons.append((name, Comparison(name, size, 0.0, 0.0, size == 0.0, note)))
            continue
        double, float32 = (as_array(apply_rule(rule, g)) for g in (want, near))
        if np.abs(double).max(initial=0.0) <= ZERO * whole:
            zero.append(name)
            size = float(np.abs(got).max(initial=0.0)) / (whole or 1.0) if got is not None else float("inf")
            equal = got is not None and got.shape == double.shape and size <= SMALL
            comparisons.append((name, Comparison(name, size, 0.0, 0.0, equal, "" if equal else "should be zero")))
            continue
        comparisons.append((name, compare(name, got, make_truth(double, float32))))
    return _level(session, mode, comparisons, unreached, zero, whole)


def _pairs(session: Session, truth: Gradients, single: Gradients) -> Any:
    """(torch name, port's parameter or "", rule, float64 and float32 gradient) of all that is differentiated by."""
    for row in session.port.rows:
        if row.mindspore and row.rule != "tied" and row.torch in truth.parameters:
            yield row.torch, row.mindspore, row.rule, truth.parameters[row.torch], single.parameters[row.torch]
    for name in truth.inputs:
        yield name, "", "same", truth.inputs[name], single.inputs[name]


def _level(
    session: Session,
    mode: Mode,
    comparisons: list[tuple[str, Comparison]],
    unreached: list[str],
    zero: list[str],
    whole: float,
) -> Level:
    wrong = [(name, c) for name, c in comparisons if not c.equal]
    not_proven = [] if whole else ["every gradient is zero"]
    status: Any = "not equal" if wrong else "not proven" if not_proven else "equal"
    ordered = sorted(comparisons, key=lambda pair: (pair[1].equal, -pair[1].error / max(pair[1].limit, 1e-300)))
    notes = []
    for what, names in (("no gradient reaches", unreached), ("zero in exact arithmetic:", zero)):
        if names:
            notes.append(
                f"{what} {', '.join(names[:10])}" + (f" and {len(names) - 10} more" if len(names) > 10 else "")
            )
    return Level(
        status,
        max_error=largest([c for _, c in comparisons], "error"),
        truth_error=largest([c for _, c in comparisons], "truth_error"),
        worst=tuple(Worst(n, mode.name, c.error, c.truth_error, c.limit, c.equal, note=c.note) for n, c in ordered[:5]),
        compared=len(comparisons),
        modes={mode.name: status},
        first=_first(session, mode, wrong),
        not_proven=tuple(not_proven),
        notes=tuple(notes),
    )


def _first(session: Session, mode: Mode, wrong: list[tuple[str, Comparison]]) -> Divergence | None:
    """In backward order: the wrong parameter whose module ends last in the forward pass."""
    if not wrong:
        return None
    ended: Mapping[str, int] = {path: i for i, (path, _) in enumerate(mode.truth.order)}
    name, comparison = max(wrong, key=lambda pair: ended.get(pair[0].rpartition(".")[0], -1))
    path = name.rpartition(".")[0]
    pair = next((pair for pair in session.port.cells if pair.path == path), None)
    cell, cls = (pair.cell, pair.cls) if pair else ("", "")
    why = f"the gradient of {name} is the first, from the outputs backwards, that differs"
    return Divergence(mode.name, path, cell, cls, path, 0, comparison.error, comparison.truth_error, why)


def _load(file: Path) -> Array | None:
    return np.load(file) if file.exists() else None
