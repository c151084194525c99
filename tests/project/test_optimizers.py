"""The optimizers that train.py makes take torch's steps."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from ms_port.ir.values import TensorValue
from ms_port.project import TrainInput, plan_training, write_training_files

PACKAGE = """
from mindspore import nn


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.head = nn.Dense(6, 8), nn.LayerNorm((8,), epsilon=1e-5), nn.Dense(8, 3)

    def construct(self, x):
        return self.head(self.norm(self.first(x)))


def build_model():
    return Net()


def load_weights(cell, path):
    pass
"""
RUN = """
import argparse, json, sys
import mindspore as ms, numpy as np
import train
ms.set_context(mode=ms.GRAPH_MODE)
cell = train.build_model()
start = np.load("start.npz")
for name, parameter in cell.parameters_dict().items():
    parameter.set_data(ms.Tensor(start[name]))
cell.set_train(True)
options = argparse.Namespace(**json.loads(sys.argv[1]))
step = train.make_train_step(cell, train.make_optimizer(cell, options))
x, y = ms.Tensor(start["x"]), ms.Tensor(start["y"].astype(np.int32))
losses = [float(step(x, y).asnumpy()) for _ in range(10)]
np.savez("end.npz", losses=losses, **{n: p.asnumpy() for n, p in cell.parameters_dict().items()})
"""
NAMES = {"norm.weight": "norm.gamma", "norm.bias": "norm.beta"}
OPTIONS = [
    {"optimizer": "sgd", "learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
    pytest.param(
        {"optimizer": "sgd", "learning_rate": 0.1, "momentum": 0.0, "weight_decay": 0.1, "nesterov": False},
        marks=pytest.mark.slow,
    ),
    {"optimizer": "adamw", "learning_rate": 0.01, "weight_decay": 0.1},
]


@pytest.mark.parametrize(
    "options", OPTIONS, ids=lambda o: f"{o['optimizer']}-{o['weight_decay']}" if isinstance(o, dict) else None
)
def test_ten_steps_equal_torch(tmp_path: Path, options: dict) -> None:
    torch.manual_seed(0)
    net = nn.ModuleDict({"first": nn.Linear(6, 8), "norm": nn.LayerNorm(8), "head": nn.Linear(8, 3)}).double()
    x, y = torch.randn(5, 6, dtype=torch.float64), torch.tensor([0, 2, 1, 1, 0])
    start = {NAMES.get(n, n): p.detach().float().numpy() for n, p in net.named_parameters()}
    np.savez(tmp_path / "start.npz", x=x.float().numpy(), y=y.numpy(), **start)
    net.load_state_dict({n: p.float().double() for n, p in net.state_dict().items()})
    x = x.float().double()
    if options["optimizer"] == "sgd":
        keys = ("momentum", "weight_decay", "nesterov")
        optimizer: torch.optim.Optimizer = torch.optim.SGD(
            net.parameters(), lr=options["learning_rate"], **{k: options[k] for k in keys}
        )
    else:
        optimizer = torch.optim.AdamW(
            net.parameters(), lr=options["learning_rate"], weight_decay=options["weight_decay"]
        )
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net["head"](net["norm"](net["first"](x))), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    (tmp_path / "net").mkdir()
    (tmp_path / "net/__init__.py").write_text(PACKAGE)
    (tmp_path / "port.json").write_text(json.dumps({"package": "net", "inputs": []}))
    inputs = [TrainInput("x", "float32", (5, 6))]
    plan = plan_training(TensorValue((5, 3), "float32"), inputs)
    write_training_files(tmp_path, package="net", model="net", banner="", inputs=inputs, plan=plan)
    (tmp_path / "run.py").write_text(RUN)
    environment = {**os.environ, "GLOG_v": "3", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    subprocess.run(
        [sys.executable, "run.py", json.dumps(options)], cwd=tmp_path, env=environment, check=True, timeout=200
    )
    end = np.load(tmp_path / "end.npz")
    np.testing.assert_allclose(end["losses"], losses, rtol=1e-5)
    for name, parameter in net.named_parameters():
        np.testing.assert_allclose(end[NAMES.get(name, name)], parameter.detach().numpy(), rtol=1e-4, atol=2e-6)
