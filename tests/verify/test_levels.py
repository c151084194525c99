"""The levels above forward, the certificate, and the comparison without torch: end to end, and part by part."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import numpy as np
import pytest
import torch
from made import make_small
from torch import Tensor

import ms_port.verify
from ms_port.errors import BadInput
from ms_port.report.html import plots
from ms_port.verify import verify
from ms_port.verify.desk import Desk
from ms_port.verify.gradients import Gradients, pairs
from ms_port.verify.judge import compare_update
from ms_port.verify.loss import Loss
from ms_port.verify.port import Inputs
from ms_port.verify.torch_side import NotDifferentiable, differentiate
from ms_port.verify.torch_updates import ADAMW, BOUND, SGD, Follower

SCHEMA = json.loads((Path(ms_port.verify.__file__).parent / "certificate_schema.json").read_text())
SLOW = pytest.mark.slow

NORMED = """
def __init__(self):
    super().__init__()
    self.fc1 = nn.Linear(3, 8)
    self.bn = nn.BatchNorm1d(8)
    self.fc2 = nn.Linear(8, 4)
    self.drop = nn.Dropout(0.25)
def forward(self, x):
    return self.fc2(self.drop(F.relu(self.bn(self.fc1(x)))))
"""
PORTED = """
def __init__(self):
    super().__init__()
    self.fc1 = nn.Dense(3, 8)
    self.bn = nn.BatchNorm1d(8, momentum=0.9)
    self.fc2 = nn.Dense(8, 4)
    self.drop = nn.Dropout(p=0.25)
def construct(self, x):
    return self.fc2(self.drop(ops.relu(self.bn(self.fc1(x)))))
"""
INPUT = ["x:float32[16,3]"]
NO_TORCH = """
import runpy, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "ms_port"):
            raise ImportError(name + " is not here")
sys.meta_path.insert(0, Refuse())
sys.argv = ["verify.py", *sys.argv[1:]]
runpy.run_path("verify.py", run_name="__main__")
"""


def alone(out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run OUT/verify.py where neither torch nor ms_port can be imported."""
    return subprocess.run([sys.executable, "-c", NO_TORCH, *arguments], cwd=out, capture_output=True, text=True)


def test_all_levels_the_certificate_and_the_comparison_without_torch(tmp_path: Path) -> None:
    out = make_small(tmp_path, NORMED, PORTED, INPUT)
    verdict = verify(out, level="train", steps=4)
    for name in ("forward", "gradient", "step", "train"):
        level = getattr(verdict, name)
        assert level.status == "equal", (name, level)
        assert level.first is None and 0 < level.max_error < 1e-3, (name, level)
    assert verdict.gradient.compared == 7  # six parameters and the input
    assert verdict.step.compared == 6 * 4 + 2  # two updates by two optimizers; running mean and variance
    assert verdict.train.compared == 4 * (1 + 6 + 2)
    assert "fc1.bias" in verdict.step.notes[0]  # its gradient is rounding alone
    assert verdict.gradient.notes == ("zero in exact arithmetic: fc1.bias",)
    curves = verdict.train.curves
    assert [len(curve) for curve in curves.values()] == [4, 4, 4]
    np.testing.assert_allclose(curves["torch"], curves["port, each step from torch's state"], rtol=1e-5)
    assert (out / "report" / "curves.csv").read_text().startswith("step,torch,")
    assert len(plots({"verification": verdict.to_json()})[0]["lines"]) == 3

    certificate = json.loads((out / "report" / "certificate.json").read_text())
    jsonschema.validate(certificate, SCHEMA)
    assert [r["by"] for r in certificate["runs"]] == ["ms-port verify"]
    run = alone(out)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "step: 26 tensors compared, 0 differ" in run.stdout
    certificate = json.loads((out / "report" / "certificate.json").read_text())
    jsonschema.validate(certificate, SCHEMA)
    assert [r["by"] for r in certificate["runs"]] == ["ms-port verify", "verify.py"]
    levels = certificate["runs"][1]["levels"]
    assert [levels[n]["status"] for n in ("forward", "gradient", "step", "train")] == ["equal"] * 3 + ["not run"]


@SLOW
def test_half_precisions(tmp_path: Path) -> None:
    out = make_small(tmp_path, NORMED, PORTED, INPUT)
    verdict = verify(out, level="step", precisions=("float16", "bfloat16"))
    assert verdict.status == "equal"
    float16, bfloat16 = verdict.forward.notes[-2:]
    assert float16.startswith("float16: forward equal"), float16
    assert bfloat16.startswith("bfloat16: forward "), bfloat16
    certificate = json.loads((out / "report" / "certificate.json").read_text())
    jsonschema.validate(certificate, SCHEMA)
    found = certificate["runs"][1]["levels"]["forward"]
    assert 1e-5 < found["max_error"] < 0.05  # it did compute in float16
    with pytest.raises(BadInput, match="no precision 'float8'"):
        verify(out, precisions=("float8",))


OPTIMIZATION = """
from mindspore.experimental import optim
def make_optimizer(cell, options):
    parameters = list(cell.trainable_params())
    if options.optimizer == "sgd":
        return optim.SGD(parameters, lr=options.learning_rate, momentum=options.momentum, weight_decay={decay})
    return optim.{adam}(parameters, lr=options.learning_rate, weight_decay=options.weight_decay)
"""


@SLOW
@pytest.mark.parametrize(
    ("texts", "kind"),
    [({"decay": "0.0", "adam": "AdamW"}, "sgd"), ({"decay": "options.weight_decay", "adam": "Adam"}, "adamw")],
)
def test_the_optimizer_of_the_training_files_is_judged(texts: dict[str, str], kind: str, tmp_path: Path) -> None:
    out = make_small(tmp_path, NORMED, PORTED, INPUT)
    (out / "optimization.py").write_text(OPTIMIZATION.format(**texts))
    verdict = verify(out, level="train", steps=4)
    assert verdict.gradient.status == "equal"
    assert verdict.step.status == "not equal"
    assert verdict.step.first is not None and f"{kind} update" in verdict.step.first.why
    assert verdict.train.status == ("not equal" if kind == "adamw" else "equal"), verdict.train
    run = alone(out)
    assert run.returncode == 3 and f"{kind} update" in run.stdout, run.stdout + run.stderr
    assert alone(out, "--level", "gradient").returncode == 0


REMEMBERING = """
import mindspore as ms
from mindspore import Parameter, Tensor, ops
from mindspore.experimental import optim
class Odd(optim.AdamW):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.taken = Parameter(Tensor(0, ms.int32), "taken")
    def construct(self, gradients):
        ops.assign_add(self.taken, Tensor(1, ms.int32))
        {body}
def make_optimizer(cell, options):
    parameters = list(cell.trainable_params())
    if options.optimizer == "sgd":
        return optim.SGD(parameters, lr=options.learning_rate, momentum=options.momentum, weight_decay=options.weight_decay)
    return Odd(parameters, lr=options.learning_rate, weight_decay=options.weight_decay)
"""
JUMPS = "return super().construct(tuple(g * ops.where(self.taken == 2, 5.0, 1.0) for g in gradients))"
FORGETS = "[ops.assign(m, m * 0.5) for m in self.exp_avg]; return super().construct(gradients)"


@SLOW
@pytest.mark.parametrize(("body", "status"), [(JUMPS, "equal"), (FORGETS, "not equal")])
def test_a_jump_does_not_stay_in_the_averages_and_faults_of_them_do(body: str, status: str, tmp_path: Path) -> None:
    out = make_small(tmp_path, NORMED, PORTED, INPUT)
    (out / "optimization.py").write_text(REMEMBERING.format(body=body))
    level = verify(out, level="train", steps=12).train
    assert level.status == status, level
    assert all(kink.endswith("in 1 of 12 steps") for kink in level.kinks), level
    assert status != "equal" or level.kinks


@SLOW
def test_faults_of_training_alone(tmp_path: Path) -> None:
    """A stopped gradient, a statistic that doesn't move, and a parameter that is not trained."""
    for fault, (old, new), where in (
        ("gradient", ("self.bn(self.fc1(x))", "self.bn(ops.stop_gradient(self.fc1(x)))"), ""),
        ("step", ("momentum=0.9", "momentum=0.5"), "bn"),
        ("gradient", ("nn.Dense(8, 4)", "nn.Dense(8, 4); self.fc2.bias.requires_grad = False"), "fc2"),
    ):
        out = make_small(tmp_path / f"at{where}", NORMED, PORTED.replace(old, new), INPUT)
        verdict = verify(out, level="train", steps=4)
        level = getattr(verdict, fault)
        assert level.status == "not equal" and level.first is not None and level.first.path == where, level
        assert verdict.train.status == "not equal", verdict.train


@SLOW
def test_what_only_the_port_trains_is_not_proven(tmp_path: Path) -> None:
    frozen = NORMED.replace("self.drop =", "self.fc2.bias.requires_grad = False\n    self.drop =")
    out = make_small(tmp_path, frozen, PORTED, INPUT)
    level = verify(out, level="gradient").gradient
    assert level.status == "not proven", level
    assert level.not_proven == ("fc2.bias: the port trains it, torch does not",), level


@SLOW
def test_a_kink_is_no_fault(tmp_path: Path) -> None:
    body = "def __init__(self):\n    super().__init__()\n    self.w = {0}\n{1}(self, x):\n    return {2} * self.w\n"
    weight = "nn.Parameter(torch.ones(20))", 'Parameter(Tensor(np.ones(20, np.float32)), name="w")'
    port = "ops.where(x >= 0, x, ops.zeros_like(x))"
    texts = body.format(weight[0], "def forward", "F.relu(x)"), body.format(weight[1], "def construct", port)
    out = make_small(tmp_path / "gradient", *texts, ["x:float32[10,20]"])
    x = torch.randn(10, 20)
    assert verify(out, level="gradient", inputs=(x,)).gradient.status == "equal"
    x[3, 4] = 0.0  # torch's gradient of relu is 0 there, the port's is 1
    level = verify(out, level="gradient", inputs=(x,)).gradient
    assert level.status == "equal" and level.kinks[0].startswith("x: "), level
    port = "ops.where(x > -1, x, ops.zeros_like(x))"
    wrong = make_small(
        tmp_path / "wrong", texts[0], body.format(weight[1], "def construct", port), ["x:float32[10,20]"]
    )
    assert verify(wrong, level="gradient", inputs=(x,)).gradient.status == "not equal"

    port = "ops.floor(x * 4 + 0.5)"
    texts = body.format(weight[0], "def forward", "torch.round(x * 4)"), body.format(weight[1], "def construct", port)
    out = make_small(tmp_path / "forward", *texts, ["x:float32[10,20]"])
    x = torch.rand(10, 20)
    x[0, 0] = 0.125  # to even: 0; the port goes up
    level = verify(out, inputs=(x,)).forward
    assert level.status == "equal" and len(level.kinks) == 2, level


@SLOW
def test_what_takes_too_long_is_not_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch_code = "def __init__(self):\n    super().__init__()\n    self.f = nn.Linear(20, 20)\ndef forward(self, x):\n    return F.relu(x) + 0 * self.f(x)\n"
    port = "def __init__(self):\n    super().__init__()\n    self.f = nn.Dense(20, 20)\ndef construct(self, x):\n    return ops.where(x >= 0, x, ops.zeros_like(x)) + 0 * self.f(x)\n"
    out = make_small(tmp_path, torch_code, port, ["x:float32[10,20]"])
    x = torch.randn(10, 20)
    x[3, 4] = 0.0
    monkeypatch.setattr(ms_port.verify.gradient, "AGAIN", 0.0)
    level = verify(out, level="gradient", inputs=(x,)).gradient
    assert level.status == "not equal" and "it may be a jump" in level.notes[-1], level


@SLOW
def test_what_torch_cant_differentiate_is_not_proven(tmp_path: Path) -> None:
    body = "def __init__(self):\n    super().__init__()\n    self.f = {0}\ndef {1}(self, x):\n    {2}\n    return h\n"
    torch_code = body.format("nn.Linear(6, 6)", "forward", "h = self.f(x).sigmoid()\n    h *= 2")
    port = body.format("nn.Dense(6, 6)", "construct", "h = ops.sigmoid(self.f(x)) * 2")
    verdict = verify(make_small(tmp_path, torch_code, port, ["x:float32[4,6]"]), level="step")
    assert verdict.forward.status == "equal"
    assert verdict.gradient.status == verdict.status == "not proven", verdict
    assert "modified by an inplace operation" in verdict.gradient.not_proven[0]
    assert verdict.step.status == "not run" and verdict.step.notes


@SLOW
def test_a_parameter_out_of_reach_is_not_proven_in_training(tmp_path: Path) -> None:
    unused = NORMED.replace("self.drop =", "self.idle = nn.Linear(2, 2)\n    self.drop =")
    port = PORTED.replace("self.drop =", "self.idle = nn.Dense(2, 2)\n    self.drop =")
    level = verify(make_small(tmp_path, unused, port, INPUT), level="train", steps=3).train
    assert level.status == "not proven" and level.not_proven[0].startswith("idle.bias: no gradient reached it"), level


def cubed(output: Tensor, inputs: dict[str, Any]) -> Tensor:
    return ((output - inputs["x"].sum()) ** 3).mean()


@SLOW
def test_a_loss_of_ones_own(tmp_path: Path) -> None:
    out = make_small(tmp_path / "right", NORMED, PORTED, INPUT)
    verdict = verify(out, level="train", loss=cubed, steps=4)
    assert verdict.gradient.status == verdict.step.status == verdict.train.status == "equal", verdict
    assert list(verdict.train.curves) == ["torch", "port, each step from torch's state"]
    assert json.loads((out / "report" / "certificate.json").read_text())["loss"] == "cubed"
    assert alone(out).returncode == 0
    file = tmp_path / "losses.py"
    file.write_text("def wrong(output):\n    return output.nothing()\n\n\ndef vector(output):\n    return output\n")
    with pytest.raises(BadInput, match="raised AttributeError") as raised:
        verify(out, level="gradient", loss=f"{file}:wrong")
    assert raised.value.where == f"{file}:2"
    with pytest.raises(BadInput, match="gave no scalar"):
        verify(out, level="gradient", loss=f"{file}:vector")


BLOCKS = """
class Block(nn.{module}):
    def __init__(self):
        super().__init__()
        self.fc = nn.{linear}(3, 3)
    def {forward}(self, x):
        return {body}
"""


@SLOW
def test_the_cell_that_crashes_is_found(tmp_path: Path) -> None:
    init = "def __init__(self):\n    super().__init__()\n    self.blocks = nn.{0}([Block() for _ in range(3)])\n"
    call = "def {0}(self, x):\n    for block in self.blocks:\n        x = block(x)\n    return x\n"
    out = make_small(
        tmp_path,
        init.format("ModuleList") + call.format("forward"),
        init.format("CellList") + call.format("construct"),
        ["x:float32[2,3]"],
        before=(
            BLOCKS.format(module="Module", linear="Linear", forward="forward", body="self.fc(x)"),
            BLOCKS.format(module="Cell", linear="Dense", forward="construct", body="self.fc(x) if (z := 3) else x"),
        ),
    )
    level = verify(out).forward
    assert level.status == "crashed" and level.crashed_in == "blocks.0", level


def test_updates_follow_torch_by_element() -> None:
    torch.manual_seed(0)
    start, gradient = torch.randn(50), torch.randn(50)
    gradient[0] = 1e-7  # AdamW's update of it is any, in float32
    for spec in (SGD, ADAMW):
        follower = Follower(start, spec)
        for _ in range(2):
            made = follower.step(start, gradient.double(), gradient, allowed=1e-7)
            right = made.values.astype(np.float32)
            assert compare_update("p", right, made).equal
            for factor in (1.01, 0.99):
                moved = start.numpy() + factor * (right - start.numpy())
                assert not compare_update("p", moved, made).equal
            assert not compare_update("p", right[:49], made).equal
            assert not compare_update("p", np.full_like(right, np.nan), made).equal
            still = right.copy()
            still[0] += 0.5 * spec["learning_rate"]
            assert compare_update("p", still, made).equal == (spec is ADAMW)
            still[0] += 3 * BOUND * spec["learning_rate"]
            assert not compare_update("p", still, made).equal
    assert made.defined.sum() == 49 and not made.defined[0]


def test_an_infinite_gradient_does_not_make_the_others_zero() -> None:
    found = Gradients({"a": torch.tensor([torch.inf, 1.0]), "b": torch.tensor([3.0])}, {"x": torch.tensor([torch.nan])})
    assert found.whole == 3.0 and Gradients({"a": torch.tensor([torch.nan])}).whole == 0.0


def test_only_torchs_own_words_are_not_differentiable() -> None:
    x = torch.ones(3, requires_grad=True)
    y = x.sigmoid()
    y *= 2
    with pytest.raises(NotDifferentiable, match="inplace operation"):
        differentiate(y.sum(), [x])
    with pytest.raises(TypeError):
        differentiate(None, [x])  # type: ignore[arg-type]  # a fault of ours is none of torch's


def test_a_gradient_that_one_precision_lacks_is_an_error() -> None:
    row = SimpleNamespace(torch="a", mindspore="a", rule="same")
    session: Any = SimpleNamespace(port=SimpleNamespace(rows=[row]))
    one = torch.ones(2)
    both = Gradients({"a": one}, {"x": one})
    assert [p[0] for p in pairs(session, both, both)] == ["a", "x"]
    for lacking in (Gradients({}, {"x": one}), Gradients({"a": one})):
        for sides in ((both, lacking), (lacking, both)):
            with pytest.raises(ValueError, match="only one precision"):
                list(pairs(session, *sides))


def test_other_batches_stay_in_range() -> None:
    x, ids, mask = torch.randn(4, 5), torch.randint(0, 9, (4, 6)), torch.ones(4, 6, dtype=torch.int64)
    mask[1, 3:] = 0
    bias = torch.where(mask == 0, -torch.inf, 0.0)
    varied = Inputs((x, [ids]), {"mask": mask, "bias": bias}).varied(1)
    assert not torch.equal(varied.args[0], x) and varied.args[0].dtype == x.dtype
    assert torch.equal(varied.args[1][0].sort()[0], ids.sort()[0]) and not torch.equal(varied.args[1][0], ids)
    assert torch.equal(varied.kwargs["mask"], mask) and torch.equal(varied.kwargs["bias"], bias)


def test_a_desk_hands_arrays_over(tmp_path: Path) -> None:
    one = Desk(tmp_path / "desk")
    one.lay_out({"a": [2, 3], "b": []})
    other = Desk(tmp_path / "desk")
    state = one.arrays("state")
    state["a"][...], state["b"][...] = 7, 3
    one.give("state", 0, loss=1.5)
    assert other.take("state", 0) == {"loss": 1.5}
    assert (other.arrays("state")["a"] == 7).all() and other.arrays("state")["b"] == 3
    assert other.take("state", 1, alive=lambda: False) is None


def test_what_a_loss_may_be() -> None:
    output = torch.ones(3, requires_grad=True)
    assert Loss.of(cubed).value(output, {"x": torch.zeros(1)}).item() == 1.0
    with pytest.raises(BadInput, match="no scalar"):
        Loss.of(lambda out: 3.0).value(output, {})
    with pytest.raises(BadInput, match="is no function"):
        Loss.of(3)  # type: ignore[arg-type]
