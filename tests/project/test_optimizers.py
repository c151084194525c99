"""The steps that train.py takes are torch's: optimizers, schedules, groups, clipping, accumulation, averaged weights."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch import nn
from torch.optim import lr_scheduler

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
start, ends = np.load("start.npz"), {}
base = train.read_config(train.HERE / "config.yaml")
for number, given in enumerate(json.loads(sys.argv[1])):
    options = argparse.Namespace(**base | {"weights": ""} | given)
    run = train.Run(options, train.set_up(options))
    for name, parameter in run.cell.parameters_dict().items():
        parameter.set_data(ms.Tensor(start[name]))
    if run.average:
        run.average = train.AveragedWeights(run.cell, options.ema_decay)
    losses, rates = [], []
    for step in range(options.steps):
        batches = [
            (ms.Tensor(start["x"][k]), ms.Tensor(start["y"][k].astype(np.int32)))
            for k in range(step * options.accumulate, (step + 1) * options.accumulate)
        ]
        rates.append(run.schedule.set_rate(step))
        losses.append(run.train_step(batches))
        run.schedule.observe(step, losses[-1])
        if run.average:
            run.average.update()
    weights = {n: p.asnumpy() for n, p in run.cell.parameters_dict().items()}
    averages = {"average." + n: p.asnumpy() for n, p in run.average.named().items()} if run.average else {}
    ends |= {f"{number}:{n}": v for n, v in (weights | averages | {"losses": losses, "rates": rates}).items()}
np.savez("end.npz", **ends)
"""
NAMES = {"norm.weight": "norm.gamma", "norm.bias": "norm.beta"}
STEPS = 12


class Case:
    """Options of config.yaml, and torch's own objects of the same meaning."""

    def __init__(self, make: Any, scheduler: Any = None, *, clip: Any = None, **options: Any) -> None:
        self.options = {"steps": STEPS, "learning_rate": 0.05, "weight_decay": 0.0, **options}
        self.optimizer, self.schedule, self.clip = make, scheduler, clip


def sgd(**options: Any) -> Any:
    return lambda groups: torch.optim.SGD(groups, lr=0.05, **options)


def warm_cosine(optimizer: torch.optim.Optimizer) -> lr_scheduler.LRScheduler:
    warm = lr_scheduler.LinearLR(optimizer, start_factor=0.01, total_iters=4)
    down = lr_scheduler.CosineAnnealingLR(optimizer, T_max=8, eta_min=0.001)
    return lr_scheduler.SequentialLR(optimizer, [warm, down], [4])


CASES = {
    "sgd": Case(
        sgd(momentum=0.9, weight_decay=0.01, nesterov=True), optimizer="sgd", weight_decay=0.01, nesterov=True
    ),
    "sgd, dampening, multistep": Case(
        sgd(momentum=0.8, dampening=0.2),
        lambda o: lr_scheduler.MultiStepLR(o, [3, 5], gamma=0.5),
        optimizer="sgd", momentum=0.8, dampening=0.2, schedule="multistep", milestones=[3, 5], gamma=0.5,
    ),
    "adam, L2, norm clipped": Case(
        lambda g: torch.optim.Adam(g, lr=0.05, weight_decay=0.1, eps=1e-3, betas=(0.8, 0.95)),
        clip=lambda p: nn.utils.clip_grad_norm_(p, 0.3),
        optimizer="adam", weight_decay=0.1, eps=1e-3, beta1=0.8, beta2=0.95, clip_norm=0.3,
    ),
    "adamw, groups, warm cosine": Case(
        lambda g: torch.optim.AdamW(g, lr=0.05, weight_decay=0.1),
        warm_cosine,
        optimizer="adamw", weight_decay=0.1, decay_norm_and_bias=False,
        schedule="cosine", warmup_steps=4, minimum_rate=0.001,
    ),
    "rmsprop, step": Case(
        lambda g: torch.optim.RMSprop(g, lr=0.05, momentum=0.5, alpha=0.9),
        lambda o: lr_scheduler.StepLR(o, 2, gamma=0.3),
        optimizer="rmsprop", momentum=0.5, alpha=0.9, schedule="step", step_size=2, gamma=0.3,
    ),
    "adagrad, value clipped": Case(
        lambda g: torch.optim.Adagrad(g, lr=0.05, weight_decay=0.01, eps=1e-10),
        clip=lambda p: nn.utils.clip_grad_value_(p, 0.02),
        optimizer="adagrad", weight_decay=0.01, eps=1e-10, clip_value=0.02,
    ),
    "one cycle": Case(
        sgd(),
        lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.05, total_steps=STEPS, cycle_momentum=False),
        optimizer="sgd", momentum=0.0, schedule="onecycle",
    ),
    "plateau": Case(
        sgd(),
        lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=0.5, patience=1),
        optimizer="sgd", momentum=0.0, schedule="plateau", gamma=0.5, patience=1, learning_rate=0.05,
    ),
    "adamw, amsgrad, eps, exponential": Case(
        lambda g: torch.optim.AdamW(g, lr=0.05, weight_decay=0.02, amsgrad=True, eps=1e-4, betas=(0.7, 0.9)),
        lambda o: lr_scheduler.ExponentialLR(o, 0.9),
        optimizer="adamw", weight_decay=0.02, amsgrad=True, eps=1e-4, beta1=0.7, beta2=0.9,
        schedule="exponential", gamma=0.9,
    ),
    "adam, amsgrad, linear": Case(
        lambda g: torch.optim.Adam(g, lr=0.05, amsgrad=True, betas=(0.5, 0.8)),
        lambda o: lr_scheduler.LinearLR(o, 1.0, 0.1, total_iters=STEPS),
        optimizer="adam", amsgrad=True, beta1=0.5, beta2=0.8, schedule="linear", minimum_rate=0.005,
    ),
    "rmsprop, centred, decay, polynomial": Case(
        lambda g: torch.optim.RMSprop(g, lr=0.05, centered=True, momentum=0.3, alpha=0.8, eps=1e-3, weight_decay=0.05),
        lambda o: lr_scheduler.PolynomialLR(o, total_iters=STEPS, power=2.0),
        optimizer="rmsprop", centered=True, momentum=0.3, alpha=0.8, eps=1e-3, weight_decay=0.05,
        schedule="polynomial", power=2.0,
    ),
    "sgd, decay and dampening, one cycle of its own": Case(
        sgd(momentum=0.5, dampening=0.1, weight_decay=0.1),
        lambda o: lr_scheduler.OneCycleLR(
            o, max_lr=0.05, total_steps=STEPS, cycle_momentum=False, pct_start=0.5, div_factor=5, final_div_factor=20
        ),
        optimizer="sgd", momentum=0.5, dampening=0.1, weight_decay=0.1,
        schedule="onecycle", onecycle_rise=0.5, onecycle_start=5.0, onecycle_end=20.0,
    ),
    "adamw, groups, step every 3 steps, clipped both ways": Case(
        lambda g: torch.optim.AdamW(g, lr=0.05, weight_decay=0.3, betas=(0.6, 0.99)),
        lambda o: lr_scheduler.LambdaLR(o, lambda step: 0.5 ** (step // 3 // 2)),
        clip=lambda p: (nn.utils.clip_grad_value_(p, 0.05), nn.utils.clip_grad_norm_(p, 0.1)),
        optimizer="adamw", weight_decay=0.3, beta1=0.6, beta2=0.99, decay_norm_and_bias=False,
        schedule="step", schedule_every=3, step_size=2, gamma=0.5, clip_value=0.05, clip_norm=0.1,
    ),
    "accumulated, averaged": Case(
        sgd(momentum=0.9), optimizer="sgd", accumulate=2, ema_decay=0.8, steps=6, label_smoothing=0.1
    ),
}  # fmt: skip
FEW = ("sgd, dampening, multistep", "adam, L2, norm clipped", "adamw, groups, warm cosine", "accumulated, averaged")


def network() -> nn.ModuleDict:
    torch.manual_seed(0)
    net = nn.ModuleDict({"first": nn.Linear(6, 8), "norm": nn.LayerNorm(8), "head": nn.Linear(8, 3)})
    return net.double()


def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2 * STEPS, 5, 6, generator=generator)
    return x, torch.randint(0, 3, (2 * STEPS, 5), generator=generator)


def torch_run(case: Case) -> dict[str, Any]:
    """Losses, learning rates and end weights of torch's own loop, in float64."""
    net, (x, y), options = network(), data(), case.options
    parameters = list(net.parameters())
    groups: list[Any] = [{"params": parameters}]
    if not options.get("decay_norm_and_bias", True):
        plain = [p for p in parameters if p.ndim <= 1]
        groups = [{"params": [p for p in parameters if p.ndim > 1]}, {"params": plain, "weight_decay": 0.0}]
    optimizer = case.optimizer(groups)
    schedule = case.schedule(optimizer) if case.schedule else None
    count, losses, rates = options.get("accumulate", 1), [], []
    decay, average = options.get("ema_decay"), {n: p.detach().clone() for n, p in net.named_parameters()}
    for step in range(options["steps"]):
        optimizer.zero_grad()
        total = 0.0
        for k in range(step * count, (step + 1) * count):
            output = net["head"](net["norm"](net["first"](x[k].double())))
            loss = nn.functional.cross_entropy(output, y[k], label_smoothing=options.get("label_smoothing", 0.0))
            (loss / count).backward()
            total += loss.item() / count
        if case.clip:
            case.clip(parameters)
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        losses.append(total)
        if isinstance(schedule, lr_scheduler.ReduceLROnPlateau):
            schedule.step(total)
        elif schedule:
            schedule.step()
        if decay:
            average = {n: decay * average[n] + (1 - decay) * p.detach() for n, p in net.named_parameters()}
    found = {NAMES.get(n, n): p.detach().numpy() for n, p in net.named_parameters()}
    if decay:
        found |= {"average." + NAMES.get(n, n): p.numpy() for n, p in average.items()}
    return {**found, "losses": losses, "rates": rates}


def port_runs(folder: Path, cases: list[Case]) -> Any:
    """The same by the generated training files, all cases in one process."""
    x, y = data()
    start = {NAMES.get(n, n): p.detach().float().numpy() for n, p in network().named_parameters()}
    np.savez(folder / "start.npz", x=x.numpy(), y=y.numpy(), **start)
    (folder / "net").mkdir()
    (folder / "net/__init__.py").write_text(PACKAGE)
    (folder / "port.json").write_text(json.dumps({"package": "net", "inputs": []}))
    inputs = [TrainInput("x", "float32", (5, 6))]
    plan = plan_training(TensorValue((5, 3), "float32"), inputs)
    write_training_files(folder, package="net", model="net", banner="", inputs=inputs, plan=plan)
    (folder / "run.py").write_text(RUN)
    environment = {**os.environ, "GLOG_v": "3", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    options = json.dumps([case.options for case in cases])
    subprocess.run([sys.executable, "run.py", options], cwd=folder, env=environment, check=True, timeout=500)
    return np.load(folder / "end.npz")


def compare(folder: Path, names: list[str]) -> None:
    ends = port_runs(folder, [CASES[name] for name in names])
    for number, name in enumerate(names):
        for key, wanted in torch_run(CASES[name]).items():
            tolerance = {"rtol": 2e-4, "atol": 5e-6} if key not in ("losses", "rates") else {"rtol": 1e-5}
            np.testing.assert_allclose(ends[f"{number}:{key}"], wanted, err_msg=f"{name}: {key}", **tolerance)


def test_steps_equal_torch(tmp_path: Path) -> None:
    compare(tmp_path, list(FEW))


@pytest.mark.slow
def test_other_steps_equal_torch(tmp_path: Path) -> None:
    compare(tmp_path, [name for name in CASES if name not in FEW])


def test_a_wrong_weight_decay_would_show() -> None:
    """The comparison's own proof: what differs in one option differs by far more than the tolerance."""
    right, wrong = CASES["sgd"], Case(sgd(momentum=0.9, nesterov=True), optimizer="sgd")
    one, two = torch_run(right), torch_run(wrong)
    assert max(abs(one[k] - two[k]).max() for k in ("first.weight", "head.weight")) > 1e-3
    assert not math.isclose(one["losses"][-1], two["losses"][-1], rel_tol=1e-4)


def test_lamb_follows_its_paper(tmp_path: Path) -> None:
    """LAMB is not in torch: the formula written out in numpy."""
    case = Case(None, optimizer="lamb", weight_decay=0.1, steps=4)
    ends = port_runs(tmp_path, [case])
    net, (x, y) = network(), data()
    state = {n: (0.0, 0.0) for n, _ in net.named_parameters()}
    for step in range(1, 5):
        net.zero_grad()
        output = net["head"](net["norm"](net["first"](x[step - 1].double())))
        nn.functional.cross_entropy(output, y[step - 1]).backward()
        for name, p in net.named_parameters():
            w, g = p.detach().numpy(), p.grad.numpy()
            m, v = 0.9 * state[name][0] + 0.1 * g, 0.999 * state[name][1] + 0.001 * g * g
            state[name] = (m, v)
            r = m / (1 - 0.9**step) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8) + 0.1 * w
            norms = np.linalg.norm(w), np.linalg.norm(r)
            trust = norms[0] / norms[1] if norms[0] > 0 and norms[1] > 0 else 1.0
            p.data -= torch.from_numpy(np.asarray(0.05 * trust * r))
    for name, p in net.named_parameters():
        key = f"0:{NAMES.get(name, name)}"
        np.testing.assert_allclose(ends[key], p.detach().numpy(), rtol=2e-4, atol=5e-6, err_msg=name)


def test_config_is_yaml(tmp_path: Path) -> None:
    """Our own reader of config.yaml and YAML's agree, so that an editor's YAML support helps."""
    port_folder = tmp_path
    inputs = [TrainInput("x", "float32", (5, 6))]
    plan = plan_training(TensorValue((5, 3), "float32"), inputs)
    write_training_files(port_folder, package="net", model="net", banner="", inputs=inputs, plan=plan)
    found = yaml.safe_load((port_folder / "config.yaml").read_text())
    assert found["milestones"] == [30, 60, 90] and found["optimizer"] == "adamw" and found["compile_cache"] == ""
