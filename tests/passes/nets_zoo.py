"""Habits met in whole zoos of models. ``CASES``: name -> (factory, inputs)."""

from __future__ import annotations

import functools
import statistics
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def image(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


def same_padding(x: Tensor, conv: nn.Conv2d) -> Tensor:
    """Padding by what a layer says of itself."""
    amounts = []
    for size, k, s, d in zip(x.shape[-2:], conv.kernel_size, conv.stride, conv.dilation, strict=True):
        whole = max((-(size // -s) - 1) * s + (k - 1) * d + 1 - size, 0)
        amounts = [whole // 2, whole - whole // 2, *amounts]
    return F.pad(x, amounts)


gelu = nn.GELU()
"""A layer of no model."""


class SamePadding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sizes = [3, 1]
        self.first = nn.Conv2d(3, 4, sizes, stride=[2, 1])
        self.second = nn.Conv2d(4, 4, (1, 3), dilation=2)
        self.pool = nn.MaxPool2d([3, 3], [2, 1], padding=[k // 2 for k in (3, 2)])

    def forward(self, x: Tensor) -> Tensor:
        x = gelu(self.first(same_padding(x, self.first)))
        return self.pool(self.second(same_padding(x, self.second)))


@dataclass
class Sizes:
    heads: int = 2

    def __post_init__(self) -> None:
        self.width = 8 // self.heads


class Parts(NamedTuple):
    left: Tensor
    right: Tensor


class Computed(nn.Module):
    """A field that the configuration computes, a cached property, a named tuple with a part replaced."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.line = nn.Linear(8, 8)

    @functools.cached_property
    def scale(self) -> float:
        return self.sizes.width**-0.5

    def forward(self, x: Tensor) -> Tensor:
        parts = Parts(self.line(x), x * self.scale)
        parts = parts._replace(right=parts.left + parts.right)
        return (parts.left * parts.right).reshape(-1, self.sizes.heads, self.sizes.width)


def shifted(x: Tensor, by: float) -> Tensor:
    return x + by


def scaled(x: Tensor, by: float) -> Tensor:
    return x * by


class Chosen(nn.Module):
    """A table of lambdas, of which each layer names one; keywords are handed to them as a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(8, 8)
        self.kinds = ["shift", "scale", "shift"]

    def forward(self, x: Tensor) -> Tensor:
        given = {"x": self.line(x), "by": 2.0}
        table = {
            "shift": lambda: shifted(**given),
            "scale": lambda: scaled(**given),
            "never": lambda: given["x"].nonexistent(),
        }
        made = {}
        for kind in set(self.kinds):
            made[kind] = table[kind]()
        for kind in self.kinds:
            x = x + made[kind]
        return x


@dataclass
class WordConfig:
    width: int = 8
    layers: int = 2


@dataclass
class ImageConfig:
    width: int = 4
    layers: int = 1
    patch: int = 2


@dataclass
class BothConfig:
    words: WordConfig
    images: ImageConfig


class Encoder(nn.Module):
    def __init__(self, config: WordConfig | ImageConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList([nn.Linear(config.width, config.width) for _ in range(config.layers)])
        self.scale = getattr(config, "patch", 1) ** -0.5

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x).tanh()
        return x * self.scale / self.config.width


class Both(nn.Module):
    """One class is built from configurations of two classes, of which each keeps its fields."""

    def __init__(self, config: BothConfig) -> None:
        super().__init__()
        self.words = Encoder(config.words)
        self.images = Encoder(config.images)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.words(x).sum(-1) + self.images(y).sum(-1)


def gated(self: nn.Module, x: Tensor, by: float) -> Tensor:
    a, b = x.chunk(2, -1)
    return self.act(a) * b * by


def with_gate(cls: type) -> type:
    """Wraps the constructor, and gives the class a method that stands outside."""
    original = cls.__init__

    @functools.wraps(original)
    def __init__(self, width, *args, **kwargs):
        original(self, width, *args, **kwargs)
        self.doubled = 2 * width

    cls.__init__ = __init__
    cls.gate = gated
    return cls


@with_gate
class Gated(nn.Module):
    def __init__(self, width: int, scale: float = 2.0) -> None:
        super().__init__()
        self.line = nn.Linear(width, 2 * width)
        self.act = nn.SiLU()
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        return self.gate(self.line(x), by=self.scale) / self.doubled


class Decorated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = Gated(8, scale=3.0)
        self.b = Gated(8)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x))


class Standardized(nn.Conv2d):
    """A convolution whose constructor reads its own weight."""

    def __init__(self, *sizes: int, **given: object) -> None:
        super().__init__(*sizes, **given)
        self.scale = statistics.mean([1.0, self.weight[0].numel()]) ** -0.5

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight * self.scale, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Standardizing(nn.Module):
    """Instances whose layer below is given other arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.a = Standardized(3, 4, 3, padding=1)
        self.b = Standardized(4, 4, 1, stride=2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x))


class OwnNorm(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class NormInside(nn.Module):
    """A layer that only a Sequential calls, and whose forward is its base's: no line of the port stands for its call."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Sequential(nn.Linear(8, 6), nn.GELU(), OwnNorm(6))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x)


class Plain(nn.Module):
    expansion = 1

    def __init__(self, width: int, planes: int) -> None:
        super().__init__()
        self.line = nn.Linear(width, planes * self.expansion)

    def forward(self, x: Tensor) -> Tensor:
        return self.line(x).relu()


class Wide(Plain):
    expansion = 2

    def forward(self, x: Tensor) -> Tensor:
        return self.line(x).tanh()


class Staged(nn.Module):
    """One method makes stages of either class, by a number that stands in the class's body."""

    def __init__(self) -> None:
        super().__init__()
        self.width = 4
        self.first = self.stage(Plain, 6, 2)
        self.second = self.stage(Wide, 3, 1)

    def stage(self, block: type[Plain], planes: int, count: int) -> nn.Sequential:
        layers = []
        for _ in range(count):
            layers.append(block(self.width, planes))
            self.width = planes * block.expansion
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


class EitherLayer(nn.Module):
    """One line calls a Linear on three axes in one instance, a convolution on four in another."""

    def __init__(self, conv: bool) -> None:
        super().__init__()
        self.fc = nn.Conv2d(4, 4, 1) if conv else nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x).tanh()


class Either(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.flat = EitherLayer(False)
        self.conv = EitherLayer(True)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).flatten(2).transpose(1, 2) + self.flat(x.flatten(2).transpose(1, 2))


CASES = {
    "either layer": (Either, (image(2, 4, 3, 3),)),
    "numbers of classes": (Staged, (image(2, 4),)),
    "norm inside a Sequential": (NormInside, (image(2, 8),)),
    "decorated class": (Decorated, (image(2, 8),)),
    "other layers below": (Standardizing, (image(2, 3, 6, 6),)),
    "two configurations": (
        functools.partial(Both, BothConfig(WordConfig(layers=3), ImageConfig(width=6))),
        (image(2, 8), image(2, 6)),
    ),
    "chosen": (Chosen, (image(2, 8),)),
    "same padding": (SamePadding, (image(2, 3, 8, 9),)),
    "computed": (functools.partial(Computed, Sizes()), (image(2, 8),)),
}
