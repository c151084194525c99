"""The train level: steps of training over three batches, each from the truth's state; then both sides run freely."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ms_port.verify.clock import Clock
from ms_port.verify.desk import Desk
from ms_port.verify.forward import largest
from ms_port.verify.gradients import Gradients, gradient_truth, torch_gradients
from ms_port.verify.judge import Comparison, Truth, compare, compare_update, make_truth
from ms_port.verify.loss import Loss, loss_cotangents
from ms_port.verify.objective import Distance, Projection, usual
from ms_port.verify.process import Side, peaks
from ms_port.verify.session import Mode, Session
from ms_port.verify.torch_side import as_array
from ms_port.verify.torch_updates import ADAMW, AVERAGES, Follower
from ms_port.verify.verdict import Divergence, Level, Status, Worst
from ms_port.weights.convert import apply_rule

BATCHES = 3
OPTIMIZER: Mapping[str, Any] = {**ADAMW, "learning_rate": 0.001, "weight_decay": 0.01}


@dataclass
class Run:
    """What the steps so far have shown."""

    wrong: list[tuple[int, str, Comparison]] = field(default_factory=list)
    """(step, torch name, how it compares), the last of each tensor."""
    nearest: dict[str, Comparison] = field(default_factory=dict)
    """By tensor, the comparison of all steps that is nearest to its limit or beyond it."""
    times: dict[str, int] = field(default_factory=dict)
    """By tensor, in how many steps it was wrong."""
    compared: int = 0
    truth_losses: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def add(self, step: int, name: str, comparison: Comparison) -> None:
        """Count one comparison."""
        self.compared += 1
        if not comparison.equal:
            self.wrong.append((step, name, comparison))
            self.times[comparison.name] = self.times.get(comparison.name, 0) + 1
        before = self.nearest.get(comparison.name)
        if before is None or _ratio(comparison) > _ratio(before):
            self.nearest[comparison.name] = comparison


def _ratio(comparison: Comparison) -> float:
    return comparison.error / max(comparison.limit, 1e-300)


def train_level(
    session: Session,
    modes: Sequence[Mode],
    job: Path,
    timeout: float,
    steps: int,
    loss: Loss | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Level:
    """Judge ``steps`` steps of AdamW. ``timeout``: seconds for the first step, and for each of the others."""
    mode = next((mode for mode in modes if mode.train), None)
    if mode is None:
        return Level("not run", notes=("the forward pass in train mode could not be compared",))
    clock = Clock()
    trainer = Trainer(session, mode, loss)
    side = trainer.launch(job, steps)
    try:
        for step in range(steps):
            say(f"step {step + 1} of {steps}")
            if not trainer.take(step, side, timeout):
                break
        outcome = side.finish(time.perf_counter() - side.start + timeout)
    finally:
        side.stop()
    clock.lap("all steps")
    report = outcome.result.get("modes", {}).get("training", {})
    if outcome.status == "crashed" or "losses" not in report:
        message = outcome.message or "it ended before the last step"
        return Level("crashed", modes={"train": "crashed"}, message=message, where=outcome.where)
    seconds = {**clock.rounded(), "mindspore first step": report["seconds"], "mindspore": outcome.seconds}
    return replace(_level(trainer, report["losses"], seconds), peak_bytes=peaks(outcome))


class Trainer:
    """The torch side: the truth's state, and what torch makes of it step by step."""

    def __init__(self, session: Session, mode: Mode, loss: Loss | None) -> None:
        self.mode, self.loss, self.run = mode, loss, Run()
        self.sessions = [session.varied(i) for i in range(BATCHES)]
        self.session = session
        first = torch_gradients(session, True, double=False, inputs=False)
        self.projected, self.huge = first.projected, first.huge
        self.sizes = [_size(out) for out in first.outputs]
        buffers = {name for name, t in session.model.named_buffers() if t.is_floating_point()}
        self.trained = [
            row for row in session.port.rows if row.mindspore and row.rule != "tied" and row.torch in first.parameters
        ]
        self.statistics = [
            row for row in session.port.rows if row.mindspore and row.rule == "same" and row.torch in buffers
        ]
        self.state = {name: tensor.clone() for name, tensor in session.state.items()}
        self.followers: dict[str, Follower] = {}
        self.never = {row.torch for row in self.trained}
        self.jumped: set[str] = set()
        """Parameters that were wrong in the last step: see ``_give_averages``."""

    def launch(self, job: Path, steps: int) -> Side:
        """Start the port, which waits for the first state."""
        cotangents = [f"? cotangent {i}" for i in range(len(self.projected))] if self.loss else []
        described = {
            **self.session.describe(self.mode, {}),
            "mode": "training",
            "steps": steps,
            "optimizer": dict(OPTIMIZER),
            "projected": self.projected,
            "huge": self.huge,
            "sizes": self.sizes,
            "cotangents": cotangents,
            "free": self.loss is None,
        }
        shapes = {str(row.mindspore): list(self._carried(row.torch).shape) for row in self._rows()}
        shapes |= {f"{a}.{row.mindspore}": shapes[str(row.mindspore)] for row in self.trained for a in AVERAGES}
        shapes |= dict(zip(cotangents, self.projected, strict=False))
        job.mkdir()
        self.desk = Desk(job / "training")
        self.desk.lay_out(shapes)
        self.given, self.result = self.desk.arrays("state"), self.desk.arrays("result")
        return self.session.launch(job, [described], [(s.inputs, ()) for s in self.sessions])

    def _rows(self) -> list[Any]:
        return [*self.trained, *self.statistics]

    def _carried(self, name: str) -> Tensor:
        rule = next(row.rule for row in self._rows() if row.torch == name)
        return apply_rule(rule, self.state[name])

    def take(self, step: int, side: Side, timeout: float) -> bool:
        """Give the state, compute the truth of the step, and compare; False once the port is gone or hangs."""
        now = self.sessions[step % BATCHES]
        now.state = self.state
        cotangents = loss_cotangents(now, True, self.loss) if self.loss else []
        for row in self._rows():
            self.given[str(row.mindspore)][...] = apply_rule(row.rule, self.state[row.torch]).float().numpy()
        for i, array in enumerate(cotangents):
            self.given[f"? cotangent {i}"][...] = array.numpy()
        self.desk.give("state", step, averages=self._give_averages())
        objective = Projection(cotangents) if self.loss else Distance(step % BATCHES, self.sizes)
        single = torch_gradients(now, True, False, objective, inputs=False)
        truth = torch_gradients(now, True, True, objective, inputs=False)
        ends = time.perf_counter() + timeout
        said = self.desk.take("result", step, lambda: side.process.poll() is None and time.perf_counter() < ends)
        if said is None:
            return False
        self._compare(step, truth, single, said["loss"])
        return True

    def _give_averages(self) -> list[str]:
        """Of parameters that were wrong in the last step, the port gets the truth's averages; returns their names.

        A jump of the function within rounding would otherwise be in AdamW's averages for hundreds of steps. What is
        wrong without one, be it in the averages themselves, is so again in the step after the next.
        """
        given = [f"{a}.{row.mindspore}" for row in self.trained if row.torch in self.jumped for a in AVERAGES]
        for row in self.trained:
            if row.torch in self.jumped:
                for name, average in self.followers[row.torch].averages().items():
                    self.given[f"{name}.{row.mindspore}"][...] = average.numpy()
        self.jumped.clear()
        return given

    def _compare(self, step: int, truth: Gradients, single: Gradients, loss: float) -> None:
        """Compare the loss, every parameter and every statistic, and move the truth's state on."""
        value = Truth(np.array(truth.loss), abs(truth.loss - single.loss), max(abs(truth.loss), 1e-30))
        self.run.truth_losses.append(truth.loss)
        self.run.losses.append(loss)
        self.run.add(step, "", compare("loss", np.array(loss), value))
        whole = truth.whole
        for row in self.trained:
            double, near = truth.parameters[row.torch], single.parameters[row.torch]
            start = apply_rule(row.rule, self.state[row.torch])
            if double is None or near is None:
                if row.torch in self.never:  # torch leaves it; MindSpore's optimizers decay it, which nothing shows
                    continue
                unmoved = Truth(as_array(start.double()), 0.0, float(start.abs().max()) if start.numel() else 0.0)
                self.run.add(step, row.torch, compare(row.torch, self.result[str(row.mindspore)], unmoved))
                continue
            self.never.discard(row.torch)
            double, near = apply_rule(row.rule, double), apply_rule(row.rule, near)
            allowed = gradient_truth(as_array(double), as_array(near), whole).allowed
            follower = self.followers.setdefault(row.torch, Follower(start, OPTIMIZER))
            made = follower.step(start, double, near, allowed)
            found = compare_update(row.torch, self.result[str(row.mindspore)], made)
            self.run.add(step, row.torch, found)
            if not found.equal:
                self.jumped.add(row.torch)
            self.state[row.torch] = apply_rule(row.rule, torch.from_numpy(made.values).float(), backward=True)
        for row in self.statistics:
            wanted = make_truth(truth.buffers[row.torch], single.buffers[row.torch])
            self.run.add(step, row.torch, compare(row.torch, self.result[str(row.mindspore)], wanted))
        for name in self.state.keys() & truth.buffers.keys():
            self.state[name] = torch.from_numpy(truth.buffers[name]).float()
        self._tie()

    def _tie(self) -> None:
        """Tied parameters follow their owner."""
        owners = {row.mindspore: row.torch for row in self.trained}
        for row in self.session.port.rows:
            if row.rule == "tied" and row.mindspore in owners:
                self.state[row.torch] = self.state[owners[row.mindspore]]


def _size(out: Tensor) -> float:
    """A power of two about as large as an output's usual values."""
    spread = float(usual(out).abs().mean()) if out.numel() else 1.0
    return float(2.0 ** np.round(np.log2(spread))) if spread else 1.0


def _level(trainer: Trainer, free: Sequence[float], seconds: Mapping[str, float]) -> Level:
    run = trainer.run
    steps = len(run.losses)
    # A jump of the function within rounding shows once; a fault shows on every batch.
    often = {name for name, times in run.times.items() if times > (max(1, steps // 10) if steps > BATCHES else 0)}
    fewest = {name for name in run.times if not np.isfinite(run.nearest[name].error)}
    faults = [w for w in run.wrong if w[2].name in often | fewest]
    kinks = sorted(set(run.times) - often - fewest)
    not_proven = [
        f"{name}: no gradient reached it in {steps} steps; torch leaves it, the port decays it"
        for name in sorted(trainer.never)
    ]
    status: Status = "not equal" if faults else "not proven" if not_proven else "equal"
    nearest = sorted(run.nearest.values(), key=lambda c: (c.equal or c.name in kinks, -_ratio(c)))
    curves = {"torch": tuple(run.truth_losses), "port, each step from torch's state": tuple(run.losses)}
    if free:
        curves["port, free"] = tuple(float("nan") if v is None else v for v in free)
    return Level(
        status,
        max_error=largest(nearest, "error"),
        truth_error=largest(nearest, "truth_error"),
        worst=tuple(Worst(c.name, "train", c.error, c.truth_error, c.limit, c.equal, note=c.note) for c in nearest[:5]),
        compared=run.compared,
        modes={"train": status},
        first=_first(trainer, faults),
        not_proven=tuple(not_proven),
        kinks=tuple(f"{name}: in {run.times[name]} of {steps} steps" for name in kinks),
        curves=curves,
        seconds={k: round(v, 3) for k, v in seconds.items()},
    )


def _first(trainer: Trainer, faults: Sequence[tuple[int, str, Comparison]]) -> Divergence | None:
    if not faults:
        return None
    step, name, comparison = faults[0]
    path = name.rpartition(".")[0]
    pair = next((pair for pair in trainer.session.port.cells if pair.path == path), None)
    cell, cls = (pair.cell, pair.cls) if pair else ("", "")
    why = f"{comparison.name} is the first that differs, at step {step + 1} of those that began from torch's state"
    return Divergence("train", path, cell, cls, path, 0, comparison.error, comparison.truth_error, why)
