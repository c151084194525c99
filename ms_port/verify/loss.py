"""A person's loss, written for torch: ``--loss FILE.py:FUNC``.

The port doesn't need it: torch differentiates it by the model's outputs; both sides carry that on to the parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ms_port.errors import BadInput, one_line, raised_at
from ms_port.target import load_object, parse_target
from ms_port.verify.double import double_precision
from ms_port.verify.session import Session
from ms_port.verify.torch_side import differentiate, run, state_of


@dataclass(frozen=True)
class Loss:
    """``function(output)``, or ``function(output, inputs)`` with the inputs by forward's names; gives a scalar."""

    function: Callable[..., Any]
    name: str

    @staticmethod
    def of(loss: str | Callable[..., Any]) -> Loss:
        """From ``FILE.py:FUNC`` or a function. Raises BadInput."""
        found = load_object(loss, Path.cwd()) if isinstance(loss, str) else loss
        if not callable(found):
            raise BadInput(f"{loss} is no function", where="--loss", advice="name a function of the model's output")
        return Loss(found, loss if isinstance(loss, str) else getattr(loss, "__name__", "loss"))

    def value(self, output: Any, inputs: Mapping[str, Any]) -> Tensor:
        """The loss of one output. Raises BadInput where it fails or is no scalar."""
        wanted = [
            p
            for p in inspect.signature(self.function).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
        ]
        try:
            value = self.function(output, dict(inputs)) if len(wanted) > 1 else self.function(output)
        except Exception as error:
            file = parse_target(self.name).file if ":" in self.name else None
            advice = "it gets the model's output, and the inputs if it takes two arguments"
            raise BadInput(
                f"{self.name} raised {one_line(error)}", where=raised_at(error, file), advice=advice
            ) from error
        if not isinstance(value, Tensor) or value.numel() != 1 or not value.requires_grad:
            raise BadInput(
                f"{self.name} gave no scalar that depends on the output", where="--loss", advice="return a 0-d tensor"
            )
        return value.reshape(())


def loss_cotangents(session: Session, train: bool, loss: Loss) -> list[Tensor]:
    """The gradient of a person's loss by the float outputs, of the truth's outputs. Raises BadInput if it fails."""
    raw: list[Any] = []

    def call(model: Any, double: bool) -> Any:
        raw.append(session.inputs.call(model, double))
        return raw[0]

    with state_of(session.model, session.state, True), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        record = run(session.model, call, [], train=train, double=True, gradient=True)
        outputs = [out for out in record.outputs if out.is_floating_point()]
        with double_precision(), torch.enable_grad():
            value = loss.value(raw[0], session.inputs.named(session.model))
        by = [out for out in outputs if out.requires_grad]
        grads = dict(zip(map(id, by), differentiate(value, by), strict=True))
    found = [grads.get(id(out)) for out in outputs]
    return [torch.zeros(o.shape) if g is None else g.detach().float() for o, g in zip(outputs, found, strict=True)]
