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


class WithoutBatch(nn.Module):
    """Layers that MindSpore calls with a batch, tensors without elements, comparisons in place."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 5, 2)
        self.turned = nn.ConvTranspose1d(5, 2, 2)
        self.lstm = nn.LSTM(4, 3, batch_first=True)
        self.gru = nn.GRU(4, 3)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
        rows, (h, _) = self.lstm(x)
        again, _ = self.gru(x, x.new_ones(1, 3))
        none = x[:0]
        _, mean = torch.var_mean(none, dim=0)
        same = x.clone()
        same.gt_(0.0)
        return (
            self.turned(self.conv(x)),
            rows * again + h,
            same + none.sum(),
            torch.cat([none.amax(1), x[0], mean.isnan() * x[1]]),
        )


class ImageWithoutBatch(nn.Module):
    """Layers over (C, H, W), and the writes and transposes of samples that PyTorch's tests call."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.up = nn.ConvTranspose2d(4, 2, 2, 2)
        self.pool = nn.MaxPool2d(2)
        self.mean = nn.AdaptiveAvgPool2d((None, 2))
        self.rows = nn.RNN(4, 3)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
        image = torch.stack([x, x + 1]).repeat(1, 2, 1)[:, :4]
        h = self.pool(self.up(self.conv(image)))
        rows, last = self.rows(x)
        put = x.index_put((torch.tensor([0, 2, 0]),), x.new_ones(3, 4), accumulate=True)
        return self.mean(h), rows @ last.mH, put, torch.put(x, torch.tensor([1, -1]), x[0, :2])


class NumpyNames(nn.Module):
    """Arguments by the names that numpy has for them."""

    def forward(self, x: Tensor) -> Tuple[Tensor, ...]:
        joined = torch.cat([x, torch.stack([x, x], axis=0).sum(axis=0)], axis=-1)
        highest, where = joined.max(axis=1, keepdims=True)
        scaled = torch.multiply(x1=joined, x2=torch.softmax(joined, axis=1))
        return (
            scaled.mean(axis=-1, keepdims=True),
            highest,
            where,
            joined.cumsum(axis=0).unsqueeze(axis=1),
            scaled.argmax(axis=0),
        )


_generator = torch.Generator().manual_seed(3)
x4 = torch.randn(3, 4, generator=_generator)
CASES: Dict[str, Tuple[Callable[[], nn.Module], Tuple[Tensor, ...]]] = {
    "expanded": (Expanded, (x4,)),
    "same at first": (SameAtFirst, (x4,)),
    "placed": (Placed, (x4,)),
    "weighted loss": (WeightedLoss, (x4,)),
    "without a batch": (WithoutBatch, (x4,)),
    "numpy's names": (NumpyNames, (x4,)),
    "image without a batch": (ImageWithoutBatch, (x4,)),
}
