"""Noise on running statistics must not add up along a deep network: no two float32 programs agree on what explodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import ms_port
from ms_port.verify.noise import numbers
from ms_port.verify.port import Inputs, Port
from ms_port.verify.session import Session


class Deep(nn.Module):
    """A chain of convolutions and normalisations, residual every other one."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(60))
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(60))

    def forward(self, x: Tensor) -> Tensor:
        x = x.repeat(1, 8, 1, 1)
        for index, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            y = F.relu(norm(conv(x)))
            x = x + y if index % 2 else y
        return x


class OwnNorm(nn.BatchNorm1d):
    """Normalises by a function call of its own, as layers that join a norm and an activation do."""

    def forward(self, input: Tensor) -> Tensor:
        training = self.training
        out = F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, training, 0.1, self.eps)
        return F.gelu(out)


class DeepByFunction(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), OwnNorm(16)) for _ in range(60)))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x.repeat(1, 16))


class DeepInstance(nn.Module):
    """InstanceNorm with running statistics."""

    def __init__(self) -> None:
        super().__init__()
        layers = [(nn.Conv1d(8, 8, 3, padding=1), nn.InstanceNorm1d(8, track_running_stats=True)) for _ in range(40)]
        self.layers = nn.Sequential(*(layer for pair in layers for layer in pair))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x.repeat(1, 8, 1))


NETS: list[tuple[Any, tuple[int, ...]]] = [(Deep, (2, 1, 6, 6)), (DeepByFunction, (4, 1)), (DeepInstance, (2, 1, 12))]


@pytest.mark.parametrize(("net", "shape"), NETS, ids=lambda value: getattr(value, "__name__", ""))
def test_activations_keep_their_size_in_eval(net: Any, shape: tuple[int, ...], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, inputs = net(), (torch.randn(shape),)
    out = tmp_path / "out"
    ms_port.convert(model, inputs, out=out, verify="none")
    session = Session.prepare(Port.read(out), model, Inputs(inputs, {}), seed=3)
    kinds = session.port.kinds(model)
    assert set(session.measured) == {name for name, kind in kinds.items() if kind in ("mean", "variance")}
    record = session.record(train=False)
    sizes = [float(np.abs(array).max()) for arrays in record.values.values() for array in arrays]
    assert len(sizes) > 40
    assert max(sizes) < 100
    assert min(sizes) > 0.1


def test_a_branch_that_is_dropped_by_sample_is_kept_for_one() -> None:
    for number in range(200):
        drawn = numbers(f"layer{number}", number, "uniform", (2, 1, 1))
        assert drawn.shape == (2, 1, 1)
        assert drawn.dtype == np.float32
        assert (drawn >= 0.5).sum() == 1
        assert ((0 <= drawn) & (drawn < 1)).all()
    many = np.concatenate([numbers("layer", number, "uniform", (4,)) for number in range(500)])
    assert abs(many.mean() - 0.5) < 0.01
    assert abs((many < 0.1).mean() - 0.1) < 0.02
