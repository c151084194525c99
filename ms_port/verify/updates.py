"""Updates of the port's parameters by SGD and AdamW. MindSpore and numpy alone (OUT/verify.py holds a copy)."""

from __future__ import annotations

import argparse
import gc
import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, ParameterTuple, Tensor, nn
from mindspore.experimental import optim

from ms_port.verify.device import put, to_numpy
from ms_port.verify.judge import SHRINK, Array


def optimizer_of(cell: nn.Cell, spec: Mapping[str, Any]) -> nn.Cell:
    """The optimizer of OUT's training files (OUT is in ``sys.path``), or MindSpore's own where there are none.

    Args:
        spec: the options of config.yaml that matter: ``optimizer`` (``sgd`` or ``adamw``), ``learning_rate`` ...
    """
    make, config = _made_by_training_files()
    if make is not None:
        return make(cell, argparse.Namespace(**{**config, **spec}))
    parameters = list(cell.trainable_params())
    rate, decay = spec["learning_rate"], spec["weight_decay"]
    if spec["optimizer"] == "adamw":
        return optim.AdamW(parameters, lr=rate, weight_decay=decay)
    momentum, nesterov = spec["momentum"], spec["nesterov"]
    return optim.SGD(parameters, lr=rate, momentum=momentum, weight_decay=decay, nesterov=nesterov)


def _made_by_training_files() -> tuple[Any, dict[str, Any]]:
    """``make_optimizer`` of optimization.py or train.py, and the options of config.yaml."""
    for name in ("optimization", "train"):
        try:
            module = importlib.import_module(name)
            make = module.make_optimizer
        except (ModuleNotFoundError, AttributeError):
            continue
        config = Path(str(module.__file__)).with_name("config.yaml")
        options: dict[str, Any] = {}
        for line in config.read_text(encoding="utf-8").splitlines() if config.is_file() else ():
            key, colon, value = line.partition(":")
            if colon and not line.lstrip().startswith("#"):
                with suppress(ValueError):
                    options[key.strip()] = json.loads(value)
        return make, options
    return None, {}


def state_of_optimizer(optimizer: nn.Cell) -> list[Parameter]:
    """What the optimizer remembers from step to step, without the parameters that it updates."""
    own = {id(p) for p in optimizer.parameters}
    values = [v for v in vars(optimizer).values() if isinstance(v, (Parameter, ParameterTuple, tuple, list))]
    flat = [p for v in values for p in ((v,) if isinstance(v, Parameter) else v)]
    members = [p for p in optimizer._params.values() if isinstance(p, Parameter)]
    found = {id(p): p for p in [*flat, *members] if isinstance(p, Parameter) and id(p) not in own}
    return list(found.values())


class Snapshot:
    """Values of some parameters, which ``restore`` gives back to them. Zeros (an optimizer's state) take no memory."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self.kept = [(p, array.copy() if (array := p.asnumpy()).any() else None) for p in parameters]

    def restore(self) -> None:
        for parameter, array in self.kept:
            put(parameter, np.zeros(parameter.shape, np.float32) if array is None else array)


def observe_updates(
    cell: nn.Cell, specs: Sequence[Mapping[str, Any]], gradients: Mapping[str, Tensor], keep: Callable[..., None]
) -> None:
    """Update every parameter twice, each time from the same values, by each optimizer.

    The second update, by gradients that are SHRINK of the first ones, shows what an optimizer remembers: momentum,
    averages, bias correction. The parameters are afterwards what they were. Hands on arrays of the kind ``sgd update``
    or ``adamw update``, by the parameter's name and the number of the update.

    Args:
        specs: see ``optimizer_of``; ``scale`` multiplies the gradients.
    """
    start = Snapshot(list(cell.trainable_params()))
    for spec in specs:
        _observe_optimizer(optimizer_of(cell, spec), spec, gradients, start, keep)
        start.restore()
        gc.collect()  # a large model's next optimizer needs the room


def _observe_optimizer(
    optimizer: nn.Cell,
    spec: Mapping[str, Any],
    gradients: Mapping[str, Tensor],
    start: Snapshot,
    keep: Callable[..., None],
) -> None:
    for number in range(2):
        scale = Tensor(spec["scale"] * SHRINK**number, ms.float32)
        scaled = tuple(gradients[p.name] * scale.astype(p.dtype) for p in optimizer.parameters)
        start.restore()
        optimizer(scaled)
        for parameter in optimizer.parameters:
            keep(f"{spec['optimizer']} update", parameter.name, number, 0, updated(parameter))


def updated(parameter: Parameter) -> Array:
    """Its present value, as an array of its own."""
    return to_numpy(parameter).copy()
