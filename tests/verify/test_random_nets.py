"""Networks made by Hypothesis, some with a fault: the verdict agrees with a plain comparison of the outputs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from made import make_model, make_small

from ms_port.inputs import example_tensors, parse_spec
from ms_port.verify import verify

LAYERS = {
    # torch's layer and line, the port's, and the port's line with a fault
    "linear": ("nn.Linear(6, 6)", "x = self.{n}(x)", "nn.Dense(6, 6)", "x = self.{n}(x)", "x = self.{n}(x * 1.01)"),
    "norm": (
        "nn.LayerNorm(6)",
        "x = self.{n}(x)",
        "nn.LayerNorm((6,), epsilon=1e-5)",
        "x = self.{n}(x)",
        "x = self.{n}(x) - x.mean(axis=0) * 0.01",
    ),
    "gelu": ("", "x = F.gelu(x)", "", 'x = ops.gelu(x, approximate="none")', 'x = ops.gelu(x, approximate="tanh")'),
    "relu": ("", "x = F.relu(x - 0.1)", "", "x = ops.relu(x - 0.1)", "x = ops.relu(x)"),
    "softmax": ("", "x = x.softmax(-1)", "", "x = ops.softmax(x, axis=-1)", "x = ops.softmax(x, axis=0)"),
    "residual": ("", "x = x + torch.sigmoid(x)", "", "x = x + ops.sigmoid(x)", "x = x - ops.sigmoid(x)"),
    "centre": ("", "x = x - x.mean(-1, True)", "", "x = x - x.mean(-1, True)", "x = x - x.mean(0, True)"),
    "turn": (
        "",
        "x = torch.cat((x[:, 2:], x[:, :2]), -1)",
        "",
        "x = ops.cat((x[:, 2:], x[:, :2]), -1)",
        "x = ops.cat((x[:, :2], x[:, 2:]), -1)",
    ),
}
NET = "def __init__(self):\n    super().__init__()\n{made}    self.last = {last}\ndef {name}(self, x):\n{lines}    return self.last(x)\n"
RUN = """
import sys, numpy as np, mindspore as ms
ms.set_context(mode=ms.GRAPH_MODE)
from small import build_model, load_weights
cell = build_model()
load_weights(cell, "weights.safetensors")
cell.set_train(False)
np.save("plain.npy", cell(ms.Tensor(np.load("x.npy"))).asnumpy())
"""


def sources(kinds: list[str], fault: int | None) -> tuple[str, str]:
    """The bodies of the torch class and of the port's, with a fault in the layer of that number."""
    texts = []
    for side in (0, 2):
        rows = [LAYERS[kind] for kind in kinds]
        made = "".join(f"    self.f{i} = {row[side]}\n" for i, row in enumerate(rows) if row[side])
        lines = [row[4 if side and i == fault else side + 1].format(n=f"f{i}") for i, row in enumerate(rows)]
        last = "nn.Dense(6, 6)" if side else "nn.Linear(6, 6)"
        name = "construct" if side else "forward"
        texts.append(NET.format(made=made, last=last, name=name, lines="".join(f"    {line}\n" for line in lines)))
    return texts[0], texts[1]


def plain_difference(out: Path) -> float:
    """The largest difference of the outputs from torch in float64, relative to the largest output; weights as stored."""
    spec = {"target": "small_source.py:Net", "arguments": {}}
    torch.manual_seed(0)
    model = make_model(spec, out)
    from safetensors.torch import load_file

    stored = load_file(out / "weights.safetensors")
    renamed = {k.replace("gamma", "weight").replace("beta", "bias"): v for k, v in stored.items()}
    model.load_state_dict(renamed)
    x = example_tensors([parse_spec("x:float32[4,6]")], 3)["x"]
    np.save(out / "x.npy", x.numpy())
    environment = {**os.environ, "PYTHONPATH": str(out), "GLOG_v": "3"}
    run = subprocess.run([sys.executable, "-c", RUN], cwd=out, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    want = model.double().eval()(x.double()).detach().numpy()
    got = np.load(out / "plain.npy")
    largest, size = 0.0, 0.0
    for row in range(want.shape[0]):
        for column in range(want.shape[1]):
            largest = max(largest, abs(float(got[row, column]) - float(want[row, column])))
            size = max(size, abs(float(want[row, column])))
    return largest / size


@pytest.mark.slow
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=4), st.integers(-4, 3))
def test_the_verdict_is_that_of_a_plain_comparison(kinds: list[str], fault: int) -> None:
    planted = fault if 0 <= fault < len(kinds) else None
    with tempfile.TemporaryDirectory() as folder:
        out = make_small(Path(folder), *sources(kinds, planted), ["x:float32[4,6]"])
        verdict = verify(out, level="gradient")
        difference = plain_difference(out)
    if difference > 1e-4:
        assert verdict.forward.status == "not equal", (kinds, planted, difference, verdict)
    elif difference < 2e-6:
        # The plain comparison has no noise on its weights, so it may miss a fault that verification sees.
        assert planted is not None or verdict.status == "equal", (kinds, difference, verdict)
