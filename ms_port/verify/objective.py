"""The scalars that torch differentiates: a projection of all float outputs, or their distance from seeded targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ms_port.verify.judge import HUGE
from ms_port.verify.noise import numbers


class Objective(Protocol):
    """What one float output contributes; the terms of all outputs are added up."""

    def term(self, index: int, out: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Projection:
    """The output times a fixed tensor: of ``cotangents``, else seeded numbers. The sum would hide what cancels."""

    cotangents: Sequence[Tensor] = ()

    def term(self, index: int, out: Tensor) -> Tensor:
        if self.cotangents:
            by = self.cotangents[index]
        else:
            by = torch.from_numpy(numbers("projection", index, "normal", out.shape))
        return (usual(out) * by.to(out.dtype)).sum()


@dataclass(frozen=True)
class Distance:
    """The mean squared distance from the seeded target of a batch, in units of each output's size."""

    batch: int
    sizes: Sequence[float]

    def term(self, index: int, out: Tensor) -> Tensor:
        target = torch.from_numpy(numbers(f"target {self.batch}", index, "normal", out.shape)).to(out.dtype)
        value = torch.where(out.detach().abs() < HUGE, out / self.sizes[index], target)
        return ((value - target) ** 2).mean()


def usual(out: Tensor) -> Tensor:
    """The output with 0 for infinite values (a mask's), which no sum bears."""
    huge = ~(out.detach().abs() < HUGE)
    return out.masked_fill(huge, 0.0) if bool(huge.any()) else out
