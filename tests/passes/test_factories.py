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


def overwrite(options: dict[str, Any], name: str, value: Any) -> None:
    if name not in options:
        options[name] = value


def _wide(widths: list[Any], **options: Any) -> Net:
    return Net(make_layers(widths), **options)


def wide(**options: Any) -> Net:
    overwrite(options, "classes", 5)
    return _wide([6, "R", 8], **options)


def build(first: int, activation: str = "R", *, classes: int = 3, device: Any = None, **options: Any) -> Net:
    net = Net(make_layers([first, activation, 8]), classes, **options)
    return net.to(device) if device is not None else net


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


@pytest.mark.parametrize("given", [{}, {"classes": 5}, {"classes": 7}])
def test_an_option_that_a_called_function_puts_in_is_not_lost(given, tmp_path):
    ported = port(partial(wide, **given), (torch.randn(2, 4),), tmp_path)
    assert not ported.rules
    made = next(
        n for n in ast.walk(ast.parse(ported.source)) if isinstance(n, ast.FunctionDef) and n.name == "build_model"
    )
    wanted = given.get("classes", 5)
    assert f"classes={wanted}" in ast.unparse(made)


GIVEN = {
    "named": (build, {"first": 6, "classes": 2}, {"first": 6, "classes": 2}),
    "by place": (partial(build, 7, classes=4), {}, {"first": 7, "classes": 4}),
    "a device": (build, {"first": 5, "device": torch.device("cpu")}, {"first": 5, "classes": 3}),
    "an entry": (partial(wide, classes=4), {}, {"classes": 4}),
}


@pytest.mark.parametrize("name", GIVEN)
def test_what_the_factory_was_given_are_the_defaults(name, tmp_path):
    factory, arguments, wanted = GIVEN[name]
    ported = port(factory, (torch.randn(2, 4),), tmp_path, arguments=arguments)
    assert not ported.rules
    made = next(
        n for n in ast.walk(ast.parse(ported.source)) if isinstance(n, ast.FunctionDef) and n.name == "build_model"
    ).args
    defaults = dict(zip([a.arg for a in made.args], made.defaults, strict=True))
    defaults |= dict(zip([a.arg for a in made.kwonlyargs], made.kw_defaults, strict=True))
    assert {key: ast.literal_eval(value) for key, value in defaults.items() if key in wanted} == wanted
