"""One run of the port as the torch side describes it. MindSpore and numpy alone (OUT/verify.py holds a copy)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mindspore as ms
from mindspore import Tensor, nn

from ms_port.verify.device import ProjectedLoss, bind, leaves, taps, to_numpy
from ms_port.verify.judge import Array
from ms_port.verify.noise import numbers
from ms_port.verify.players import playing


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
        with taps(cell, mode["taps"], stride=mode["stride"], inputs=mode["arguments"]) as placed:
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
    cell: nn.Cell, mode: Mapping[str, Any], inputs: Mapping[str, Any], mapped: Sequence[str], keep: Callable[..., None]
) -> dict[str, Any]:
    """Differentiate a random projection of all float outputs by every trainable parameter and float input.

    Args as for ``observe``; of ``mode``, ``projected`` holds the shapes of the float outputs. Hands on arrays of the
    kinds ``gradient`` (by the parameter's name) and ``input gradient`` (by the input's).
    """
    with playing(cell, mode["draws"], mapped) as draws:
        if draws["unanswered"]:
            return draws
        start = time.perf_counter()
        projections = [Tensor(numbers("projection", i, "normal", s)) for i, s in enumerate(mode["projected"])]
        loss = ProjectedLoss(cell, projections)
        loss.set_train(mode["train"])
        arguments = bind(cell, inputs)
        floats = (ms.float32, ms.float16, ms.bfloat16)
        positions = tuple(i for i, a in enumerate(arguments) if isinstance(a, Tensor) and a.dtype in floats)
        parameters = list(cell.trainable_params())
        differentiate = ms.value_and_grad(loss, positions or None, weights=parameters)
        _, gradients = differentiate(*arguments)
        by_input, by_parameter = gradients if positions else ((), gradients)
        for parameter, gradient in zip(parameters, by_parameter, strict=True):
            keep("gradient", parameter.name, 0, 0, to_numpy(gradient))
        names = {id(value): name for name, value in inputs.items()}
        by_position = by_input if isinstance(by_input, tuple) else (by_input,)
        for position, gradient in zip(positions, by_position, strict=True):
            keep("input gradient", names[id(arguments[position])], 0, 0, to_numpy(gradient))
        return {**draws, "seconds": time.perf_counter() - start, "trained": [p.name for p in parameters]}
