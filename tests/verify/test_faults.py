"""Planted faults: every one is seen, the right cell is named, and where it is known the call and the cause."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from faults import DEFAULT, FORWARD, GRADIENT, STEP, UNLOADABLE, Fault
from made import make_optimization, make_port

from ms_port.verify import verify

SLOW = pytest.mark.slow


def right_cause(planted: Fault, cause: str) -> bool:
    return planted.cause in cause if planted.cause else not cause


@pytest.mark.parametrize("fault", [pytest.param(f, marks=() if f in DEFAULT else SLOW) for f in FORWARD])
def test_wrong_results_are_seen_placed_and_explained(fault: str, tmp_path: Path) -> None:
    planted = FORWARD[fault]
    out = make_port(planted.port, tmp_path, planted.edits)
    level = verify(out).forward
    assert level.status == "not equal", level
    assert not level.worst[0].equal
    first = level.first
    assert first is not None and first.path == planted.path, first
    assert first.op.endswith(planted.op), first
    assert right_cause(planted, first.cause), first
    if planted.op:
        assert first.source is not None and first.source.file.startswith(str(out)), first
        assert first.generated is not None and first.generated.file == f"{planted.port}/model.py", first
    assert bool(first.repro) == planted.script, first
    if planted.script:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        run = subprocess.run([sys.executable, out / first.repro], capture_output=True, text=True, env=environment)
        assert run.returncode in (0, 1), run.stderr
        # A statistic after the step, or what a random layer drops, is no output of the op.
        assert run.returncode == 1 or "momentum" in first.cause or first.cause.startswith("drops"), run.stdout


@pytest.mark.slow
@pytest.mark.parametrize("fault", GRADIENT)
def test_wrong_gradients_of_right_results_are_placed(fault: str, tmp_path: Path) -> None:
    planted = GRADIENT[fault]
    out = make_port(planted.port, tmp_path, planted.edits)
    verdict = verify(out, level="gradient")
    assert verdict.forward.status == "equal", verdict.forward
    assert verdict.gradient.status == "not equal"
    first = verdict.gradient.first
    assert first is not None and first.path == planted.path, first
    assert right_cause(planted, first.cause), first
    assert bool(first.repro) == planted.script, first
    if planted.script:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        command = [sys.executable, out / first.repro]
        run = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert run.returncode == 1, run.stdout + run.stderr


@pytest.mark.slow
@pytest.mark.parametrize("fault", STEP)
def test_wrong_updates_by_right_gradients_are_placed(fault: str, tmp_path: Path) -> None:
    planted = STEP[fault]
    out = make_port(planted.port, tmp_path)
    make_optimization(out, planted.edits)
    verdict = verify(out, level="step")
    assert verdict.gradient.status == "equal", verdict.gradient
    assert verdict.step.status == "not equal", verdict.step
    first = verdict.step.first
    assert first is not None and first.path == planted.path, first
    assert first.op.endswith(planted.op) and right_cause(planted, first.cause), first
    assert first.generated is not None and first.generated.file == "optimization.py"


@pytest.mark.slow
@pytest.mark.parametrize("fault", UNLOADABLE)
def test_weights_that_do_not_fit_are_named(fault: str, tmp_path: Path) -> None:
    planted = UNLOADABLE[fault]
    level = verify(make_port(planted.port, tmp_path, planted.edits)).forward
    assert level.status == "crashed"
    assert level.message.startswith("load_weights: ValueError: weights.safetensors does not fit")
    assert planted.path in level.message
    assert level.where.startswith(f"{planted.port}/model.py:")
