"""The losses of losses.py are torch's, value and gradient; pictures are mixed as torchvision mixes them; text is padded."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from ms_port.ir.values import TensorValue
from ms_port.project import TrainInput, plan_training, write_training_files

RUN = """
import argparse, sys
import mindspore as ms, numpy as np
import losses
ms.set_context(mode=ms.GRAPH_MODE)
found, results = np.load("given.npz"), {}
for name in sorted({key.partition(":")[0] for key in found.files}):
    kind, smoothing = name.split("|")[1:3]
    options = argparse.Namespace(loss=kind, label_smoothing=float(smoothing))
    target = found[name + ":target"]
    target = ms.Tensor(target, ms.int32 if target.dtype.kind == "i" else ms.float32)
    def forward(x):
        return losses.compute_loss(x, target, options)
    value, gradient = ms.jit(ms.value_and_grad(forward))(ms.Tensor(found[name + ":x"]))
    results[name + ":value"], results[name + ":gradient"] = value.asnumpy(), gradient.asnumpy()
np.savez("results.npz", **results)
"""


def training_files(folder: Path, inputs: list[TrainInput], output: tuple[int, ...]) -> Path:
    (folder / "net").mkdir(parents=True)
    (folder / "net/__init__.py").write_text("def build_model(): ...\ndef load_weights(cell, path): ...\n")
    rows = [{"name": i.name, "dtype": i.dtype, "shape": i.shape, "range": i.limit} for i in inputs]
    (folder / "port.json").write_text(json.dumps({"package": "net", "inputs": rows}))
    plan = plan_training(TensorValue(output, "float32"), inputs)
    write_training_files(folder, package="net", model="net", banner="", inputs=inputs, plan=plan)
    return folder


def python(folder: Path, code: str, *arguments: str) -> str:
    environment = {**os.environ, "GLOG_v": "3", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def picture_losses() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """By name, kind and smoothing: what the model returns, and the target."""
    torch.manual_seed(0)
    x, dense = torch.randn(6, 5), torch.randn(2, 3, 4, 4)
    index = torch.tensor([0, 4, -100, 2, 2, -100])
    return {
        "a|cross_entropy|0.0": (x, index),
        "b|cross_entropy|0.1": (x, index),
        "c|cross_entropy|0.0": (x, torch.rand(6, 5).softmax(1)),
        "d|cross_entropy|0.2": (x, torch.rand(6, 5).softmax(1)),
        "e|binary_cross_entropy|0.0": (x, torch.randint(0, 2, (6, 5)).float()),
        "f|mse|0.0": (dense, torch.randn(2, 3, 4, 4)),
        "g|l1|0.0": (dense, torch.randn(2, 3, 4, 4)),
        "h|smooth_l1|0.0": (2 * dense, torch.randn(2, 3, 4, 4)),
    }


def dense_losses() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(1)
    x, index = torch.randn(2, 3, 4, 5), torch.randint(0, 3, (2, 4, 5))
    index[0, 1] = -100
    return {
        "a|cross_entropy|0.0": (x, index),
        "b|cross_entropy|0.1": (x, index),
        "c|cross_entropy|0.1": (x, torch.rand(2, 3, 4, 5).softmax(1)),
    }


def wanted(kind: str, smoothing: float, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """torch's loss, in float64."""
    target = target if target.dtype == torch.int64 else target.double()
    if kind == "cross_entropy":
        return F.cross_entropy(x, target, label_smoothing=smoothing)
    functions: dict[str, Any] = {
        "binary_cross_entropy": F.binary_cross_entropy_with_logits,
        "mse": F.mse_loss,
        "l1": F.l1_loss,
        "smooth_l1": F.smooth_l1_loss,
    }
    return functions[kind](x, target)


@pytest.mark.parametrize(
    ("shape", "cases"), [((6, 5), picture_losses()), ((2, 3, 4, 5), dense_losses())], ids=["rows", "dense"]
)
def test_losses_are_those_of_torch(
    tmp_path: Path, shape: tuple[int, ...], cases: dict[str, tuple[torch.Tensor, torch.Tensor]]
) -> None:
    out = training_files(tmp_path / "out", [TrainInput("x", "float32", (shape[0], 3, 8, 8))], shape)
    given = {f"{n}:x": x.numpy() for n, (x, _) in cases.items()} | {
        f"{n}:target": t.numpy() for n, (_, t) in cases.items()
    }
    np.savez(out / "given.npz", **given)
    (out / "run.py").write_text(RUN)  # a file: GRAPH_MODE reads the source
    python(out, "import runpy, sys; sys.path.insert(0, '.'); runpy.run_path('run.py')")
    found = np.load(out / "results.npz")
    for name, (x, target) in cases.items():
        _, kind, smoothing = name.split("|")
        x = x.double().requires_grad_()
        loss = wanted(kind, float(smoothing), x, target)
        loss.backward()
        assert x.grad is not None and x.grad.abs().max() > 1e-4
        np.testing.assert_allclose(found[f"{name}:value"], loss.item(), rtol=2e-6, err_msg=name)
        np.testing.assert_allclose(found[f"{name}:gradient"], x.grad.numpy(), rtol=1e-4, atol=1e-7, err_msg=name)


MIX = """
import argparse, sys
sys.path.insert(0, ".")
import numpy as np
import dataset
x, y = np.load("x.npy"), np.load("y.npy")
for name, mixup, cutmix in (("mixup", 0.4, 0.0), ("cutmix", 0.0, 1.0)):
    for seed in range(4):
        images, targets = dataset.mixed((x, y), argparse.Namespace(mixup=mixup, cutmix=cutmix), (seed, 0, 0))
        np.savez(f"{name}{seed}.npz", images=images, targets=targets)
"""


def test_pictures_are_mixed_as_torchvision_mixes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the shares and boxes that were drawn here, torchvision's own MixUp and CutMix give the same."""
    from torchvision.transforms import v2

    out = training_files(tmp_path / "out", [TrainInput("x", "float32", (4, 3, 8, 10))], (4, 5))
    x, y = torch.randn(4, 3, 8, 10), torch.tensor([0, 3, 1, 2])
    np.save(out / "x.npy", x.numpy())
    np.save(out / "y.npy", y.numpy())
    python(out, MIX)
    shares = []
    for name, make in (("mixup", v2.MixUp), ("cutmix", v2.CutMix)):
        for seed in range(4):
            found = np.load(out / f"{name}{seed}.npz")
            rng = np.random.default_rng((seed, 0, 0))
            alpha = 0.4 if name == "mixup" else 1.0
            share = rng.beta(alpha, alpha)
            draws = iter([rng.integers(8), rng.integers(10)] if name == "cutmix" else [])
            mix = make(alpha=alpha, num_classes=5)
            monkeypatch.setattr(mix._dist, "sample", lambda shape=(), share=share: torch.tensor([share]))
            row, column = (next(draws), next(draws)) if name == "cutmix" else (0, 0)
            order = iter([column, row])  # torchvision draws the column first
            monkeypatch.setattr(torch, "randint", lambda *a, order=order, **k: torch.tensor([int(next(order))]))
            images, targets = mix(x, y)
            np.testing.assert_allclose(found["images"], images.numpy(), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(found["targets"], targets.numpy(), rtol=1e-5, atol=1e-6)
            shares.append(found["targets"].max())
    assert min(shares) < 0.95  # something was mixed
    for label in (5, -1, -100):
        code = f"import argparse, numpy as np, dataset\ny = np.array([0, {label}])\n"
        code += "dataset.mixed((np.ones((2, 3, 8, 10)), y), argparse.Namespace(mixup=1.0, cutmix=0.0), 0)\n"
        with pytest.raises(AssertionError, match="mixup and cutmix take 0 to 4"):
            python(out, code)


TOKENS = [TrainInput(n, "int64", (2, 8), limit=300 if n == "input_ids" else 2) for n in ("input_ids", "attention_mask")]
READ = """
import argparse, sys
sys.path.insert(0, ".")
import numpy as np
import dataset, train
def options(*given):
    sys.argv = ["train.py", *given]
    return train.read_options()
def rows(found):
    return [[t.asnumpy().tolist() for t in batch] for batch in found]
"""


def test_text_is_padded_and_put_into_buckets(tmp_path: Path) -> None:
    out = training_files(tmp_path / "out", TOKENS, (2, 8, 300))
    texts = ["abc", "hello", "ab", "abcdefg", "xyzw", "abcdefghijkl"]
    (out / "a.txt").write_text("\n".join(texts) + "\n")
    code = (
        READ + "found = rows(dataset.once(options('--data', 'text:a.txt')))\n"
        "ids, mask, target = found[0]\n"
        "assert ids[0] == [98, 99, 100, 0, 0, 0, 0, 0] and mask[0] == [1, 1, 1, 0, 0, 0, 0, 0], found[0]\n"
        "assert target[0] == [99, 100] + [-100] * 6, target\n"
        "assert len(found) == 3 and found[2][0][1] == [98 + i for i in range(8)]  # truncated\n"
        "left = rows(dataset.once(options('--data', 'text:a.txt', '--pad-side', 'left')))[0]\n"
        "assert left[0][0] == [0] * 5 + [98, 99, 100] and left[1][0] == [0] * 5 + [1] * 3, left\n"
        "short = options('--data', 'text:a.txt', '--buckets', '[4, 8]', '--too-long', 'drop')\n"
        "found = rows(dataset.once(short))\n"
        "assert sorted(len(ids[0]) for ids, _, _ in found) == [4, 4, 8], found\n"
        "assert sum(len(ids) for ids, _, _ in found) == 5\n"
        "trained = rows(dataset.batches(short, 6))\n"
        "assert all(len(ids) == 2 for ids, _, _ in trained)\n"
        "assert len({str(batch) for batch in trained}) > 3, trained  # shuffled anew\n"
        "try:\n    list(dataset.once(options('--data', 'text:a.txt', '--too-long', 'refuse')))\n"
        "except SystemExit as said:\n    assert 'row 6' in str(said) and '12 tokens' in str(said), said\n"
        "else:\n    raise AssertionError\n"
    )
    assert "graphs to compile" in python(out, code)


def test_text_with_labels(tmp_path: Path) -> None:
    out = training_files(tmp_path / "out", [TOKENS[0]], (2, 4))
    rows = [{"text": "ab", "label": 3}, {"input_ids": [7, 8, 9], "label": 0}]
    (out / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (out / "a.csv").write_text('text,label\nab,3\n"c,d",1\n')
    code = (
        READ + "((ids, target),) = rows(dataset.once(options('--data', 'text:a.jsonl')))\n"
        "assert target == [3, 0] and ids[1] == [7, 8, 9, 0, 0, 0, 0, 0], (ids, target)\n"
        "((ids, target),) = rows(dataset.once(options('--data', 'text:a.csv')))\n"
        "assert target == [3, 1] and ids[1][:3] == [100, 45, 101], ids\n"
    )
    python(out, code)


def test_text_for_a_model_with_its_own_loss(tmp_path: Path) -> None:
    """Its `labels` are the file's, of one token or all; a row without them has its tokens, which the model shifts."""
    labels = TrainInput("labels", "int64", (2, 8), limit=300)
    out = training_files(tmp_path / "out", [*TOKENS, labels], ())
    rows = [{"input_ids": [7, 8, 9], "labels": [-100, 5, 6]}, {"input_ids": [7, 8]}]
    (out / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (out / "bad.jsonl").write_text(json.dumps({"input_ids": [7, 8], "labels": [5]}))
    code = (
        READ + "from text_data import TextFile\n"
        "given = options('--data', 'text:a.jsonl')\n"
        "fields = [{'name': n, 'dtype': 'int64', 'shape': [2, 8]} for n in ('input_ids', 'attention_mask', 'labels')]\n"
        "((_, _, labels),) = TextFile('a.jsonl', given, fields, False).batches()\n"
        "assert labels.tolist() == [[-100, 5, 6] + [-100] * 5, [7, 8] + [-100] * 6], labels\n"
        "fields[2]['shape'] = [2]\n"
        "try:\n    TextFile('bad.jsonl', given, fields, False)\n"
        "except SystemExit as said:\n    assert '1 labels for 2 tokens' in str(said), said\n"
        "else:\n    raise AssertionError\n"
    )
    assert "labels: the labels, else the tokens" in python(out, code)


def test_sizes_are_checked_and_named(tmp_path: Path) -> None:
    inputs = [TrainInput("x", "float32", (4, 3, 8, 8), dims=("batch", None, "height", "width"))]
    out = training_files(tmp_path / "out", inputs, (4, 5))
    port = json.loads((out / "port.json").read_text())
    port["inputs"][0]["dims"] = ["batch", None, "height", "width"]
    (out / "port.json").write_text(json.dumps(port))
    code = (
        READ + "def said(x, y, *given):\n"
        "    try:\n        dataset.to_tensors((x, y), dataset.fields_of(options(*given)))\n"
        "    except SystemExit as end:\n        return str(end)\n"
        "    return ''\n"
        "x, y = np.zeros((4, 3, 8, 8), 'float32'), np.array([0, 1, -100, 4])\n"
        "assert said(x, y) == '', said(x, y)\n"
        "assert 'x: height is 9, expected 8' in said(np.zeros((4, 3, 9, 8)), y)\n"
        "assert 'x: batch is 4, expected 6' in said(x, y, '--batch-size', '6')\n"
        "assert 'target holds -1 to 4' in said(x, np.array([0, 1, -1, 4]))\n"
        "assert said(x, np.zeros((4, 5)), '--loss', 'mse') == ''\n"
    )
    python(out, code)
