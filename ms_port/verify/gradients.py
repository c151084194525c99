"""Gradients of both sides on some batches, and how they compare."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ms_port.verify.judge import HUGE, MULTIPLE, SMALL, ZERO, Array, Comparison, Truth, compare, make_truth
from ms_port.verify.loss import Loss, loss_cotangents
from ms_port.verify.objective import Objective, Projection
from ms_port.verify.process import Outcome, Side
from ms_port.verify.session import Mode, Session
from ms_port.verify.torch_side import as_array, differentiate, run, state_of, tensors
from ms_port.weights.convert import apply_rule


@dataclass
class Gradients:
    """Of one run of torch: None where no gradient reaches."""

    parameters: dict[str, Tensor | None] = field(default_factory=dict)
    inputs: dict[str, Tensor | None] = field(default_factory=dict)
    projected: list[list[int]] = field(default_factory=list)
    """Shapes of the float outputs."""
    huge: list[bool] = field(default_factory=list)
    """Which of them hold infinite values."""
    outputs: list[Tensor] = field(default_factory=list)
    loss: float = 0.0
    buffers: dict[str, Array] = field(default_factory=dict)

    @cached_property
    def whole(self) -> float:
        """The largest finite gradient of all."""
        everything = [g for g in [*self.parameters.values(), *self.inputs.values()] if g is not None]
        finite = [g if bool(g.isfinite().all()) else g[g.isfinite()] for g in everything]
        return max((float(g.abs().max()) for g in finite if g.numel()), default=0.0)

    def only(self, names: Collection[str]) -> Gradients:
        """Keep those of these names alone, to save memory; ``whole`` stays that of all."""
        largest = self.whole
        self.parameters = {name: g for name, g in self.parameters.items() if name in names}
        self.inputs = {name: g for name, g in self.inputs.items() if name in names}
        self.whole = largest
        return self


@dataclass
class Batch:
    """One batch: its session, and what torch makes of it."""

    session: Session
    cotangents: list[Tensor]
    """Of a person's loss by the float outputs; empty: seeded projections."""
    single: Gradients
    truth: Gradients = field(default_factory=Gradients)


@dataclass
class Seen:
    """What both sides made of some batches."""

    mode: Mode
    batches: list[Batch]
    folder: Path
    outcome: Outcome
    wrong: Sequence[Comparison] = ()
    """What differs from torch itself, where ``closer`` explains it."""
    closer: Seen | None = None
    """The same by a torch with MindSpore's CPU kernels, where the port is equal to that only."""

    @property
    def report(self) -> Mapping[str, Any]:
        """The port's report; empty if it crashed."""
        found: Mapping[str, Any] = self.outcome.result.get("modes", {}).get(self.mode.name, {})
        return found


def torch_gradients(
    session: Session,
    train: bool,
    double: bool,
    objective: Objective | None = None,
    inputs: bool = True,
    watch: Any = None,
) -> Gradients:
    """Differentiate torch by parameters (and float ``inputs``), in float32 or float64; ``watch`` as for ``run``.

    Raises NotDifferentiable.
    """
    found, by_output = Gradients(), objective or Projection()
    leaves: dict[int, Tensor] = {}
    model = session.model

    def call(root: nn.Module, wide: bool) -> Any:
        return session.call(root, wide, leaves if inputs else None)

    with state_of(model, session.state, double), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        record = run(model, call, [], train=train, double=double, gradient=True, watch=watch)
        outputs = [out for out in record.outputs if out.is_floating_point()]
        found.projected = [list(out.shape) for out in outputs]
        found.outputs, found.buffers = [out.detach() for out in outputs], record.buffers
        found.huge = [bool((~(out.abs() < HUGE)).any()) for out in found.outputs]
        terms = [by_output.term(i, out) for i, out in enumerate(outputs)]
        found.loss = float(sum(float(term.detach()) for term in terms))
        terms = [term for term in terms if term.requires_grad]
        names = [name for name, value in session.inputs.named(model).items() for _ in tensors(value)]
        wanted = {name: p for name, p in model.named_parameters() if p.requires_grad}
        by = [*wanted.values(), *leaves.values()]
        grads = differentiate(sum(terms[1:], terms[0]), by) if terms else [None] * len(by)
        found.parameters = dict(zip(wanted, grads, strict=False))
        found.inputs = {names[i]: g for i, g in zip(leaves, grads[len(wanted) :], strict=True)}
    return found


def make_batch(session: Session, mode: Mode, loss: Loss | None) -> Batch:
    cotangents = loss_cotangents(session, mode.train, loss) if loss else []
    return Batch(session, cotangents, torch_gradients(session, mode.train, False, Projection(cotangents)))


def observe_port(
    session: Session,
    mode: Mode,
    batches: list[Batch],
    side: Side,
    timeout: float,
    updates: Sequence[Mapping[str, Any]] = (),
    only: Collection[str] | None = None,
) -> Seen:
    """Run the port on all batches, and torch in float64 beside it; keep what torch has of ``only`` these names."""
    single = batches[0].single
    described = {
        **session.describe(mode, {}),
        "projected": single.projected,
        "huge": [any(b.single.huge[i] for b in batches) for i in range(len(single.huge))],
        "updates": [{**spec, "scale": scale_of(single)} for spec in updates],
    }
    session.launch(side.job, [described], [(b.session.inputs, b.cotangents) for b in batches], side=side)
    try:
        for batch in batches:
            truth = torch_gradients(batch.session, mode.train, True, Projection(batch.cotangents))
            batch.truth = truth if only is None else truth.only(only)
        outcome = side.finish(timeout)
    finally:
        side.stop()
    return Seen(mode, batches, side.job / mode.name, outcome)


def scale_of(gradients: Gradients) -> float:
    """The power of two that makes the largest gradient about 1: updates are then of one size for every model."""
    whole = gradients.whole
    return float(2.0 ** -np.round(np.log2(whole))) if whole else 1.0


def compare_gradients(
    session: Session, seen: Seen, number: int, shaken: Sequence[Gradients] = ()
) -> tuple[list[Comparison], list[str], list[str]]:
    """How the gradients of one batch compare, with the names that none reaches, and that are zero.

    ``shaken``: other float32 runs of torch, which differ by rounding; the largest error of all is torch's.
    """
    truth, whole = seen.batches[number].truth, seen.batches[number].truth.whole
    comparisons: list[Comparison] = []
    unreached, zero = [], []
    trained = set(seen.report["trained"])
    for name, cell_name, rule, want, near in pairs(session, truth, seen.batches[number].single):
        kind = "gradient" if cell_name else "input gradient"
        got = load(seen.folder / f"{kind}.{cell_name or name}.{number}.0.npy")
        if cell_name and cell_name not in trained:
            note = "torch trains it, the port does not"
            comparisons.append(Comparison(name, float("inf"), 0.0, 1.0, False, note))
            continue
        if got is None and not cell_name:
            continue
        if want is None or near is None:
            unreached.append(name)
            size = float(np.abs(got).max(initial=0.0)) if got is not None else 0.0
            note = "no gradient of torch reaches it" if size else ""
            comparisons.append(Comparison(name, size, 0.0, 0.0, size == 0.0, note))
            continue
        double, float32 = (as_array(apply_rule(rule, g)) for g in (want, near))
        if np.abs(double).max(initial=0.0) <= ZERO * whole:
            zero.append(name)
            size = float(np.abs(got).max(initial=0.0)) / (whole or 1.0) if got is not None else float("inf")
            equal = got is not None and got.shape == double.shape and size <= SMALL
            comparisons.append(Comparison(name, size, 0.0, 0.0, equal, "" if equal else "should be zero"))
            continue
        gradient = make_truth(double, float32)
        for other in shaken:
            again = other.parameters.get(name) if cell_name else other.inputs.get(name)
            if again is not None:
                error = make_truth(double, as_array(apply_rule(rule, again))).error
                gradient = replace(gradient, error=max(gradient.error, error))
        comparisons.append(compare(name, got, gradient))
    return comparisons, unreached, zero


def gradient_truth(double: Array, single: Array, whole: float) -> Truth:
    """The truth of one gradient; of one that is zero in exact arithmetic, ``SMALL`` of the largest is rounding."""
    truth = make_truth(double, single)
    if np.abs(double).max(initial=0.0) > ZERO * whole:
        return truth
    return replace(truth, error=max(truth.error, SMALL * whole / MULTIPLE))


def pairs(
    session: Session, truth: Gradients, single: Gradients
) -> Iterator[tuple[str, str, str, Tensor | None, Tensor | None]]:
    """(torch name, port's parameter or "", rule, float64 and float32 gradient) of all that is differentiated by.

    Raises ValueError where only one of the two holds a name: left out, it would look compared.
    """
    alone = {*truth.parameters, *truth.inputs} ^ {*single.parameters, *single.inputs}
    if alone:
        raise ValueError(f"only one precision of torch has gradients of {', '.join(sorted(alone))}")
    for row in session.port.rows:
        if row.mindspore and row.rule != "tied" and row.torch in truth.parameters:
            yield row.torch, row.mindspore, row.rule, truth.parameters[row.torch], single.parameters[row.torch]
    for name in truth.inputs:
        yield name, "", "same", truth.inputs[name], single.inputs[name]


def load(file: Path) -> Array | None:
    """An array that the port left, if it did."""
    return np.load(file) if file.exists() else None
