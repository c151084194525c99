"""One run of the port as the torch side describes it. MindSpore and numpy alone (OUT/verify.py holds a copy)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import mindspore as ms
from mindspore import Tensor, nn

from ms_port.verify.device import ProjectedLoss, bind, leaves, taps, to_numpy
from ms_port.verify.judge import Array
from ms_port.verify.noise import numbers
from ms_port.verify.players import playing, restart
from ms_port.verify.updates import observe_updates


def observe(
    cell: nn.Cell, mode: Mapping[str, Any], inputs: Mapping[str, Any], mapped: Sequence[str], keep: Callable[..., None]
) -> dict[str, Any]:
    """Run the port once in eval or train mode and hand on what its cells give.

    Args:
        mode: ``train``, ``draws``, ``taps`` (what to read of which cell), ``stride``, ``arguments`` (read what cells
            are given instead), ``statistics`` (names of parameters to read afterwards).
        mapped: names of the cells that stand for a torch module.
        keep: called as ``keep(kind, name, call, leaf, array)``; kinds: ``cell``, ``output``, ``statistic``.

    Returns ``cells`` (number of tensors seen by name, 0: it did not run), ``outputs``, ``seconds``, ``unanswered`` and
    ``rates`` (see ``playing``). Nothing is run if draws are unanswered.
    """
    with playing(cell, mode["draws"], mapped) as draws:
        if draws["unanswered"]:
            return draws
        cell.set_train(mode["train"])
        start = time.perf_counter()
        seen: dict[str, int] = {}
        options = {"stride": mode["stride"], "inputs": mode["arguments"], "cast": mode.get("cast", False)}
        with taps(cell, mode["taps"], **options) as placed:
            out: list[Array] = [to_numpy(t) for t in leaves(cell(*bind(cell, inputs)))]
            seconds = time.perf_counter() - start
            for name, tap in placed.items():
                seen[name] = tap.tensors()
                for call, leaf, array in tap.read():
                    keep("cell", name, call, leaf, array)
    for i, array in enumerate(out):
        keep("output", "", 0, i, array)
    parameters = cell.parameters_dict()
    for name in mode["statistics"]:
        keep("statistic", name, 0, 0, to_numpy(parameters[name]))
    return {**draws, "cells": seen, "outputs": len(out), "seconds": seconds}


def observe_gradient(
    cell: nn.Cell,
    mode: Mapping[str, Any],
    batches: Sequence[Mapping[str, Any]],
    mapped: Sequence[str],
    keep: Callable[..., None],
) -> dict[str, Any]:
    """Differentiate a projection of all float outputs by every trainable parameter and float input.

    Args as for ``observe``, but several batches of one shape, each ``{"inputs": ..., "cotangents": ...}``; cotangents
    are arrays of the shapes of the float outputs, None for seeded numbers. Of ``mode``: ``projected`` holds these
    shapes, ``huge`` which of them hold infinite values, ``updates`` the optimizers (see ``observe_updates``).

    Hands on arrays of the kinds ``gradient`` (by the parameter's name) and ``input gradient`` (by the input's), the
    number of the batch as the call; ``statistic``, and the updates, after the first batch.
    """
    with playing(cell, mode["draws"], mapped) as draws:
        if draws["unanswered"]:
            return draws
        start = time.perf_counter()
        loss = ProjectedLoss(cell, mode["huge"])
        loss.set_train(mode["train"])
        parameters = list(cell.trainable_params())
        laps = []
        for number, batch in enumerate(batches):
            restart(cell)
            seeded = [numbers("projection", i, "normal", shape) for i, shape in enumerate(mode["projected"])]
            projections = tuple(Tensor(array) for array in batch["cotangents"] or seeded)
            gradients = _differentiate(
                loss, cell, projections, batch["inputs"], parameters, partial(_kept, keep, number)
            )
            if number == 0:
                named = cell.parameters_dict()
                for name in mode["statistics"]:
                    keep("statistic", name, 0, 0, to_numpy(named[name]))
                laps.append(time.perf_counter() - start)
                observe_updates(cell, mode["updates"], gradients, keep)
        seconds = {"seconds": laps[0], "update_seconds": time.perf_counter() - start - laps[0]}
        return {**draws, **seconds, "trained": [p.name for p in parameters]}


def _kept(keep: Callable[..., None], number: int, kind: str, name: str, gradient: Tensor) -> None:
    keep(kind, name, number, 0, to_numpy(gradient))


def _differentiate(
    loss: nn.Cell,
    cell: nn.Cell,
    projections: tuple[Tensor, ...],
    inputs: Mapping[str, Any],
    parameters: Sequence[Any],
    keep: Callable[..., None],
) -> dict[str, Tensor]:
    """The gradients of one batch by the parameters' names; all of them are handed on as well."""
    arguments = bind(cell, inputs)
    floats = (ms.float32, ms.float16, ms.bfloat16)
    first = len(projections)
    positions = tuple(i for i, a in enumerate(arguments, first) if isinstance(a, Tensor) and a.dtype in floats)
    differentiate = ms.value_and_grad(loss, positions or None, weights=list(parameters))
    _, gradients = differentiate(*projections, *arguments)
    by_input, by_parameter = gradients if positions else ((), gradients)
    for parameter, gradient in zip(parameters, by_parameter, strict=True):
        keep("gradient", parameter.name, gradient)
    names = {id(value): name for name, value in inputs.items()}
    by_position = by_input if isinstance(by_input, tuple) else (by_input,)
    for position, gradient in zip(positions, by_position, strict=True):
        keep("input gradient", names[id(arguments[position - first])], gradient)
    return {p.name: g for p, g in zip(parameters, by_parameter, strict=True)}
