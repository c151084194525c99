"""The rows' examples against torch, in GRAPH_MODE: each row's first by default, all when slow tests run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ms_port.opmap import OpMap, op_map_directory
from ms_port.opmap.batch import Outcome, Worker, compare
from ms_port.opmap.examples import rows_of, run_examples

FILES = sorted(op_map_directory().glob("*.yaml"))


@pytest.fixture(scope="module")
def workers() -> Iterator[tuple[Worker, ...]]:
    with Worker() as one, Worker() as other:
        yield one, other


@pytest.fixture(scope="module")
def firsts(op_map: OpMap, workers: tuple[Worker, ...]) -> dict[str, Outcome]:
    """Outcomes of the first example of every row, run in few graphs."""
    outcomes = run_examples(op_map, rows_of(op_map), workers, first=True)
    return {outcome.name.partition("[")[0]: outcome for outcome in outcomes}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_first_examples(op_map: OpMap, firsts: dict[str, Outcome], file: Path) -> None:
    faults = {
        row.api: firsts[row.api].faults for row in rows_of(op_map, [file]) if row.examples and firsts[row.api].faults
    }
    assert not faults


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_all_examples(op_map: OpMap, workers: tuple[Worker, ...], file: Path) -> None:
    outcomes = run_examples(op_map, rows_of(op_map, [file]), workers)
    assert not {outcome.name: outcome.faults for outcome in outcomes if outcome.faults}


WRONG = """
own.relu:
  signature: input
  function: ops.relu
  examples: [{torch: own.relu(x), mindspore: ops.relu(x)}]
torch.nn.functional.relu6:
  signature: input, inplace=False
  function: ops.relu
  args: {input: input}
  examples: [{torch: F.relu6(x), mindspore: ops.relu(x), inputs: {x: "float32[9]:5:9"}}]
torch.tanh:
  signature: input
  expression: "ops.stop_gradient(ops.tanh({{ input }}))"
  examples: [{torch: torch.tanh(x), mindspore: ops.stop_gradient(ops.tanh(x))}]
torch.abs:
  signature: input
  function: ops.abs
  examples: [{torch: torch.abs(x), mindspore: ops.abs(y)}]
torch.nn.BatchNorm2d:
  signature: num_features, eps=1e-5, momentum=0.1
  cell: nn.BatchNorm2d
  args: {num_features: num_features, momentum: {value: momentum, default: 0.9}}
  weights: {weight: gamma, bias: beta, running_mean: moving_mean, running_var: moving_variance, num_batches_tracked: drop}
  examples: [{torch: "nn.BatchNorm2d(3, momentum=0.2)", mindspore: "nn.BatchNorm2d(3, momentum=0.2)", train: true, inputs: {x: "float32[2,3,4,4]"}}]
torch.sin:
  signature: input
  expression: "ops.no_such_op({{ input }})"
  examples: [{torch: torch.sin(x), mindspore: ops.no_such_op(x)}]
"""


def test_wrong_rows_are_found_and_named(tmp_path: Path, workers: tuple[Worker, ...]) -> None:
    """A wrong text, value, statistic, a lost gradient, a failing op: each by name, none spoils the others."""
    (tmp_path / "wrong.yaml").write_text(WRONG)
    op_map = OpMap.load([tmp_path])
    outcomes = run_examples(op_map, rows_of(op_map, [tmp_path / "wrong.yaml"]), workers)
    faults = {outcome.name.partition("[")[0]: " ".join(outcome.faults) for outcome in outcomes}
    assert "expected ops.relu(x)" in faults["own.relu"]
    assert "output: error" in faults["torch.nn.functional.relu6"]
    assert faults["torch.tanh"].startswith("gradient of x")
    assert "expected ops.abs(y)" in faults["torch.abs"]
    assert "moving_mean" in faults["torch.nn.BatchNorm2d"]
    assert "no_such_op" in faults["torch.sin"]


def test_tolerance() -> None:
    import numpy as np

    truth = np.array([1.0, 2.0])
    single = truth.astype(np.float32)
    assert not compare("y", truth, single, single + np.float32(3e-6), "values")
    assert compare("y", truth, single, single + np.float32(6e-6), "values")
    assert compare("y", truth, single, single[:1], "values")
    assert compare("y", truth, single, np.array([np.nan, 2], np.float32), "values")
