"""Steps of training in the port, each from a state that the torch side gives, then as many without. MindSpore alone."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from ms_port.verify.desk import Desk
from ms_port.verify.device import ProjectedLoss, bind, leaves, put, to_numpy
from ms_port.verify.noise import numbers
from ms_port.verify.players import playing, restart
from ms_port.verify.updates import Snapshot, optimizer_of, state_of_optimizer


class TargetLoss(nn.Cell):  # type: ignore[misc]
    """The mean squared distance of every float output from a seeded target, in units of that output's size.

    Args:
        cell: the port's root cell.
        huge: for each float output whether it holds infinite values, which are then left out.
        sizes: of each float output.
    """

    def __init__(self, cell: nn.Cell, huge: Sequence[bool], sizes: Sequence[float]) -> None:
        super().__init__(auto_prefix=False)
        self.cell, self.huge, self.sizes = cell, tuple(huge), tuple(sizes)
        self.outputs = len(huge)

    def construct(self, *values: Any) -> Tensor:
        """The targets, then the inputs."""
        targets = values[: self.outputs]
        loss = 0.0
        i = 0
        for out in leaves(self.cell(*values[self.outputs :])):
            if out.dtype in (ms.float32, ms.float16, ms.bfloat16, ms.float64):
                value = out.astype(ms.float32) / self.sizes[i]
                if self.huge[i]:
                    value = ops.where(ops.abs(value) < 1e30, value, targets[i])
                loss = loss + ((value - targets[i]) ** 2).mean()
                i = i + 1
        return loss


def train(
    cell: nn.Cell, mode: Mapping[str, Any], batches: Sequence[Mapping[str, Any]], mapped: Sequence[str], desk: Desk
) -> dict[str, Any]:
    """Take ``mode["steps"]`` steps from given states, batches in turns, and then as many from the first state on.

    Args:
        mode: as for ``observe``; ``optimizer`` (see ``optimizer_of``), ``projected`` (shapes of the float outputs),
            ``huge``, ``sizes`` (see ``TargetLoss``), ``free`` (whether to train freely afterwards), ``cotangents``
            (names of arrays on the desk that project the outputs, for a loss that torch differentiated; else empty).
        batches: ``{"inputs": ...}``.

    Returns ``seconds`` of the first step (with its compilation) and of all, ``losses`` of the free run and ``trained``.
    """
    with playing(cell, mode["draws"], mapped) as draws:
        if draws["unanswered"]:
            return draws
        start = time.perf_counter()
        parent = os.getppid()
        given = mode["cotangents"]
        loss = ProjectedLoss(cell, mode["huge"]) if given else TargetLoss(cell, mode["huge"], mode["sizes"])
        loss.set_train(True)
        optimizer = optimizer_of(cell, mode["optimizer"])
        step = _compiled(loss, optimizer)
        named = cell.parameters_dict()
        state, result = desk.arrays("state"), desk.arrays("result")
        averages = {parameter.name: parameter for parameter in state_of_optimizer(optimizer)}
        moved = [name for name in state if name in named]
        first = Snapshot([named[name] for name in moved])
        fresh = Snapshot(list(averages.values()))
        targets = [_targets(mode["projected"], number) for number in range(len(batches))]
        laps: list[float] = []

        def take(number: int) -> float:
            restart(cell)
            batch = number % len(batches)
            target = tuple(Tensor(np.array(state[name])) for name in given) or targets[batch]
            value = step(*target, *bind(cell, batches[batch]["inputs"]))
            laps.append(time.perf_counter() - start)
            return float(value.asnumpy())

        for number in range(mode["steps"]):
            words = desk.take("state", number, lambda: os.getppid() == parent)
            if words is None:
                return draws
            for name in moved:
                put(named[name], state[name])
            for name in words["averages"]:
                if name in averages:
                    put(averages[name], state[name])
            value = take(number)
            for name in moved:
                result[name][...] = to_numpy(named[name])
            desk.give("result", number, loss=value)
        losses: list[float] = []
        if mode["free"]:
            first.restore()
            fresh.restore()
            losses = [take(number) for number in range(mode["steps"])]
        finite = [value if math.isfinite(value) else None for value in losses]
        return {**draws, "seconds": laps[0], "all_seconds": laps[-1], "losses": finite}


def _targets(shapes: Sequence[Sequence[int]], batch: int) -> tuple[Tensor, ...]:
    return tuple(Tensor(numbers(f"target {batch}", i, "normal", shape)) for i, shape in enumerate(shapes))


def _compiled(loss: nn.Cell, optimizer: nn.Cell) -> Any:
    """Forward, gradient and update as one graph, as train.py has it."""
    gradient = ms.value_and_grad(loss, None, weights=optimizer.parameters)

    @ms.jit  # type: ignore[untyped-decorator]
    def train_step(*values: Any) -> Tensor:
        value, gradients = gradient(*values)
        optimizer(gradients)
        return value

    return train_step
