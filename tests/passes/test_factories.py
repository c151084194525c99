"""How a model that a library's plumbing makes is made in the port: by the function that names what it makes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from tests.passes.port import port

BUILDERS: dict[str, Callable[..., nn.Module]] = {}


def registered(builder: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    BUILDERS[builder.__name__] = builder
    return builder


def get_model(name: str, **options: Any) -> nn.Module:
    builder = BUILDERS[name]
    return builder(**options)


class Net(nn.Module):
    """Its layers are made outside."""

    def __init__(self, features: nn.Module, classes: int = 3) -> None:
        super().__init__()
        self.features = features
        self.head = nn.Linear(8, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


def make_layers(widths: list[Any]) -> nn.Sequential:
    layers: list[nn.Module] = []
    before = 4
    for width in widths:
        if width == "R":
            layers += [nn.ReLU()]
        else:
            width = cast(int, width)
            layers += [nn.Linear(before, width)]
            before = width
    return nn.Sequential(*layers)


@registered
def small(*, classes: int = 3, weights: Any = None) -> Net:
    """A small net.

    Args:
        classes: how many.
        weights (:class:`~somewhere.Weights`, optional): what to download.

    .. autoclass:: somewhere.Weights
        :members:
    """
    return Net(make_layers([6, "R", 8]), classes)


class Settings:
    """What the port has no word for: an object whose method makes layers."""

    def __init__(self) -> None:
        self.made: list[nn.Module] = []

    @classmethod
    def of(cls, widths: list[Any]) -> Settings:
        made = cls()
        made.made.append(make_layers(widths))
        return made


def make_by_class(cls: Callable[..., nn.Module], settings: Settings) -> nn.Module:
    return cls(settings.made.pop())


@registered
def other(**options: Any) -> nn.Module:
    return make_by_class(Net, Settings.of([8, "R", 8]), **options)


TARGETS = {
    "lambda": lambda: get_model("small", classes=2),
    "partial": partial(small, classes=2),
    "function": lambda: small(classes=2),
}


@pytest.mark.parametrize("name", TARGETS)
def test_the_function_that_names_the_class_stays(name, tmp_path):
    ported = port(TARGETS[name], (torch.randn(2, 4),), tmp_path)
    text = ported.source
    assert not ported.rules
    assert "BUILDERS" not in text and "def get_model" not in text
    assert "Net(make_layers([6, 'R', 8])" in ast.unparse(ast.parse(text))
    assert "def __init__(self, features: nn.Cell" in text
    assert "cast" not in text and "width = width" not in text
    assert "download" not in text and "autoclass" not in text


def test_what_can_not_be_followed_leaves_nothing_behind(tmp_path):
    ported = port(lambda: get_model("other"), (torch.randn(2, 4),), tmp_path)
    assert not ported.rules
    assert "make_by_class" not in ported.source and "def other" not in ported.source
    assert ported.source.count("class Net") == 1
