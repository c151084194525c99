"""An instance is recorded as its class builds it, where what it kept builds the same; else as it stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ms_port
from ms_port.capture import Inputs, record
from ms_port.capture.rebuilt import constructor_arguments


@dataclass
class Settings:
    width: int = 8
    bias: bool = True


class ByConfig(nn.Module):
    def __init__(self, config: Settings, act: Callable[[Tensor], Tensor] = torch.relu) -> None:
        super().__init__()
        self.config = config
        self.act = act
        self.linear = nn.Linear(4, config.width, bias=config.bias)
        self.register_buffer("scale", torch.rand(config.width), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.linear(x)) * self.scale


class Kept(nn.Module):
    """Keeps its arguments under their names, one of them with an underscore."""

    def __init__(self, width: int, *, depth: int = 2, norm: Any = nn.LayerNorm) -> None:
        super().__init__()
        self.width, self._depth, self.norm = width, depth, norm
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), norm(4)) for _ in range(depth))
        self.last = self.layers[-1]

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.last(x) * self.width


class Forgets(nn.Module):
    """Another number of layers than the default can't be known from the instance."""

    def __init__(self, depth: int = 2) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(4, 4) for _ in range(depth)))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class Needs(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(4, 4) for _ in range(depth)))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class Doubles(nn.Module):
    """What it keeps under the argument's name is something else."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.width = width * 2
        self.linear = nn.Linear(4, self.width)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


class DrawsTable(nn.Module):
    """A plain tensor that is drawn anew each time."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.rand(4)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table


def changed(model: nn.Module, change: Callable[[Any], Any]) -> nn.Module:
    change(model)
    return model


FOUND = {
    "config": (lambda: ByConfig(Settings(6, False)), {"config", "act"}),
    "function": (lambda: ByConfig(Settings(), torch.tanh), {"config", "act"}),
    "kept": (lambda: Kept(3, depth=3, norm=partial(nn.LayerNorm, eps=1e-3)), {"width", "depth", "norm"}),
    "defaults": (Forgets, set()),
    "in evaluation": (lambda: Forgets().eval(), set()),
}
LOST = {
    "missing": lambda: Needs(2),
    "not kept": lambda: Forgets(3),
    "kept in another sense": Doubles,
    "drawn": DrawsTable,
    "layer replaced": lambda: changed(Forgets(), lambda m: setattr(m.layers, "1", nn.Linear(4, 5))),
    "layer added": lambda: changed(Forgets(), lambda m: m.layers.append(nn.ReLU())),
    "attribute added": lambda: changed(Forgets(), lambda m: setattr(m, "extra", 1)),
    "setting changed": lambda: changed(Kept(3), lambda m: setattr(m.layers[0][1], "eps", 1e-3)),
    "frozen": lambda: changed(Forgets(), lambda m: m.layers[0].requires_grad_(False)),
    "half": lambda: Forgets().half(),
    "tied": lambda: changed(Forgets(), lambda m: setattr(m.layers[1], "weight", m.layers[0].weight)),
    "shared": lambda: changed(Forgets(), lambda m: setattr(m.layers, "1", m.layers[0])),
    "hook": lambda: changed(Forgets(), lambda m: m.layers[0].register_forward_hook(lambda *_: None)),
    "own forward": lambda: changed(Forgets(), lambda m: setattr(m, "forward", m.layers.forward)),
    "torch's own": lambda: nn.Sequential(nn.Linear(4, 4)),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_an_instance_kept(name: str) -> None:
    make, arguments = FOUND[name]
    torch.manual_seed(1)
    model = make()
    state, modes = torch.get_rng_state(), [m.training for m in model.modules()]
    values = {key: value.clone() for key, value in model.state_dict().items()}
    x = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))
    recording = record(model, Inputs((x,)))
    assert recording.factory is type(model)
    assert set(recording.factory_arguments) == arguments
    assert recording.roots["init"] is not None
    assert torch.equal(recording.model.eval()(x), model.eval()(x))  # its values, those that are not saved as well
    model.load_state_dict(values)
    assert torch.equal(torch.get_rng_state(), state)
    assert len(modes) == len(list(model.modules()))


@pytest.mark.parametrize("name", LOST)
def test_what_can_not_be_known(name: str) -> None:
    assert constructor_arguments(LOST[name]()) is None


def test_the_port_keeps_the_constructor(tmp_path: Path) -> None:
    torch.manual_seed(0)
    port = ms_port.convert(Kept(3, depth=2), (torch.randn(2, 4),), out=tmp_path / "out", verify="none")
    text = (port.out / "kept" / "model.py").read_text()
    assert "for _ in range(depth)" in text
    assert not port.report.notes


def test_a_note_says_where_the_constructor_is_lost(tmp_path: Path) -> None:
    port = ms_port.convert(Forgets(3), (torch.randn(2, 4),), out=tmp_path / "out", verify="none")
    assert any("Forgets was given built" in note for note in port.report.notes)
