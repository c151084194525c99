"""Kinds of what functions of nobody's call get: by what they do with it, whatever it is called."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from migrating import migrated

from ms_port.script.uses import by_use

FIT = """
def fit(a, b, c, d, e, f, g):
    a.train()
    for x, y in tqdm(b):
        x, y = x.to(d), y.to(device=d)
        out = e(a(x), y)
        c.zero_grad()
        g.scale(out).backward()
        g.step(c)
        g.update()
    f.step()
"""


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a", "module"), ("b", "loader"), ("c", "optimizer"), ("d", "device"), ("f", "scheduler"), ("g", "scaler")],
)
def test_a_kind_by_use(name: str, kind: str) -> None:
    assert by_use(ast.parse(FIT), name) == kind


def test_an_attribute_under_another_name() -> None:
    text = "class T:\n    def run(self):\n        m, c = self.model, self.config\n        m.train()\n"
    assert by_use(ast.parse(text), "self.model") == "module"
    assert by_use(ast.parse(text), "self.config") is None


def test_a_function_that_nobody_calls_is_migrated(tmp_path: Path) -> None:
    text, found = migrated(
        tmp_path,
        "import torch\ndef fit(m, batches, o, goal):\n    m.train()\n    for x, y in batches:\n        o.zero_grad()\n"
        "        loss = goal(m(x), y)\n        loss.backward()\n        o.step()\n        print(f'{loss.item():.3f}')\n",
    )
    assert "m.set_train()" in text
    assert "value_and_grad(forward_fn, None, o.parameters)" in text
    assert not found.open


def test_a_gradient_of_nothing_is_refused(tmp_path: Path) -> None:
    text, found = migrated(tmp_path, "import torch\ndef fit(x):\n    loss = x.exp().sum()\n    loss.backward()\n")
    assert "raise NotImplementedError" in text
    assert [(n.rule, n.line) for n in found.open] == [("MSP604", 4)]


def test_packages_that_run_on_torch_raise_with_a_route(tmp_path: Path) -> None:
    text, found = migrated(
        tmp_path,
        "import timm\nfrom transformers import AutoTokenizer, Trainer\nt = AutoTokenizer.from_pretrained('x')\n"
        "net = timm.create_model('resnet18')\ntrainer = Trainer(model=net)\n",
    )
    assert "from transformers import AutoTokenizer\n" in text
    assert "import timm" not in text
    assert [(n.rule, n.line) for n in found.open] == [("MSP608", 4), ("MSP608", 5)]
    assert "mindone.transformers" in text


def test_a_class_whose_base_is_refused_raises_there(tmp_path: Path) -> None:
    text, found = migrated(
        tmp_path,
        "import pytorch_lightning as pl\nimport torch\nclass M(pl.LightningModule):\n    def f(self):\n        return 1\n"
        "x = torch.zeros(3).retain_grad()\n",
    )
    assert "class M(unsupported(" in text
    assert "import unsupported" in text
    assert [n.line for n in found.open] == [3, 6]
