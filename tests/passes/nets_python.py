"""Nets whose forward uses Python's own functions, functions made while building, and torch's older ways of writing."""

from __future__ import annotations

import functools
import itertools
import operator
from functools import partial
from itertools import combinations
from typing import NamedTuple, Optional

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.ao.quantization import DeQuantStub, QuantStub
from torch.autograd import Variable


class _Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)


class Iterates(_Base):
    def forward(self, x):
        xs = [self.l(x), x, x * 2]
        pairs = torch.cat([a * b for a, b in combinations(xs, 2)], 1)
        total = 0
        for i, j in itertools.product(range(2), range(3)):
            total = total + xs[0][:, i : i + 1] * x[:, j : j + 1]
        for t in itertools.chain(xs, [x]):
            total = total + t
        ordered = [a - 2 * b for a, b in itertools.permutations(xs, 2)]
        return pairs.sum() + total + sum(ordered)


class Reduces(_Base):
    def forward(self, x):
        y = self.l(x)
        return functools.reduce(lambda a, b: a * b, [y, x, x]) + functools.reduce(operator.add, [y, x], x * 2)


class NestedComprehensions(_Base):
    def forward(self, x):
        y = self.l(x)
        a = [y[:, i : i + 1] * x[:, j : j + 1] for i in range(3) for j in range(2) if i != j]
        return torch.cat(a, 1) + sum(y[:, i] * j for i in range(2) for j in range(3)).sum()


class OldTensors(_Base):
    """Variable, legacy constructors, types as classes and names."""

    def __init__(self):
        super().__init__()
        self.disp = torch.Tensor(np.reshape(np.array(range(4)), [1, 4]))

    def forward(self, x):
        zeros = Variable(x.data.new(2, 4).zero_())
        y = self.l(x).type(torch.FloatTensor) * Variable(torch.ones(2, 4)) + zeros
        z = x.type("torch.LongTensor").type_as(x)
        return y * torch.Tensor([1.0, 2, 3, 4]) + z * torch.LongTensor([1, 2, 3, 4]) + self.disp.data


def dice(x, y, eps=1e-3, activation="none", **unused):
    if activation == "relu":
        x = F.relu(x)
    return (x * y).sum() / (x.sum() + y.sum() + eps)


def _times(k):
    def times(x):
        return x * k

    return times


class HeldFunctions(_Base):
    def __init__(self, eps=0.5):
        super().__init__()
        self.twice = lambda a: torch.cat([a, a * 2], 1)
        self.add = lambda a, b: a + b
        self.loss = partial(dice, eps=eps, activation="relu")
        self.scaled = _times(3)

    def forward(self, x):
        y = self.twice(self.add(self.l(x), x))
        return y * self.loss(self.l(x), x) + self.scaled(x).mean()


class Both(NamedTuple):
    first: torch.Tensor
    second: Optional[torch.Tensor] = None


class Replaces(_Base):
    def forward(self, x):
        both = Both(self.l(x))
        both = both._replace(second=x)
        return both._replace(first=both.first * 2)


class AsksClasses(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU()])
        for i in range(2):
            setattr(self, f"stage{i}", nn.Linear(4, 4))

    def forward(self, x):
        for layer in self.layers:
            if type(layer) is nn.Linear:
                x = layer(x)
            elif type(layer) is not nn.BatchNorm1d:
                x = layer(x) * 2
            else:
                x = layer(x) + 1
        i = 0
        while hasattr(self, "stage" + str(i)):
            x = getattr(self, "stage" + str(i))(x)
            i += 1
        return x


class StarredList(_Base):
    def _joined(self, *xs):
        return torch.cat(xs, 1)

    def forward(self, x):
        xs = [self.l(x)]
        xs.extend([x, x])
        xs.insert(0, x * 3)
        xs += [x]
        last = xs.pop()
        return self._joined(*xs, last)


class _Redirected(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        made = grad.clone()
        made[x < 0] = made[x < 0] * 0.1
        return made


class BackwardWithMask(_Base):
    def forward(self, x):
        return _Redirected.apply(self.l(_Redirected.apply(x)))


class FloatFunctionals(_Base):
    def __init__(self):
        super().__init__()
        self.skip = nn.quantized.FloatFunctional()
        self.quant, self.dequant = QuantStub(), DeQuantStub()

    def forward(self, x):
        x = self.quant(x)
        y = self.skip.add(self.l(x), x)
        y = self.skip.cat([x, self.skip.mul(y, x)], dim=1)
        return self.dequant(self.skip.add_scalar(self.skip.add_relu(y, y), 2.0))


class MaskedWrites(_Base):
    def forward(self, x):
        y = self.l(x)
        y[x > 0] = y[x > 0] * 2 + x[x > 0]
        return y


class UnreadInputs(_Base):
    def __init__(self, weight=0.0):
        super().__init__()
        self.weight = weight

    def forward(self, x, target, mask):
        if self.weight == 0.0:
            return self.l(x)
        return self.l(x) * target


class FixedMasks(_Base):
    """Sizes and numbers that come from values, but not from those of an input."""

    def forward(self, x, y):
        n = x.shape[0]
        mask = torch.eye(n, dtype=torch.bool)
        similar = torch.einsum("nc,mc->nm", self.l(x), y)
        negative = similar[~mask].view(n, -1)
        others = similar.masked_select(~mask).view(n, n - 1)
        weights = torch.linspace(0, 1, 3).tolist()
        return similar[mask] + torch.logsumexp(negative, 1) + others.sum() * weights[1]


class Spectrum(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(8, 8, 1)

    def forward(self, x):
        y = torch.fft.rfft2(x, norm="backward")
        real, imaginary = torch.chunk(self.c(torch.cat([y.real, y.imag], 1)), 2, 1)
        return torch.fft.irfft2(torch.complex(real, imaginary), s=(6, 6), norm="backward")


class OnlyCounts(_Base):
    def __init__(self):
        super().__init__()
        self.steps = 0
        self.calls = 0

    def forward(self, x):
        self.steps += 1
        self.calls = self.calls + 1
        return self.l(x)


class _Up(nn.Module):
    def __init__(self, output_padding):
        super().__init__()
        self.c = nn.ConvTranspose2d(2, 2, 3, 2, 1, output_padding)

    def forward(self, x):
        return self.c(x)


def _reduced(loss, weight=None, reduction="mean"):
    loss = loss if weight is None else loss * weight
    kind = F._Reduction.get_enum(reduction)
    if kind == 0:
        return loss
    return loss.mean() if kind == 1 else loss.sum()


def _weighted(function):
    @functools.wraps(function)
    def wrapper(pred, target, weight=None, reduction="mean", **settings):
        loss = function(pred, target, **settings)
        return _reduced(loss, weight, reduction)

    return wrapper


@_weighted
def absolute_loss(pred, target):
    return (pred - target).abs()


@_weighted
def smooth_loss(pred, target, beta=1.0):
    diff = (pred - target).abs()
    return torch.where(diff < beta, 0.5 * diff * diff / beta, diff - 0.5 * beta)


class _Loss(nn.Module):
    def __init__(self, reduction="mean"):
        super().__init__()
        self.reduction = reduction

    def forward(self, pred, target, weight=None):
        return absolute_loss(pred, target, weight, reduction=self.reduction)


class WeightedLosses(_Base):
    """A wrapper that reduces what the function that it wraps gave."""

    def __init__(self):
        super().__init__()
        self.losses = nn.ModuleList(_Loss(kind) for kind in ("mean", "sum", "none"))

    def forward(self, x, y):
        x = self.l(x)
        found = [loss(x, y, weight).mean() for loss, weight in zip(self.losses, (None, x, y))]
        return sum(found) + smooth_loss(x, y, beta=0.5)


def _x(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Skips(nn.Module):
    """Skips are taken from a list inside an expression."""

    def __init__(self):
        super().__init__()
        self.downs = nn.ModuleList([nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)]) for _ in range(2)])
        self.ups = nn.ModuleList([nn.ModuleList([nn.Linear(8, 4), nn.Linear(8, 4)]) for _ in range(2)])

    def forward(self, x: torch.Tensor):
        h = []
        for a, b in self.downs:
            x = a(x)
            h.append(x)
            x = b(x).tanh()
            h.append(x)
        for a, b in self.ups:
            x = torch.cat((x, h.pop()), dim=1)
            x = a(x)
            x = b(torch.cat([x, h.pop()], dim=1))
        return x


class Once(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor):
        parts = [self.a(x), x * 2, x * self.a(x)]
        y = parts.pop(0) + parts.pop() * 2
        return y, parts[0] * 3


CASES = {
    "popped": (Skips, (_x(3, 4),)),
    "popped once": (Once, (_x(3, 4),)),
    "iterates": (Iterates, (_x(2, 4),)),
    "reduces": (Reduces, (_x(2, 4),)),
    "nested comprehensions": (NestedComprehensions, (_x(2, 4),)),
    "old tensors": (OldTensors, (_x(2, 4),)),
    "held functions": (HeldFunctions, (_x(2, 4),)),
    "replaces": (Replaces, (_x(2, 4),)),
    "asks classes": (AsksClasses, (_x(2, 4),)),
    "starred list": (StarredList, (_x(2, 4),)),
    "backward with a mask": (BackwardWithMask, (_x(2, 4),)),
    "float functionals": (FloatFunctionals, (_x(2, 4),)),
    "masked writes": (MaskedWrites, (_x(2, 4),)),
    "fixed masks": (FixedMasks, (_x(4, 4), _x(4, 4, seed=1))),
    "spectrum": (Spectrum, (_x(2, 4, 6, 6),)),
    "only counts": (OnlyCounts, (_x(2, 4),)),
    "several output paddings": (lambda: nn.Sequential(_Up(0), _Up(1)), (_x(1, 2, 4, 4),)),
    "weighted losses": (WeightedLosses, (_x(2, 4), _x(2, 4, seed=1))),
    "unread inputs": (UnreadInputs, (_x(2, 4), _x(2, 4, seed=1), _x(2, 4, seed=2))),
}
