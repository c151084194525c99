"""What SGD and AdamW of torch make of one parameter, in float64 and in float32, and how far a port may be off.

An update is compared by element. Where the port's gradient may be off by ``a`` (what the gradient level allows), an
update of SGD may be off by rate times a; AdamW divides by the root of the average square: by rate times a / sqrt(v).
That is without bound where a gradient is nothing but rounding (a bias before BatchNorm); no update of AdamW is further
from another than 2.2 learning rates, so that much is allowed there, and the tensor is said to be undefined.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ms_port.verify.judge import FLOOR, MULTIPLE, ULP, Update

SGD: Mapping[str, Any] = {
    "optimizer": "sgd",
    "learning_rate": 0.05,
    "weight_decay": 0.1,
    "momentum": 0.9,
    "nesterov": False,
    "dampening": 0.0,
    "beta1": 0.9,
    "beta2": 0.999,
    "eps": 1e-8,
    "decay_norm_and_bias": True,
}
"""In the words of a port's config.yaml."""
ADAMW: Mapping[str, Any] = {**SGD, "optimizer": "adamw", "learning_rate": 0.01}
BOUND = 2.2
"""No two updates of AdamW are further apart, in learning rates."""
AVERAGES = ("exp_avg", "exp_avg_sq")
"""What AdamW remembers of a parameter."""
DEFINED = 0.05
"""An element is defined where the tolerance is at most this share of the learning rate."""


class Follower:
    """Updates one parameter step by step, each from the value that it is given."""

    def __init__(self, start: Tensor, spec: Mapping[str, Any]) -> None:
        self.spec, self.noise = spec, 0.0
        both = (torch.nn.Parameter(torch.empty(0, dtype=dtype)) for dtype in (torch.float64, torch.float32))
        self.double, self.single = self.parameters = tuple(both)
        """They have values while a step is taken: of a large model, those of all parameters would fill the memory."""
        self.optimizers = [_optimizer(p, spec, start) for p in self.parameters]

    def step(self, start: Tensor, double: Tensor, single: Tensor, allowed: float) -> Update:
        """The update by these gradients from ``start`` (float32); ``allowed``: how far the port's gradient may be."""
        for parameter, optimizer, gradient in zip(self.parameters, self.optimizers, (double, single), strict=True):
            parameter.data = start.detach().to(parameter.dtype, copy=True)
            parameter.grad = gradient.to(parameter.dtype)
            optimizer.step()
            parameter.grad = None
        values = self.double.detach()
        off = (self.single.detach().double() - values).abs()
        spread = self._spread(allowed)
        defined = spread <= DEFINED * self.spec["learning_rate"]
        error = float(off[defined].max()) if bool(defined.any()) else 0.0
        moved = float((values - start.double()).abs().max()) if values.numel() else 0.0
        size = max(float(start.abs().max()), float(values.abs().max())) if values.numel() else 0.0
        rounding = MULTIPLE * error + FLOOR * ULP * size
        bound = rounding + DEFINED * self.spec["learning_rate"]
        for parameter in self.parameters:
            parameter.data = torch.empty(0, dtype=parameter.dtype)
        return Update(values.numpy(), (rounding + spread).numpy(), error, moved, bound)

    def averages(self) -> dict[str, Tensor]:
        """What AdamW of the truth remembers, by torch's name; MindSpore's AdamW and that of a port use the same."""
        state = self.optimizers[0].state[self.double]
        return {name: state[name] for name in AVERAGES}

    def _spread(self, allowed: float) -> Tensor:
        """How far an update moves by what the gradients may be off, by element."""
        rate, momentum = self.spec["learning_rate"], self.spec["momentum"]
        if self.spec["optimizer"] == "sgd":
            self.noise = momentum * self.noise + allowed
            return torch.full_like(self.double, rate * self.noise).detach()
        self.noise = max(self.noise, allowed)
        state = self.optimizers[0].state[self.double]
        average = state["exp_avg_sq"] / (1 - self.spec["beta2"] ** float(state["step"]))
        spread: Tensor = rate * self.noise / (average.sqrt() + self.spec["eps"])
        return spread.clamp(max=BOUND * rate)


def _optimizer(parameter: torch.nn.Parameter, spec: Mapping[str, Any], start: Tensor) -> torch.optim.Optimizer:
    rate, decay = spec["learning_rate"], spec["weight_decay"]
    if spec["optimizer"] == "sgd":
        momentum, damped, nesterov = spec["momentum"], spec["dampening"], spec["nesterov"]
        return torch.optim.SGD(
            [parameter], lr=rate, momentum=momentum, dampening=damped, weight_decay=decay, nesterov=nesterov
        )
    adam = torch.optim.AdamW if spec["optimizer"] == "adamw" else torch.optim.Adam
    optimizer = adam([parameter], lr=rate, weight_decay=decay)
    if "first_step" in spec:
        zeros = torch.zeros_like(start, dtype=parameter.dtype)
        step = torch.tensor(float(spec["first_step"]))
        optimizer.state[parameter] = {"step": step, "exp_avg": zeros, "exp_avg_sq": zeros.clone()}
    return optimizer
