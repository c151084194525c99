"""A torch training checkpoint goes on in the port: the next losses are torch's."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ms_port.cli import run
from ms_port.ir.values import TensorValue
from ms_port.project import TrainInput, plan_training, write_training_files

PACKAGE = """
import mindspore as ms
from mindspore import nn


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.head = nn.Dense(6, 8), nn.BatchNorm1d(8), nn.Dense(8, 3)

    def construct(self, x):
        return self.head(self.norm(self.first(x)))


def build_model():
    return Net()


def load_weights(cell, path):
    missing, extra = ms.load_param_into_net(cell, ms.load_checkpoint(path, format="safetensors"), strict_load=True)
    assert not missing and not extra, (missing, extra)
"""
DATA = """
import numpy as np

def batches():
    with np.load("data.npz") as found:
        yield from zip(found["x"], found["y"])
"""
NORM = {"weight": "gamma", "bias": "beta", "running_mean": "moving_mean", "running_var": "moving_variance"}
Make = Callable[[nn.Module], torch.optim.Optimizer]


def two_groups(net: nn.Module) -> torch.optim.Optimizer:
    plain = [p for p in net.parameters() if p.ndim <= 1]
    decayed = [p for p in net.parameters() if p.ndim > 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=0.05)


CASES: list[Any] = [
    pytest.param(two_groups, ["adamw", "--weight-decay", "0.1", "--decay-norm-and-bias", "false"], id="adamw"),
    pytest.param(
        lambda net: torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9),
        ["sgd", "--weight-decay", "0.0"],
        id="sgd",
        marks=pytest.mark.slow,
    ),
    pytest.param(
        lambda net: torch.optim.Adam(net.named_parameters(), lr=0.05, weight_decay=0.1),
        ["adam", "--weight-decay", "0.1"],
        id="adam",
        marks=pytest.mark.slow,
    ),
    pytest.param(
        lambda net: torch.optim.RMSprop(net.parameters(), lr=0.05, momentum=0.9),
        ["rmsprop", "--weight-decay", "0.0"],
        id="rmsprop",
        marks=pytest.mark.slow,
    ),
]


def network() -> nn.ModuleDict:
    torch.manual_seed(0)
    return nn.ModuleDict({"first": nn.Linear(6, 8), "norm": nn.BatchNorm1d(8), "head": nn.Linear(8, 3)})


def port(out: Path, net: nn.Module) -> None:
    rows = []
    for name, tensor in net.state_dict().items():
        layer, _, leaf = name.rpartition(".")
        target = f"{layer}.{NORM.get(leaf, leaf) if layer == 'norm' else leaf}"
        counter = leaf == "num_batches_tracked"
        kind = "buffer" if counter or leaf.startswith("running") else "parameter"
        rule = "drop" if counter else "same"
        shape = list(tensor.shape)
        rows.append(
            {"torch": name, "mindspore": None if counter else target, "shape": shape, "rule": rule, "kind": kind}
        )
    (out / "net").mkdir(parents=True)
    (out / "net/__init__.py").write_text(PACKAGE)
    inputs = [TrainInput("x", "float32", (5, 6))]
    (out / "port.json").write_text(
        json.dumps(
            {
                "package": "net",
                "inputs": [{"name": "x", "dtype": "float32", "shape": [5, 6]}],
                "parameters": rows,
            }
        )
    )
    plan = plan_training(TensorValue((5, 3), "float32"), inputs)
    write_training_files(out, package="net", model="net", banner="", inputs=inputs, plan=plan)
    (out / "own.py").write_text(DATA)


@pytest.mark.parametrize(("make", "options"), CASES)
def test_next_losses_are_those_of_torch(tmp_path: Path, make: Make, options: list[str]) -> None:
    net = network()
    port(tmp_path / "out", net)
    optimizer = make(net)
    x, y = torch.randn(8, 5, 6), torch.randint(0, 3, (8, 5))
    np.savez(tmp_path / "out/data.npz", x=x.numpy(), y=y.numpy())
    wanted = []
    for step in range(8):
        if step == 4:
            torch.save(
                {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "global_step": 4}, tmp_path / "run.pt"
            )
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net["head"](net["norm"](net["first"](x[step]))), y[step])
        loss.backward()
        optimizer.step()
        wanted.append(loss.item())
    out = tmp_path / "out"
    assert run(["weights", str(tmp_path / "run.pt"), str(out / "checkpoints"), "--port", str(out)]) == 0
    command = [sys.executable, "train.py", "--steps", "8", "--resume", "auto", "--data", "own.py:batches"]
    command += ["--learning-rate", "0.05", "--weights", "", "--optimizer", *options]
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "GLOG_v": "3"}
    done = subprocess.run(command, cwd=out, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {int(n): float(v) for n, v in re.findall(r"^step (\d+) loss (\S+)$", done.stdout, re.MULTILINE)}
    assert list(found) == [5, 6, 7, 8]
    np.testing.assert_allclose(list(found.values()), wanted[4:], rtol=2e-5)


def test_what_is_not_known_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = network()
    out = tmp_path / "out"
    port(out, net)
    torch.save({"model": net.state_dict()}, tmp_path / "weights.pt")
    parts = [list(net.parameters())[i:j] for i, j in ((3, 6), (0, 3))]
    odd = torch.optim.Adam([{"params": part} for part in parts])
    sum(p.sum() for p in net.parameters()).backward()
    odd.step()
    torch.save({"model": net.state_dict(), "optimizer": odd.state_dict()}, tmp_path / "odd.pt")
    for make in (torch.optim.Adamax, torch.optim.NAdam, partial(torch.optim.Adam, amsgrad=True)):
        other = make(net.parameters())
        fresh = other.state_dict()
        other.step()
        name = getattr(make, "__name__", "amsgrad")
        torch.save({"model": net.state_dict(), "optimizer": other.state_dict()}, tmp_path / f"{name}.pt")
    torch.save({"model": net.state_dict(), "optimizer": fresh}, tmp_path / "fresh.pt")
    none = "none that train.py has"
    for file, said in (
        ("weights.pt", "no optimizer"),
        ("odd.pt", "not told apart"),
        ("none.pt", "no such file"),
        ("Adamax.pt", none),
        ("NAdam.pt", none),
        ("amsgrad.pt", none),
        ("fresh.pt", "has not taken a step"),
    ):
        assert run(["weights", str(tmp_path / file), str(out / "checkpoints"), "--port", str(out)]) == 2
        assert said in capsys.readouterr().err
    assert not (out / "checkpoints").exists()


def test_sgd_without_momentum_keeps_nothing(tmp_path: Path) -> None:
    """What the port then finds is its own first state, in the layout of its parameters."""
    net = nn.ModuleDict({"first": nn.Conv1d(2, 3, 4)})
    row = {"torch": "first.weight", "mindspore": "first.weight", "shape": [3, 2, 4], "rule": "conv1d_to_2d"}
    other = {"torch": "first.bias", "mindspore": "first.bias", "shape": [3], "rule": "same"}
    for momentum, filled in ((0.0, 1.0), (0.9, 0.0)):
        out = tmp_path / str(momentum)
        out.mkdir()
        parameters = [{**r, "kind": "parameter"} for r in (row, other)]
        (out / "port.json").write_text(json.dumps({"package": "net", "inputs": [], "parameters": parameters}))
        optimizer = torch.optim.SGD(net.parameters(), momentum=momentum)
        sum(p.sum() for p in net.parameters()).backward()
        optimizer.step()
        saved = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "step": 1}
        torch.save(saved, out / "run.pt")
        assert run(["weights", str(out / "run.pt"), str(out / "checkpoints"), "--port", str(out)]) == 0
        with np.load(out / "checkpoints/step_1.state.npz") as found:
            assert ("accum.first.weight" in found) == (momentum > 0)
            waits = found["stat.first.weight"]
            assert waits.shape == (3, 2, 1, 4) and (waits == filled).all()
