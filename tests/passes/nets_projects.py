"""Habits of the modules that public projects publish, each net with members of one kind. ``CASES`` as in nets."""

from __future__ import annotations

import functools
import inspect
from collections import namedtuple

import torch
from torch import Tensor, nn
from torchvision import models


def _x(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class HeldRanges(nn.Module):
    """A range comes out of a tuple that the constructor made, and is kept; the graph loops over it."""

    def __init__(self) -> None:
        super().__init__()
        Genotype = namedtuple("Genotype", "normal concat")
        genotype = Genotype(normal=[("skip", 1), ("conv", 0)], concat=range(2, 4))
        names, indices = zip(*genotype.normal, strict=True)
        concat = genotype.concat
        self.concat, self.first = concat, range(2)
        self.backwards = range(3, -1, -2)
        self.indices = indices
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in names])

    def forward(self, x: Tensor) -> Tensor:
        states = [x, x * 2]
        for i in self.first:
            states.append(self.layers[i](states[self.indices[i]]))
        return torch.cat([states[i] for i in self.concat] + [states[i] * 3 for i in self.backwards], dim=1)


def _positional(function):
    """A decorator that lets the parameters of a function, which takes keywords only, be given by position."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        names = list(inspect.signature(function).parameters)
        kwargs.update(zip(names, args))
        if "activation" in kwargs:
            kwargs["act"] = kwargs.pop("activation")
        return function(**kwargs)

    return wrapper


@_positional
def _head(*, width: int, bias: bool = True, act: str = "tanh") -> nn.Module:
    layer = nn.Linear(4, width, bias=bias)
    return nn.Sequential(layer, nn.ReLU() if act == "relu" else nn.Tanh())


class DecoratedFactories(nn.Module):
    """What is called has no place for the arguments that are written: the decorator brings them there."""

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.first = _head(width, False)
        self.second = _head(width, activation="relu")
        self.third = models.resnet18(False).conv1

    def forward(self, x: Tensor) -> Tensor:
        return self.first(x) + self.second(x) + self.third.weight[:1, 0, 0, :3]


class _Skip(nn.Module):
    """The block of the U-Net of image translation: what it joins to its result, its own first layer has changed."""

    def __init__(self, width: int, inner: nn.Module | None = None) -> None:
        super().__init__()
        up = nn.ConvTranspose2d(width * 2 if inner is None else width * 4, width, 2, stride=2)
        down = [nn.LeakyReLU(0.2, True), nn.Conv2d(width, width * 2, 2, stride=2)]
        self.model = nn.Sequential(*down, *([] if inner is None else [inner]), nn.ReLU(True), up)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.model(x)], 1)


class WritesInFirstLayer(nn.Module):
    """Sequentials that begin with a layer in place, over a tensor that is read beside or after them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 2, 1)
        self.unet = _Skip(2, _Skip(4))
        self.body = nn.Sequential(nn.ReLU(inplace=True), nn.Conv2d(4, 4, 1))
        self.last = nn.Sequential(nn.LeakyReLU(0.1, inplace=True), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(inplace=True))
        self.act = nn.Hardtanh(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.unet(self.first(x))
        x = x + self.body(x)
        shortcut = x
        x = self.last(x)
        x = x + shortcut
        return torch.cat([x, self.act(x), shortcut], dim=1)


class WholeNumbers(nn.Module):
    """Arithmetic on sizes that graphs do otherwise than Python: rounding gives whole numbers, powers fractions."""

    def __init__(self) -> None:
        super().__init__()
        self.dim = 4
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        c = int(x.size(1))
        half, third = round(c * 0.5), int(round(c * 0.3))  # noqa: RUF046
        x = self.layer(x)
        left, right = x[:, :half], x[:, half:]
        scale = self.dim**-1 + pow(c, -2) + 3**-1 * c**2
        return torch.cat([left * scale, right * x.shape[0] ** -1, x[:, :third] * 2**third], dim=1)


class _Dims(nn.Module):
    """Sets no layer and nothing that a graph reads, only what the constructors of its classes read."""

    def __init__(self, dec_dims: list[int], enc_dims: list[int] | None = None) -> None:
        super().__init__()
        if enc_dims:
            self.enc_dims = enc_dims
        else:
            self.enc_dims = dec_dims[::-1]
        self.dec_dims = dec_dims

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(self.encode(x))


class _Encodes(_Dims):
    def __init__(self, dec_dims: list[int], enc_dims: list[int] | None = None) -> None:
        super().__init__(dec_dims, enc_dims)
        self.encoder = nn.ModuleList([nn.Linear(a, b) for a, b in zip(self.enc_dims[:-1], self.enc_dims[1:])])

    def encode(self, x: Tensor) -> Tensor:
        for layer in self.encoder:
            x = layer(x).relu()
        return x


class BaseHoldsSettings(_Encodes):
    """``self.dec_dims`` comes from the base's base and is read in the constructor alone."""

    def __init__(self, dec_dims: list[int]) -> None:
        super().__init__(dec_dims)
        self._build()

    def _build(self) -> None:
        pairs = zip(self.dec_dims[:-1], self.dec_dims[1:])
        self.decoder = nn.ModuleList([nn.Linear(a, b) for a, b in pairs])

    def decode(self, z: Tensor) -> Tensor:
        for layer in self.decoder:
            z = layer(z)
        return z


CASES = {
    "whole numbers": (WholeNumbers, (_x(2, 4),)),
    "writes in first layer": (WritesInFirstLayer, (_x(2, 3, 4, 4),)),
    "decorated factories": (DecoratedFactories, (_x(2, 4),)),
    "base holds settings": (lambda: BaseHoldsSettings([2, 3, 4]), (_x(2, 4),)),
    "held ranges": (HeldRanges, (_x(2, 4),)),
}
