"""Calls of torch: APIs without a row, arguments that mean nothing, layers called by keyword or given tensors."""

from __future__ import annotations

from typing import Callable, Dict, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Expanded(nn.Module):
    """No row: an expansion becomes a function; two shapes give two functions."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        y = self.a(x)
        cartesian_prod = torch.cartesian_prod(y[0], y[1])
        labels = (x > 0).long().cumsum(1) - 1
        return cartesian_prod, F.multilabel_margin_loss(y, labels), torch.cartesian_prod(y[0], y[1, :2])


class SameAtFirst(nn.Module):
    """Two names that hold one tensor in the first round of a loop alone."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        xi = x
        for _ in range(2):
            xi = self.a(torch.trapezoid(x, xi).unsqueeze(1) + xi)
        return xi


class Placed(nn.Module):
    """Memory formats, layouts and devices mean nothing in the port."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(2, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = x.reshape(1, 2, 2, 3).contiguous(memory_format=torch.channels_last).to(memory_format=torch.channels_last)
        y = self.a(input=x).float(memory_format=torch.contiguous_format)
        return y * torch.ones(2, 3, layout=torch.strided, device=x.device)


class WeightedLoss(nn.Module):
    """A layer is given tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 3)
        self.loss = nn.CrossEntropyLoss(weight=torch.tensor([0.5, 1.0, 2.0]), label_smoothing=0.1)
        self.binary = nn.BCEWithLogitsLoss(pos_weight=torch.ones(3) * 1.5)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        y = self.a(input=x)
        return self.loss(y, target=torch.arange(3)), self.binary(input=y, target=torch.eye(3))


_generator = torch.Generator().manual_seed(3)
x4 = torch.randn(3, 4, generator=_generator)
CASES: Dict[str, Tuple[Callable[[], nn.Module], Tuple[Tensor, ...]]] = {
    "expanded": (Expanded, (x4,)),
    "same at first": (SameAtFirst, (x4,)),
    "placed": (Placed, (x4,)),
    "weighted loss": (WeightedLoss, (x4,)),
}
