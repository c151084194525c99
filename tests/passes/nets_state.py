"""Writes through views, to buffers and to attributes; functions with a backward of their own; containers and sets.

``CASES``: name -> (factory, inputs) of nets whose ports are equal to torch and carry no flag.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function


def image(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


class Lin(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(6, 6)


class ViewsWritten(Lin):
    """A slice, a reshaped and a transposed view, written by a method, an operator and an item."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.lin(x)
        v = h[:, :2]
        v.mul_(2)
        f = h.view(2, -1)
        f[:, 0] = 0.5
        t = h.transpose(1, 2)
        t += 1
        return h * 2


class BaseWritten(Lin):
    """The tensor is written, views of it and views of those are read."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.lin(x).unsqueeze(1)
        flat = h.squeeze(1)
        first = flat[:, 0]
        flat.add_(x)
        first *= 3
        return h.sum(1) + flat * first[:, None]


class ThroughCalls(Lin):
    """The view has no name; ``narrow`` and ``select`` are slices."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.lin(x)
        h.view(-1)[:3] = 0
        h.transpose(1, 2)[:, 1] += 1
        out = torch.zeros(2, 8, 6)
        out.narrow(1, 2, 4).copy_(h)
        out.select(1, 0).fill_(2.0)
        out.permute(2, 0, 1).mul_(x[:, 0, :, None].permute(1, 0, 2))
        return out


class SharedRow(Lin):
    """Two views of one memory: what is written through the one is read through the other."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.lin(x)
        front, row = h[:, :2], h[:, 0]
        row.zero_()
        return front + h[:, 2:]


class Averages(Lin):
    """A normalisation of one's own: buffers are written while training."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("seen", torch.zeros(3, 6))
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        h = self.lin(x)
        if self.training:
            with torch.no_grad():
                self.mean.mul_(0.9).add_(h.mean(0), alpha=0.1)
                self.seen[1:] = h[:2]
                self.count += 1
        return h - self.mean + self.count + self.seen.sum(0)


class MaxNorm(Lin):
    """The weight is renormed before it is used; a tensor's ``.data`` is clamped."""

    def forward(self, x: Tensor) -> Tensor:
        self.lin.weight.data = F.normalize(self.lin.weight.data, dim=1)
        h = self.lin(x)
        h.data.clamp_(-0.5, 0.5)
        return h * x


class OneCallState(Lin):
    """Attributes that forward sets and reads, one of them a cache that starts empty."""

    def __init__(self) -> None:
        super().__init__()
        self.ramp: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.hidden = self.lin(x)
        self.energy = self.hidden.pow(2).mean()
        if self.ramp is None or self.ramp.shape[0] != x.shape[1]:
            self.ramp = torch.linspace(0, 1, x.shape[1])
        return self.hidden * self.energy + self.ramp


class Reversed(Function):
    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return -ctx.alpha * grad_output, None


class Bounded(Function):
    """Saves inputs and something that forward computed."""

    @staticmethod
    def forward(ctx, x, bound):
        inside = x * 2 > bound
        ctx.save_for_backward(x, inside)
        return torch.max(x, bound), x + bound

    @staticmethod
    def backward(ctx, grad, other):
        x, inside = ctx.saved_tensors
        grad = grad.clone()
        grad[x < -1] = 0
        return grad * inside + 3 * other, None


def reverse(x: Tensor, alpha: float = 0.5) -> Tensor:
    return Reversed.apply(x, alpha)


class OwnBackwards(Lin):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bound", torch.tensor([0.1]))

    def forward(self, x: Tensor) -> Tensor:
        a, b = Bounded.apply(self.lin(x), self.bound)
        return self.lin(reverse(a)) + b


class Parts(nn.Module):
    """Parts of containers, containers in a dict, a dict's items as attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.ModuleDict(
            {
                "first": nn.Linear(6, 6),
                "rest": nn.ModuleList([nn.Linear(6, 6) for _ in range(3)]),
                "name": nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6)),
            }
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.net.first(x)
        for layer in self.net.rest[1:]:
            x = layer(x)
        return self.net["name"][:2](x) + self.net.rest[0](x)


def scaled(x: Tensor, ops: list[nn.Module], ms: int = 1) -> Tensor:
    """Parameters named like the packages that the port is written with."""
    for op in ops:
        x = op(x)
    return F.pad(x, (0, ms))


@torch.jit.script
def gate(x: Tensor, y: Tensor):
    return torch.tanh(x) * torch.sigmoid(y)


class Names(Lin):
    def __init__(self) -> None:
        super().__init__()
        self.scripted = torch.jit.script(nn.Sequential(nn.Linear(6, 6), nn.ReLU()))
        self.lazy = nn.LazyLinear(6)

    def forward(self, x: Tensor) -> Tensor:
        seen = set()
        for i in range(3):
            if i % 2 not in seen:
                x = self.lin(x)
                seen.add(i % 2)
        return scaled(gate(x, self.scripted(x)), ops=[self.lin, self.lazy])


class Stepped(Lin):
    """Every second element of inner axes: patch merging, a strided attention, a focus layer."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.lin(x)
        even, odd = h[:, 0::2], h[:, 1::2, 1:5]
        grid = h.reshape(2, 2, 2, 6)
        merged = torch.cat([grid[:, 0::2, 0::2, :], grid[:, 1::2, 0::2]], -1)
        focus = grid[..., ::2, 1::2].sum((1, 2))
        return even.sum(1) * focus.repeat(1, 2) + odd.sum((1, 2))[:, None] + merged.sum((1, 2))[:, :6]


class Constants(Lin):
    """numpy on sizes, lambdas, a function inside."""

    def forward(self, x: Tensor) -> Tensor:
        angles = np.arange(x.shape[1])[:, None] / np.power(10000, 2 * (np.arange(6) // 2) / 6)[None]
        angles[:, 0::2] = np.sin(angles[:, 0::2])
        future = torch.from_numpy(np.triu(np.ones((4, 4)), k=1).astype("uint8")) == 1
        k = x.mean()
        double = lambda t: t * k  # noqa: E731

        def shifted(t: Tensor, by: int = 2) -> Tensor:
            return self.lin(t) + by

        q, v = map(lambda t: double(t).unsqueeze(1), (shifted(x), x))  # noqa: C417
        scores = (q @ v.transpose(-1, -2)).squeeze(1).masked_fill(future, -1e9)
        return scores.softmax(-1) @ x + torch.from_numpy(angles).float()


class Branches(Lin):
    """Branches on tensors: both sides, one side, early return, break, a condition of two parts, a check."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.lin(x)
        assert not torch.isnan(h).any()
        if torch.isinf(h).any():
            raise ValueError("infinite")
        if h.sum() > 0:
            h = h * 2
        else:
            h = h - 1
        if (h > 100).any() or (h < -100).any():
            h = torch.tanh(h)
        for _ in range(3):
            h = h * 0.7
            if h.abs().max() < 0.2:
                break
        while h.norm() > 1.5:
            h = h * 0.5
        if h.mean() > 5:
            return h * 3
        return h + x


class MaskWrites(Lin):
    def forward(self, x: Tensor) -> Tensor:
        h = self.lin(x)
        mask = x > 0
        h[mask] = x[mask]
        h[h < -0.3] *= 2
        h[x[:, 0] > 0] += 1
        return h


class MaskQuotients(Lin):
    """What the mask leaves out would divide by 0, or be the root of 0: its gradient stays that of nothing."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.lin(x).clamp(min=0)
        y = x.clamp(min=0)
        h[y > 0] /= y[y > 0]
        h[h > 0.1] **= 0.5
        return h


def halve_(scores: Tensor, n: int) -> None:
    """Writes its argument and returns nothing."""
    if n == 0:
        return
    scores[:, :n] = scores[:, :n] * 0.5


class Writers(Lin):
    """Functions that write an argument and return nothing, one of them by way of another."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.ones(4, 6))

    def add_places(self, x: Tensor, scale: float) -> None:
        for i, row in enumerate(self.places):
            x[i].add_(row * scale)
        self.shift(x)

    def shift(self, x: Tensor) -> None:
        x.mul_(2)
        x += 1

    def forward(self, x: Tensor) -> Tensor:
        h = self.lin(x)
        view = h[:2]
        self.add_places(h, 0.5)
        for n in (0, 2):
            halve_(h, n)
        return h.sum(0) * view


CASES = {
    "writers": (Writers, (image(4, 6),)),
    "stepped": (Stepped, (image(2, 4, 6),)),
    "constants": (Constants, (image(2, 4, 6),)),
    "branches": (Branches, (image(3, 6),)),
    "mask writes": (MaskWrites, (image(3, 6),)),
    "mask quotients": (MaskQuotients, (image(3, 6),)),
    "views written": (ViewsWritten, (image(2, 4, 6),)),
    "base written": (BaseWritten, (image(2, 4, 6),)),
    "through calls": (ThroughCalls, (image(2, 4, 6),)),
    "shared row": (SharedRow, (image(2, 4, 6),)),
    "averages": (Averages, (image(3, 6),)),
    "max norm": (MaxNorm, (image(3, 6),)),
    "one call state": (OneCallState, (image(3, 6),)),
    "own backwards": (OwnBackwards, (image(3, 6),)),
    "parts": (Parts, (image(3, 6),)),
    "names": (Names, (image(3, 6),)),
}
