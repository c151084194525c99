"""Layers written out as functions, for faults that have no place in the other models."""

from typing import Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Norm(nn.Module):
    """A frozen normalisation with statistics of its own."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=1e-3)


class Edge(nn.Module):
    """Repeat the border, then smooth."""

    def forward(self, x: Tensor) -> Tensor:
        x = F.pad(x, (2, 1, 1, 2), mode="replicate")
        return F.avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False)


class Grow(nn.Module):
    """Resize to a fixed size."""

    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(x, size=(13, 13), mode="bilinear", align_corners=False)


class Gates(nn.Module):
    """One step of an LSTM from a zero state."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, 4 * width)

    def forward(self, x: Tensor) -> Tensor:
        i, f, g, o = self.inner(x).chunk(4, dim=-1)
        c = torch.sigmoid(f) * x + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c)


class Mix(nn.Module):
    """A linear map onto the same width, plus what carries no gradient."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) / width)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        y = F.linear(x, self.weight, self.bias)
        steps = (y * 4.0).to(torch.int32).to(y.dtype)
        return y * y.detach() + steps * 8.0


class Mixed(nn.Module):
    """Images and a number for each."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, padding=1)
        self.norm = Norm(width)
        self.edge = Edge()
        self.grow = Grow()
        self.gates = Gates(width)
        self.mix = Mix(width)
        self.head = nn.Linear(width, 5)

    def forward(self, x: Tensor, ids: Tensor) -> Tuple[Tensor, Tensor]:
        x = self.grow(self.edge(self.norm(self.conv(x))))
        x = self.gates(x.mean(dim=(2, 3)))
        x = x + (ids / 3)[:, None]
        x = self.mix(x)
        return self.head(x), torch.cat((x, x.flip(-1)), dim=-1).std(dim=-1)
