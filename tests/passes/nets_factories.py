"""Constructors that hand out what makes layers: partials in dataclasses, tables of classes, builders with state."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Dict, List, Tuple

import torch
from torch import Tensor, nn

TABLE = {"silu": nn.SiLU, "tanh": nn.Tanh}
MORE = {json.loads('"elu"'): nn.ELU}


class Gate(nn.Module):
    """The width of the gate is rounded by a function that is handed in, a builtin by default."""

    def __init__(self, width: int, ratio: float = 0.5, rounding: Any = None) -> None:
        super().__init__()
        rounding = rounding or round
        inner = rounding(width * ratio)
        self.reduce = nn.Linear(width, inner)
        self.expand = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.expand(self.reduce(x).relu()).sigmoid()


@dataclass
class Makers:
    """What makes layers, as fields."""

    gate: Any = None
    act: Callable[..., nn.Module] = nn.ReLU


class Block(nn.Module):
    def __init__(self, width: int, makers: Makers) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.gate = makers.gate(width)
        self.act = makers.act()

    def forward(self, x: Tensor) -> Tensor:
        return self.gate(self.act(self.linear(x)))


class PartialFields(nn.Module):
    """Blocks from a table of settings: their dataclass holds a partial over a cell."""

    def __init__(self) -> None:
        super().__init__()
        makers = Makers(gate=partial(Gate, ratio=0.25), act=nn.SiLU)
        stages: Dict[str, nn.Module] = {}
        for key in json.loads('["a", "b"]'):
            stages[key] = Block(4, makers)
        self.blocks = nn.Sequential(*stages.values())

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(x)


def layer_of(name: Any) -> Any:
    """A class from a table, by name; classes pass. The second table is never asked."""
    if name is None:
        return None
    if not isinstance(name, str):
        return name
    if name:
        if name in TABLE:
            return TABLE[name]
    found = MORE[json.loads(name)]
    return found


class ByName(nn.Module):
    """Activations by name and by class."""

    def __init__(self, first: Any = "silu", second: Any = nn.Tanh) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.first, self.second = layer_of(first)(), layer_of(second)()

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.linear(self.first(x)))


class ByClass(nn.Module):
    """Only classes come: what looks up names never ran."""

    def __init__(self, act: Any = nn.Tanh) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.act = layer_of(act)()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.linear(x))


class Builder:
    """Makes layers from settings and remembers the last width."""

    def __init__(self) -> None:
        self.width = 0

    def __call__(self, width: int, settings: List[str]) -> List[nn.Module]:
        self.width = width
        made = []
        for text in settings:
            options = json.loads(text)
            made.append(nn.Linear(self.width, options["out"]))
            self.width = options["out"]
        return made


class Built(nn.Module):
    """The head's width is what the builder remembers after its call."""

    def __init__(self) -> None:
        super().__init__()
        builder = Builder()
        self.body = nn.Sequential(*builder(4, ['{"out": 6}', '{"out": 5}']))
        self.head = nn.Linear(builder.width, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


class BuiltByMethod(nn.Module):
    """The same through a method, and through a function that takes the builder."""

    def __init__(self) -> None:
        super().__init__()
        builder = Builder()
        self.body = nn.Sequential(*builder.__call__(4, ['{"out": 6}']))
        middle = builder.width
        self.more = nn.Sequential(*made_with(builder, middle))
        self.head = nn.Linear(builder.width, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.more(self.body(x)))


def made_with(builder: Builder, width: int) -> List[nn.Module]:
    return builder(width, ['{"out": 5}'])


class Feed(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.wide = nn.Linear(width, inner)
        self.narrow = nn.Linear(inner, width)
        self.drop = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.narrow(self.drop(self.wide(x).relu()))


class Layer(nn.Module):
    """Keeps the part that it is given, and knows its width."""

    def __init__(self, width: int, feed: nn.Module) -> None:
        super().__init__()
        self.width = width
        self.feed = feed
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.feed(self.norm(x))


def clones(module: nn.Module, count: int) -> nn.ModuleList:
    return nn.ModuleList([copy.deepcopy(module) for _ in range(count)])


class Encoder(nn.Module):
    """Copies of one layer, and the layer itself."""

    def __init__(self, layer: Layer, count: int) -> None:
        super().__init__()
        self.first = layer
        self.layers = clones(layer, count)
        self.norm = nn.LayerNorm(layer.width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Copied(nn.Module):
    def __init__(self, encoder: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x))


def copied(count: int = 2, width: int = 4) -> Copied:
    c = copy.deepcopy
    feed = Feed(width, 6)
    model = Copied(Encoder(Layer(width, c(feed)), count), nn.Sequential(nn.Linear(width, 3), c(Feed(3, 2))))
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.xavier_uniform_(p)
    return model


x4 = torch.randn(3, 4, generator=torch.Generator().manual_seed(9))

CASES: Dict[str, Tuple[Callable[[], nn.Module], Tuple[Tensor, ...]]] = {
    "partial fields": (PartialFields, (x4,)),
    "rounded gate": (partial(Gate, 4), (x4,)),
    "by name": (ByName, (x4,)),
    "by class": (ByClass, (x4,)),
    "built": (Built, (x4,)),
    "built by method": (BuiltByMethod, (x4,)),
    "copied": (copied, (x4,)),
}
