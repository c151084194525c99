"""What needs MindSpore itself: the linter, initial distributions, parameter containers. Each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

from ms_port.opmap import OpMap
from ms_port.opmap.batch import HEADER, same_distribution
from ms_port.opmap.translate import Translator, namespace

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "GLOG_v": "4", "ONEDNN_MAX_CPU_ISA": "AVX2", "PYTHONPATH": str(ROOT)}


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", *arguments], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True
    )


def test_lint_finds_nothing(tmp_path: Path) -> None:
    done = run("-m", "ms_port.opmap.lint", cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_lint_finds_what_is_wrong(tmp_path: Path) -> None:
    script = tmp_path / "lint_own.py"
    (tmp_path / "own.yaml").write_text(
        """
torch.softmax: {signature: "input, dim, dtype=None", function: ops.softmaxx, untested: no}
torch.nn.GELU: {signature: "approximate='none'", cell: nn.GELU, args: {approx: approximate}, untested: no}
torch.nn.ELU: {signature: "alpha=2.0, inplace=False", cell: nn.ELU, args: {alpha: {value: alpha, default: 2.0}}, untested: no}
torch.nn.LayerNorm: {signature: "normalized_shape, eps=1e-5", cell: nn.LayerNorm, args: {normalized_shape: normalized_shape, epsilon: eps}}
"""
    )
    script.write_text(
        f"from pathlib import Path\nfrom ms_port.opmap import OpMap\nfrom ms_port.opmap.lint import lint\n"
        f"p = Path({str(tmp_path)!r})\nfor f in lint(OpMap.load([p]), [p / 'own.yaml']): print(f.api, f.message)\n"
    )
    found = run(str(script), cwd=tmp_path).stdout
    assert "torch.softmax ops.softmaxx exists neither" in found
    assert "torch.nn.GELU no argument 'approx'" in found
    assert "torch.nn.ELU default of 'alpha' is 1.0, not 2.0" in found
    assert "torch.nn.ELU torch's default of 'alpha' is 1.0" in found
    assert "torch.nn.LayerNorm 'epsilon' would stand at position 2" in found
    assert "torch.nn.LayerNorm signature lacks elementwise_affine" in found
    assert "torch.nn.LayerNorm no examples" in found


BUILT = [
    "nn.Linear(64, 128)", "nn.Bilinear(16, 16, 32)", "nn.Conv1d(32, 64, 3)", "nn.Conv2d(32, 64, 3, padding=1)", "nn.Conv2d(16, 64, 3, padding_mode='reflect')",
    "nn.Conv3d(8, 32, 3)", "nn.ConvTranspose1d(32, 64, 3)", "nn.ConvTranspose2d(32, 64, 3)", "nn.ConvTranspose2d(32, 64, 3, 2, 1, 1)",
    "nn.ConvTranspose3d(8, 32, 3)", "nn.Embedding(64, 64)", "nn.Embedding(64, 64, padding_idx=3)", "nn.EmbeddingBag(64, 64)",
    "nn.LSTM(32, 32)", "nn.GRU(32, 32)", "nn.RNN(32, 32)", "nn.LSTMCell(32, 32)", "nn.GRUCell(32, 32)", "nn.MultiheadAttention(32, 4)",
    "nn.MultiheadAttention(32, 4, kdim=16, vdim=16)", "nn.TransformerEncoderLayer(32, 4, 64)", "nn.Transformer(32, 4, 1, 1, 64)",
    "nn.BatchNorm2d(8)", "nn.LayerNorm(8)", "nn.PReLU(8)", "nn.GroupNorm(2, 8)",
]  # fmt: skip


def test_fresh_layers_are_distributed_as_in_torch(op_map: OpMap, tmp_path: Path) -> None:
    lowerings, lines = [], []
    for index, source in enumerate(BUILT):
        translator = Translator(op_map, namespace())
        import ast

        lines.append(f"cells[{index}] = {ast.unparse(translator.translate(source))}")
        lowerings += translator.lowerings
    functions = op_map.function_sources(frozenset().union(*(part.functions for part in lowerings)))
    future = "from __future__ import annotations\n"
    body = "\n".join(
        [future + HEADER + functions.removeprefix(future), "cells = {}", *lines,
         "arrays = {f'{i}/{p.name}': p.init_data().asnumpy() for i, c in cells.items() for p in c.get_parameters()}",
         "np.savez('arrays.npz', **arrays)"]
    )  # fmt: skip
    (tmp_path / "fresh.py").write_text(body)
    done = run("fresh.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    arrays = np.load(tmp_path / "arrays.npz")
    torch.manual_seed(0)
    wrong = []
    for index, source in enumerate(BUILT):
        made = eval(source, namespace())
        row = op_map.row(f"torch.nn.{type(made).__name__}")
        assert row is not None
        for name, tensor in made.named_parameters():
            mine = arrays[f"{index}/{row.weight(name).mindspore}"].ravel()
            theirs = tensor.detach().numpy().ravel()
            if not same_distribution(theirs, mine) or (
                np.ptp(mine) > 1.3 * np.ptp(theirs) + 1e-6 and theirs.size > 500
            ):
                wrong.append(f"{source} {name}")
    assert not wrong
    assert not arrays["11/embedding_table"][3].any()


FRESH = """
cell = WeightNormConv1d(8, 64, 3)
np.savez("arrays.npz", **{p.name: p.asnumpy() for p in cell.get_parameters()})
"""


def test_weight_normed_layers_start_as_in_torch(op_map: OpMap, tmp_path: Path) -> None:
    source = op_map.function_sources(["WeightNormConv1d"])
    future = "from __future__ import annotations\n"
    (tmp_path / "fresh.py").write_text(future + HEADER + source.removeprefix(future) + FRESH)
    done = run("fresh.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    arrays = np.load(tmp_path / "arrays.npz")
    torch.manual_seed(0)
    made = nn.utils.parametrizations.weight_norm(nn.Conv1d(8, 64, 3))
    lengths, directions = (p.detach().numpy() for p in made.parametrizations.weight.parameters())
    for name, theirs in (("weight_g", lengths), ("weight_v", directions), ("bias", made.bias.detach().numpy())):
        assert arrays[name].shape == theirs.shape and same_distribution(theirs.ravel(), arrays[name].ravel()), name
    norms = np.sqrt((arrays["weight_v"] ** 2).sum((1, 2), keepdims=True))
    np.testing.assert_allclose(arrays["weight_g"], norms, rtol=1e-5)  # so that the weight is the direction itself


CONTAINERS = """
class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.many = ParameterList([Parameter(Tensor(np.full(2, i, np.float32))) for i in range(3)])
        self.inner = nn.CellList([ParameterDict({"a": Parameter(Tensor(np.ones(2, np.float32)))})])

    def construct(self, x):
        y = x * self.many.values[1] * self.inner[0].values["a"]
        for part in self.many.values:
            y = y + part
        return y.sum()


net = Net()
ms.set_context(mode=ms.GRAPH_MODE)
value, gradients = ms.value_and_grad(net, None, net.trainable_params())(Tensor(np.array([2.0, 3.0], np.float32)))
import json
print(json.dumps({p.name: g.asnumpy().tolist() for p, g in zip(net.trainable_params(), gradients)}))
"""


def test_parameter_containers_have_gradients(op_map: OpMap, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(HEADER + op_map.function_sources(["ParameterList", "ParameterDict"]) + CONTAINERS)
    done = run("net.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout.splitlines()[-1])
    assert got == {"many.0": [1, 1], "many.1": [3, 4], "many.2": [1, 1], "inner.0.a": [2, 3]}


def test_lstm_is_imported_lazily() -> None:
    """The op map itself needs neither torch nor mindspore."""
    code = "import sys, ms_port.opmap as o; o.OpMap.load(); print('torch' in sys.modules, 'mindspore' in sys.modules)"
    assert run("-c", code, cwd=ROOT).stdout.split() == ["False", "False"]
    assert isinstance(nn.LSTM(1, 1), nn.Module)
