"""Single modules as public projects write them: what stands around ``forward``, and what a module is given."""

from __future__ import annotations

from typing import Callable, Dict, List, Tuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Gate(nn.Module):
    """A bottleneck that a narrow model leaves without units."""

    def __init__(self, channels: int, reduction: int = 16) -> None:
        super().__init__()
        hidden = channels // reduction
        self.fc = nn.Sequential(
            nn.Linear(channels, hidden, bias=False), nn.ReLU(), nn.Linear(hidden, channels), nn.Sigmoid()
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.fc(x)


class Gates(nn.Module):
    """One line of the source that makes layers with and without units."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow, self.wide = Gate(4), Gate(32)
        self.widen = nn.Linear(4, 32)

    def forward(self, x: Tensor) -> Tensor:
        return self.wide(self.widen(self.narrow(x)))


class Sized(nn.Module):
    """The base of ``Resized``: it is given an option that no code reads."""

    def __init__(self, size: int, mode: type = int) -> None:
        super().__init__()
        self.size = size
        self.mode = mode

    def forward(self, x: Tensor) -> Tensor:
        return x * self.size


class Resized(Sized):
    """``super().__init__`` gets an argument that the port does not have."""

    def __init__(self, size: int, kind: type = int, keep: bool = False) -> None:
        super().__init__(size, kind)
        self.keep = keep
        if not isinstance(self.size, (int, tuple)):
            raise AssertionError("size")

    def forward(self, x: Tensor) -> Tensor:
        if not self.keep:
            return super().forward(x)
        return x


def resized() -> nn.Module:
    return Resized(3)


class HandedOn(nn.Module):
    """A ``__call__`` that hands on to ``forward``."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.linear = nn.Linear(n, n)

    def __call__(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        return self.forward(x)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        return self.linear(x), x


class HandedUp(HandedOn):
    """A ``__call__`` that hands on to torch's."""

    def __call__(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        return nn.Module.__call__(self, x)


class OnlyCall(nn.Module):
    """A module without a ``forward``."""

    def __init__(self, n: int = 4) -> None:
        super().__init__()
        self.linear = nn.Linear(n, n)

    def __call__(self, x: Tensor) -> Tensor:
        return self.linear(x)


class Called(nn.Module):
    def __init__(self, n: int = 4) -> None:
        super().__init__()
        self.a, self.b, self.c = HandedOn(n), HandedUp(n), OnlyCall(n)

    def forward(self, x: Tensor) -> Tensor:
        y, x = self.a(x)
        return self.c(self.b(x)[0]) + y


class CountedByNumpy(nn.Module):
    """Sizes that numpy computes."""

    def __init__(self, shape: Tuple[int, ...], hidden: int) -> None:
        super().__init__()
        self.shape = shape
        self.linear = nn.Linear(np.prod(shape), hidden)
        self.conv = nn.Conv1d(1, np.prod(shape), 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(self.linear(x.reshape(-1, np.prod(self.shape)))[:, None])


class Master:
    """An object of Python's that only an arm which never runs would use."""

    def __init__(self, callback: Callable[[Tensor], Tensor]) -> None:
        self._registry: Dict[str, int] = {}
        self._callback = callback
        self._activated = False

    def run(self, x: Tensor) -> Tensor:
        return self._callback(x)


class Synchronized(nn.Module):
    def __init__(self, n: int = 4) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))
        self._master = Master(self._reduced)
        self._parallel = False

    def _reduced(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor) -> Tensor:
        if not self._parallel:
            return x * self.weight
        return self._master.run(x)


class Losses(nn.Module):
    """Layers that are given tensors: they come with the weights."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.binary = nn.BCEWithLogitsLoss(pos_weight=weight)
        self.classes = nn.CrossEntropyLoss(weight=2 * weight)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.binary(x, y) + self.classes(x, y)


class PlainTensors(nn.Module):
    """Tensors that torch does not register: random, computed from a parameter, given."""

    def __init__(self, given: Tensor) -> None:
        super().__init__()
        self.random = torch.rand(4, 4)
        self.parameter = nn.Parameter(torch.rand(4))
        self.doubled = self.parameter.data * 2
        self.given = given.t()
        self.register_parameter("bias", None)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x @ self.random + self.doubled, self.given, self.bias) * self.parameter


class Filled(nn.Module):
    """A write of a value with leading ones; a list that is extended by what is made of it."""

    def __init__(self, steps: int = 3) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 4)
        self.pair = nn.Linear(8, 8)
        self.steps = steps

    def split(self, x: Tensor) -> Tuple[Tensor, ...]:
        return self.pair(x).chunk(2, -1)

    def forward(self, x: Tensor) -> Tensor:
        code = x.new_zeros(4, self.steps, 4)
        h = s = x.new_zeros(1, 4, 4)
        for t in range(self.steps):
            _, (h, s) = self.lstm(x[None], (h, s))
            code[:, t, :] = h
        parts: List[Tensor] = [code[:, 0], code[:, 1]]
        for _ in range(2):
            parts.extend(self.split(torch.cat([parts[-2], parts[-1]], -1)))
        return torch.cat(parts, -1)


class OldReductions(nn.Module):
    """``size_average`` and ``reduce``, as they were before ``reduction``."""

    def __init__(self, average: bool = True) -> None:
        super().__init__()
        self.average = average
        self.summed = nn.MSELoss(size_average=False)
        self.classes = nn.CrossEntropyLoss(None, False)
        self.each = nn.BCELoss(reduce=False)
        self.mean = nn.L1Loss(average)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        p = x.sigmoid()
        layers = self.summed(x, y) + self.classes(x, y) + self.each(p, y).sum() + self.mean(x, y)
        made = nn.MSELoss(self.average)(x, y) + F.binary_cross_entropy(p, y, None, False)
        return layers + made + F.mse_loss(x, y, size_average=False) + F.l1_loss(x, y, reduce=True)


class KeepsAttention(nn.Module):
    """An attribute that forward sets beside a name; a function inside of which nothing is left."""

    def __init__(self, n: int = 4) -> None:
        super().__init__()
        self.attention = None
        self.linear = nn.Linear(n, n)

        def fill(m: nn.Module) -> None:
            if isinstance(m, nn.Conv2d):
                nn.init.xavier_uniform_(m.weight)

        self.linear.apply(fill)

    def attend(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        return self.linear(x), x.softmax(-1)

    def forward(self, x: Tensor) -> Tensor:
        x, self.attention = self.attend(x)
        return x


class Binarize(torch.autograd.Function):
    """All of ``forward`` without gradients, its ``return`` too."""

    @staticmethod
    def forward(ctx, x, threshold=0.5):
        with torch.no_grad():
            return (x > threshold).float()

    @staticmethod
    def backward(ctx, grad):
        given = None
        if ctx.needs_input_grad[0]:
            given = grad * 2
        return given, None


class Binary(nn.Module):
    def __init__(self, n: int = 4) -> None:
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.binarize = Binarize.apply

    def forward(self, x: Tensor) -> Tensor:
        return self.binarize(self.linear(x)) * x


class Unbatched(nn.Module):
    """Convolutions that only a Sequential calls, without a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.plane = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2))
        self.line = nn.Sequential(nn.Conv1d(3, 4, 3, padding=1, bias=False), nn.ReLU())

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        return self.plane(x), self.line(x[:, 0])


class TakenAway(nn.Module):
    """Layers that lose their bias after they were made."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.linear.bias = None
        self.conv = nn.Conv1d(4, 4, 1)
        self.conv.bias = None
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        for layer in self.layers:
            layer.register_parameter("bias", None)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.conv(self.linear(x)[..., None])


class WeighedInForward(nn.Module):
    """Losses that forward makes of tensors, under a name and without one."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        positive, negative = y.sum() + 1e-3, (1 - y).sum()
        loss = nn.BCEWithLogitsLoss(pos_weight=negative / positive)
        return loss(x, y) * positive + nn.BCELoss(weight=y + 1, reduction="sum")(x.sigmoid(), y)


class Encoded(nn.Module):
    """A base that is set up by its name."""

    def __init__(self, n: int, scale: Tensor, channels: int) -> None:
        nn.Module.__init__(self)
        self.scale = nn.Parameter(scale, requires_grad=False)
        self.linear = nn.Linear(n, channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.scale


class Ones(Encoded):
    def __init__(self, n: int, channels: int = 4) -> None:
        scale = torch.ones(n)
        Encoded.__init__(self, n, scale, channels=channels)


class Chain(Ones):
    def __init__(self, n: int = 4) -> None:
        Ones.__init__(self, n)
        self.last = nn.Linear(n, n)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(Encoded.forward(self, x))


X = torch.rand(4, 4)


def exists(v):
    return v is not None


class Grid(nn.Module):
    def __init__(self, dim, n, first):
        super().__init__()
        self.layers = nn.ModuleList(
            [nn.Linear(dim, dim), nn.Tanh() if first else None, nn.Linear(dim, dim) if n else None]
        )
        self.tail = nn.ModuleList()
        for i in range(3):
            self.tail.append(nn.Linear(dim, dim) if i != 1 else None)

    def forward(self, x: Tensor, y=None):
        a, b, c = self.layers
        x = a(x)
        if exists(b):
            x = b(x)
        if exists(c):
            x = c(x) + x
        for layer in self.tail:
            if layer is not None:
                x = layer(x)
        if exists(y) ^ exists(b):
            x = x * 2
        return x


class Gaps(nn.Module):
    """None stands for layers in a list."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(
            [nn.ModuleList([Grid(4, i, i == 0), Grid(4, i, i > 0) if i else None]) for i in range(2)]
        )

    def forward(self, x: Tensor):
        for one, two in self.blocks:
            x = one(x)
            if exists(two):
                x = two(x, x)
        return x


CASES = {
    "gaps": (Gaps, (X[:, :4] * 0.3,)),
    "layers without units": (Gates, (X,)),
    "a base given an option": (resized, (X,)),
    "calls of their own": (Called, (X,)),
    "a module without forward": (OnlyCall, (X,)),
    "sizes by numpy": (lambda: CountedByNumpy((4, 4), 4), (torch.rand(2, 4, 4),)),
    "an object nobody reads": (Synchronized, (X,)),
    "losses with tensors": (lambda: Losses(torch.tensor([0.3, 1.0, 2.0, 3.0])), (X, torch.rand(4, 4))),
    "tensors torch does not register": (lambda: PlainTensors(torch.rand(4, 4)), (X,)),
    "writes with leading ones": (Filled, (X,)),
    "old names of reductions": (OldReductions, (X, torch.rand(4, 4))),
    "an attribute set beside a name": (KeepsAttention, (X,)),
    "a forward without gradients": (Binary, (X,)),
    "a bias taken away": (TakenAway, (X,)),
    "losses made in forward": (WeighedInForward, (X, torch.rand(4, 4))),
    "a base set up by its name": (Chain, (X,)),
    "convolutions without a batch": (Unbatched, (torch.rand(3, 8, 8),)),
    "a convolution alone without a batch": (lambda: nn.Conv2d(3, 4, 3), (torch.rand(3, 8, 8),)),
    "a Sequential without a batch": (lambda: nn.Sequential(nn.Conv3d(3, 4, 3), nn.ReLU()), (torch.rand(3, 4, 5, 5),)),
}
