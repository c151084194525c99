"""Verification end to end: ports that are right, and ports with one planted fault each, in real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from faults import FORWARD
from made import make_port, make_small
from safetensors.torch import load_file, save_file
from torch import nn

from ms_port.errors import BadInput
from ms_port.report import Report
from ms_port.verify import Level, verify
from ms_port.verify.process import explain
from ms_port.verify.stubs import unwritten

R, V, T = "residual", "vision_transformer", "text_encoder"
SLOW = pytest.mark.slow


@pytest.mark.parametrize("name", [pytest.param(R, marks=SLOW), pytest.param(V, marks=SLOW), T])
def test_right_ports_are_equal_with_and_without_torch(name: str, tmp_path: Path) -> None:
    out = make_port(name, tmp_path)
    verdict = verify(out, level="gradient")
    for level in (verdict.forward, verdict.gradient):
        assert level.status == "equal", level
        assert level.first is None
        assert 0 < level.truth_error < level.max_error * 100 < 1e-2
    assert verdict.forward.modes == {"eval": "equal", "train": "equal"}
    assert verdict.forward.compared > 80
    assert verdict.forward.notes == ()
    assert verdict.status == "equal"
    json.dumps(verdict.to_json(), allow_nan=False)

    text = (out / "verify.py").read_text()
    assert "torch" not in [
        line.split()[1].partition(".")[0] for line in text.splitlines() if line.startswith(("import ", "from "))
    ]
    block = "import sys; sys.modules['torch'] = sys.modules['ms_port'] = None; import runpy; sys.argv = ['verify.py']; "
    command = [sys.executable, "-c", block + "runpy.run_path('verify.py', run_name='__main__')"]
    run = subprocess.run(command, cwd=out, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "equal to torch" in run.stdout
    if name == R:
        source = out / name / "model.py"
        source.write_text(
            source.read_text().replace(
                'nn.MaxPool2d(3, stride=2, pad_mode="pad", padding=1)', 'nn.MaxPool2d(3, stride=2, pad_mode="same")'
            )
        )
        run = subprocess.run(command, cwd=out, capture_output=True, text=True)
        assert run.returncode == 3, run.stdout + run.stderr
        assert "first in forward order: stem.2" in run.stdout
        save_file({k: v + 1 for k, v in load_file(out / "weights.safetensors").items()}, out / "weights.safetensors")
        run = subprocess.run(command, cwd=out, capture_output=True, text=True)
        assert run.returncode == 2
        assert "is not what was verified" in run.stderr


@pytest.mark.slow
def test_large_models_are_compared_on_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ms_port.verify.session.BUDGET", 1 << 14)
    out = make_port(T, tmp_path / "right")
    level = verify(out).forward
    assert level.status == "equal", level
    assert level.compared > 80
    assert subprocess.run([sys.executable, "verify.py"], cwd=out, capture_output=True, check=False).returncode == 0
    fault = FORWARD["mask missing"]
    level = verify(make_port(fault.port, tmp_path / "wrong", fault.edits)).forward
    assert level.first is not None and level.first.path == fault.path


@pytest.mark.slow
def test_weights_of_a_checkpoint_get_no_noise(tmp_path: Path) -> None:
    out = make_port(T, tmp_path)
    content = json.loads((out / "port.json").read_text())
    (out / "port.json").write_text(json.dumps({**content, "options": {"weights": "trained.pt"}}))
    level = verify(out).forward
    assert level.status == "equal", level
    assert subprocess.run([sys.executable, "verify.py"], cwd=out, capture_output=True, check=False).returncode == 0


LINEAR = """
def __init__(self):
    super().__init__()
    self.fc = nn.Linear(3, 3)
def forward(self, x, y):
    return self.fc(x) {torch}
"""
DENSE = """
def __init__(self):
    super().__init__()
    self.fc = nn.Dense(3, 3)
def construct(self, x, y):
    {before}
    return self.fc(x) {port}
"""


def small(folder: Path, torch_code: str = "+ y", port_code: str = "+ y", before: str = "", **options: object) -> Level:
    inputs = ["x:float32[2,3]", "y:float32[2,3]"]
    texts = LINEAR.format(torch=torch_code), DENSE.format(port=port_code, before=before)
    return verify(make_small(folder, *texts, inputs), **options).forward  # type: ignore[arg-type]


def test_zeros_and_ignored_inputs_prove_nothing(tmp_path: Path) -> None:
    zero = small(tmp_path / "zero", "* 0", "* 0")
    assert zero.status == "not proven"
    assert "output 0 is exactly zero (eval)" in zero.not_proven
    ignored = small(tmp_path / "ignored", "+ (y > 9).sum()", "")
    assert ignored.status == "not proven"
    assert ignored.not_proven == ("input y: torch's outputs do not depend on it here",)


def test_a_port_that_still_raises_is_not_verified(tmp_path: Path) -> None:
    out = make_small(
        tmp_path, LINEAR.format(torch="+ y"), DENSE.format(port="+ y", before=""), ["x:float32[2,3]", "y:float32[2,3]"]
    )
    fixes = out / "small" / "fixes.py"
    fixes.write_text(
        "def cummax(*args):\n    raise NotImplementedError('write it')\n\n\nclass Mine:\n    def construct(self):\n        return 1\n"
    )
    verdict = verify(out, level="gradient")
    assert [verdict.forward.status, verdict.gradient.status, verdict.step.status] == ["not run"] * 3
    assert verdict.gradient.notes == ("not verified: 1 stub to be written by hand (cummax)",)
    assert verdict.step.notes == ()
    report = Report("small", verification=verdict.to_json())
    assert report.status == "flagged"
    fixes.unlink()
    model = out / "small" / "model.py"
    text = model.read_text()
    model.write_text(
        text.replace(
            "return self.fc(x) + y", "raise NotImplementedError('construct at a.py:3 could not be ported: yield')"
        )
    )
    assert unwritten(out / "small") == ["Net.construct"]


def test_crashes_are_verdicts_with_the_place(tmp_path: Path) -> None:
    refused = small(tmp_path / "refused", before="(z := 3)")
    assert refused.status == "crashed"
    assert refused.modes == {"eval": "crashed", "train": "crashed"}
    assert "eval: " in refused.message and "NamedExpr" in refused.message
    assert refused.where == "small/model.py:12"
    dead = tmp_path / "dead"
    out = make_small(
        dead, LINEAR.format(torch="+ y"), DENSE.format(port="+ y", before=""), ["x:float32[2,3]", "y:float32[2,3]"]
    )
    model = out / "small" / "model.py"
    text = model.read_text()
    for code, message in (
        ("import os; os.kill(os.getpid(), 11)", "build_model: the process died of SIGSEGV"),
        ("import os; os.kill(os.getpid(), 9)", "build_model: the process was killed: most likely out of memory"),
        ("import time; time.sleep(600)", "MindSpore did not finish within"),
    ):
        model.write_text(text.replace("    return Net()", f"    {code}"))
        found = verify(out, timeout=9 if "sleep" in code else 100).forward
        assert found.status == "crashed"
        assert message in found.message
    assert not (out / "verify.py").exists()


def test_a_model_in_memory_is_verified_and_left_alone(tmp_path: Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.fc(x) + y

    out = make_small(
        tmp_path, LINEAR.format(torch="+ y"), DENSE.format(port="+ y", before=""), ["x:float32[2,3]", "y:float32[2,3]"]
    )
    content = json.loads((out / "port.json").read_text())
    (out / "port.json").write_text(json.dumps({**content, "target": None}))
    with pytest.raises(BadInput, match="can't make again"):
        verify(out)
    model = Net().eval()
    before, data = {k: v.clone() for k, v in model.state_dict().items()}, model.fc.weight.data_ptr()
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    level = verify(out, model=model, inputs=((x,), {"y": y})).forward
    assert level.status == "equal", level
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert model.fc.weight.data_ptr() == data and model.fc.weight.grad is None and not model.training
    with pytest.raises(BadInput, match="do not fit forward"):
        verify(out, model=model, inputs=(x,))
    with pytest.raises(BadInput, match=r"Net raised RuntimeError"):
        verify(out, model=model, inputs=(torch.randn(2, 4), y))


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"holds no port\.json"):
        verify(tmp_path)
    (tmp_path / "port.json").write_text("{")
    with pytest.raises(BadInput, match="can't be read"):
        verify(tmp_path)
    with pytest.raises(BadInput, match="there is no level 'deep'"):
        verify(tmp_path, level="deep")


def test_what_matters_of_an_error() -> None:
    text = """[WARNING] ME(1): something
Traceback (most recent call last):
  File "/venv/mindspore/api.py", line 3, in compile
    x()
TypeError: For primitive[Conv2D], the x shape size must be equal to 4, but got 3.

----------------------------------------------------
- The Traceback of Net Construct Code:
----------------------------------------------------
# 0 In file /tmp/out/small/model.py:12, 15~22
        return self.fc(x)
# 1 In file /venv/mindspore/nn/conv.py:9, 1~2
"""
    message, where = explain(text, 1, "/tmp/out")
    assert message == "TypeError: For primitive[Conv2D], the x shape size must be equal to 4, but got 3."
    assert where == "small/model.py:12"
    abort = "terminate called after throwing\n  what():  Invalid model output size:1\nAborted"
    assert explain(abort, -6, "/o")[0] == "the process died of SIGABRT Invalid model output size:1"
