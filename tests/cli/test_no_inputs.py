"""A model that takes no tensor (a sampler, a table of parameters) is converted, verified and trained like others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import ms_port


class Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.arange(6.0).reshape(2, 3))

    def forward(self, scale: float = 2.0) -> Tensor:
        return self.rows * scale


class Loss(nn.Module):
    """Gives a number: there is no target either."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self) -> Tensor:
        return self.weight.square().mean()


def run(out: Path, *command: str) -> str:
    made = subprocess.run([sys.executable, *command], cwd=out, capture_output=True, text=True, timeout=300, check=False)
    assert made.returncode == 0, made.stderr[-2000:]
    return made.stdout


def test_a_table(tmp_path: Path) -> None:
    port = ms_port.convert(Table, out=tmp_path / "out")
    assert port.report.verification["forward"]["status"] == "equal"
    assert "step 2 loss" in run(port.out, "train.py", "--steps", "2")
    run(port.out, "infer.py", "--outputs", "results.npz")
    given = Table().rows.detach().numpy() * 2
    np.testing.assert_array_equal(np.load(port.out / "results.npz")["output_0"], given)


def test_a_loss(tmp_path: Path) -> None:
    port = ms_port.convert(Loss, out=tmp_path / "out", verify="none")
    assert "step 2 loss" in run(port.out, "train.py", "--steps", "2")
