"""The schedules that scripts get set torch's learning rates, step by step."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ms_port.opmap import op_map_directory

FILE: Path = op_map_directory() / "script" / "functions" / "schedules.py"
OURS: dict[str, Any] = {}
exec(compile(FILE.read_text(), str(FILE), "exec"), OURS)
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "StepLR": ("StepLR", {"step_size": 3, "gamma": 0.5}),
    "MultiStepLR": ("MultiStepLR", {"milestones": [2, 5, 5], "gamma": 0.1}),
    "ExponentialLR": ("ExponentialLR", {"gamma": 0.9}),
    "CosineAnnealingLR": ("CosineAnnealingLR", {"T_max": 4, "eta_min": 0.01}),
    "CosineAnnealingWarmRestarts": ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2}),
    "LambdaLR": ("LambdaLR", {"lr_lambda": lambda step: 0.95**step}),
    "MultiplicativeLR": ("MultiplicativeLR", {"lr_lambda": lambda step: 0.95}),
    "LinearLR": ("LinearLR", {"start_factor": 0.25, "total_iters": 5}),
    "ConstantLR": ("ConstantLR", {"factor": 0.5, "total_iters": 4}),
    "PolynomialLR": ("PolynomialLR", {"total_iters": 6, "power": 2.0}),
    "OneCycleLR": ("OneCycleLR", {"max_lr": 0.4, "total_steps": 13}),
    "OneCycleLR linear, three phases": ("OneCycleLR", {"max_lr": 0.4, "epochs": 13, "steps_per_epoch": 1, "anneal_strategy": "linear", "three_phase": True}),
    "CyclicLR": ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "mode": "triangular2"}),
}  # fmt: skip


def both() -> tuple[torch.optim.Optimizer, Any]:
    p = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    real = torch.optim.SGD([{"params": [p[0]]}, {"params": [p[1]], "lr": 0.02}], lr=0.1, momentum=0.9)
    return real, SimpleNamespace(param_groups=[{"lr": g["lr"], "momentum": 0.9} for g in real.param_groups])


def compare(
    real: Any, ours: Any, optimizers: tuple[Any, Any], steps: int = 12, metrics: list[float] | None = None
) -> None:
    for step in range(steps):
        for one, other in zip(optimizers[0].param_groups, optimizers[1].param_groups, strict=True):
            assert other["lr"] == pytest.approx(one["lr"], rel=1e-12)
            assert other["momentum"] == pytest.approx(one["momentum"], rel=1e-12)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizers[0].step()
            for schedule in (real, ours):
                schedule.step(*([metrics[step]] if metrics else []))
        assert ours.get_last_lr() == pytest.approx(real.get_last_lr(), rel=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_schedule(name: str) -> None:
    kind, options = CASES[name]
    optimizers = both()
    compare(
        getattr(torch.optim.lr_scheduler, kind)(optimizers[0], **options),
        OURS[kind](optimizers[1], **options),
        optimizers,
    )


def test_plateau() -> None:
    optimizers = both()
    options = {"mode": "max", "patience": 1, "factor": 0.5, "cooldown": 1}
    metrics = [0.1, 0.2, 0.2, 0.2, 0.2, 0.1, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3]
    real = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizers[0], **options)
    compare(real, OURS["ReduceLROnPlateau"](optimizers[1], **options), optimizers, 12, metrics)


def test_sequence_and_chain() -> None:
    for build in (
        lambda m, o: m["SequentialLR"](
            o, [m["ConstantLR"](o, factor=0.5, total_iters=2), m["ExponentialLR"](o, gamma=0.9)], milestones=[3]
        ),
        lambda m, o: m["ChainedScheduler"](
            [m["ConstantLR"](o, factor=0.5, total_iters=2), m["ExponentialLR"](o, gamma=0.9)]
        ),
    ):
        optimizers = both()
        compare(build(vars(torch.optim.lr_scheduler), optimizers[0]), build(OURS, optimizers[1]), optimizers)


def test_state_comes_back() -> None:
    optimizers = both()
    ours = OURS["StepLR"](optimizers[1], step_size=2)
    for _ in range(3):
        ours.step()
    again = OURS["StepLR"](both()[1], step_size=2)
    again.load_state_dict(ours.state_dict())
    assert again.last_epoch == 3
