"""The kernels of MindSpore's CPU backend: as MindSpore has them, and what a port that differs by them alone is called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from made import make_small
from torch import nn
from torch.nn import functional as F

from ms_port.verify import verify
from ms_port.verify.cpu_kernels import FORMULAS, CpuKernels

MEASURE = """
import sys
import numpy as np
import mindspore as ms
from mindspore import ops
ms.set_device("CPU")
x = ms.Tensor(np.load(sys.argv[1]))
np.savez(sys.argv[2], **{name: getattr(ops, name)(x).asnumpy() for name in ("exp", "sigmoid", "tanh")})
"""
SATURATED = """
def __init__(self):
    super().__init__()
    self.first = nn.{linear}(8, 16)
    self.second = nn.{linear}(16, 4)
def {method}(self, x):
    return self.second({tanh}(self.first(x) * {scale}))
"""


def test_the_formulas_are_mindspores(tmp_path: Path) -> None:
    x = np.concatenate([np.linspace(-12, 12, 4803), np.linspace(-85, 85, 3401)]).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    files = [str(tmp_path / "x.npy"), str(tmp_path / "y.npz")]
    subprocess.run([sys.executable, "-c", MEASURE, *files], check=True, capture_output=True)
    found = np.load(tmp_path / "y.npz")
    for name, formula in FORMULAS.items():
        wide = torch.from_numpy(x).double()
        want, exact = formula(wide).numpy(), getattr(torch, name)(wide).numpy()
        scale = exact if name == "exp" else 1.0
        assert np.abs((found[name] - want) / scale).max() < 6e-7, name
        assert np.abs((found[name] - exact) / scale).max() > 7e-7, f"{name} is exact: it needs no formula any more"


@pytest.mark.parametrize("function", [F.silu, F.mish, F.softplus, F.logsigmoid, F.glu, torch.tanh, torch.Tensor.exp_])
def test_what_is_composed_stays_the_function_with_its_gradient(function: object) -> None:
    x = torch.linspace(-4, 4, 64, dtype=torch.float64, requires_grad=True)
    assert callable(function)
    want = function(x * 1)
    kernels = CpuKernels()
    with kernels:
        got = function(x * 1)
    assert kernels.used and not torch.equal(got, want)
    assert torch.allclose(got, want, rtol=2e-5, atol=2e-5)
    for a, b in zip(*(torch.autograd.grad(y.sum(), x) for y in (got, want)), strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-4)
    assert torch.equal(torch.sigmoid(x), nn.Sigmoid()(x))  # afterwards torch is as it was


def test_a_port_that_differs_by_these_kernels_alone_is_equal_and_a_fault_beside_them_is_seen(tmp_path: Path) -> None:
    source = SATURATED.format(linear="Linear", method="forward", tanh="torch.tanh", scale=8.0)
    port = SATURATED.format(linear="Dense", method="construct", tanh="ops.tanh", scale=8.0)
    out = make_small(tmp_path / "right", source, port, ["x:float32[16,8]"])
    verdict = verify(out, level="gradient")
    for level in (verdict.forward, verdict.gradient):
        assert level is not None and level.status == "equal", level
        assert level.first is None
    assert any("kernels of tanh" in note for note in verdict.forward.notes)
    assert verdict.forward.max_error < 1e-6
    run = subprocess.run([sys.executable, "verify.py"], cwd=out, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr

    wrong = port.replace("8.0", "8.001")
    verdict = verify(make_small(tmp_path / "wrong", source, wrong, ["x:float32[16,8]"]), level="forward")
    assert verdict.status == "not equal"
    module = out / "small" / "model.py"
    module.write_text(module.read_text().replace("8.0", "8.02"))
    run = subprocess.run([sys.executable, "verify.py"], cwd=out, capture_output=True, text=True)
    assert run.returncode == 3, run.stdout + run.stderr


def test_what_is_written_in_place_is_written() -> None:
    x = torch.linspace(-3, 3, 9)
    with CpuKernels():
        y = x.clone()
        assert F.silu(y, inplace=True) is y
        assert F.mish(z := x.clone(), inplace=True) is z
    assert torch.allclose(y, F.silu(x), atol=1e-5) and torch.allclose(z, F.mish(x), atol=1e-5)
