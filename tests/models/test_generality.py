"""One file for every size: the port of a small model builds the larger ones by constructor arguments."""

import ast
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import ms_port
from ms_port.capture import Inputs
from ms_port.conversion import Request, run

pytest.importorskip("torchvision")
pytest.importorskip("transformers")


def vision(name: str) -> Callable[[], tuple[Any, Inputs, dict[str, Any]]]:
    def make() -> tuple[Any, Inputs, dict[str, Any]]:
        import torchvision

        side = 64 if name.startswith("resnet") else 56
        return getattr(torchvision.models, name), Inputs((torch.randn(2, 3, side, side),), {}), {}

    return make


def bert(layers: int) -> Callable[[], tuple[Any, Inputs, dict[str, Any]]]:
    def make() -> tuple[Any, Inputs, dict[str, Any]]:
        from transformers import BertConfig, BertModel

        sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "max_position_embeddings": 32}
        config = BertConfig(vocab_size=100, num_hidden_layers=layers, **sizes)
        mask = (torch.arange(8) < torch.tensor([[8], [5]])).long()
        return BertModel, Inputs((torch.randint(1, 100, (2, 8)),), {"attention_mask": mask}), {"config": config}

    return make


CASES = {
    "resnet101 from resnet50": (vision("resnet50"), vision("resnet101"), {"[3, 4, 6, 3]": "[3, 4, 23, 3]"}),
    "24 layers of BERT from 12": (bert(12), bert(24), {"BertConfig(": "BertConfig(num_hidden_layers=24, "}),
    "Swin-S from Swin-T": (
        vision("swin_t"),
        vision("swin_s"),
        {"[2, 2, 6, 2]": "[2, 2, 18, 2]", "stochastic_depth_prob=0.2": "stochastic_depth_prob=0.3"},
    ),
}
"""By name: the small model, the big one, and what its arguments are instead."""


def port(made: tuple[Any, Inputs, dict[str, Any]], out: Path) -> Path:
    """model.py of a model."""
    target, inputs, arguments = made
    run(Request(target=target, inputs=inputs, out=out, arguments=arguments, level="none", name="net"))
    return out / "net/model.py"


def definitions(text: str) -> dict[str, str]:
    """Source of each definition; docstrings and ``build_model`` aside."""
    tree = ast.parse(text)
    return {n.name: ast.unparse(n) for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}


@pytest.mark.parametrize("case", ["BERT", *(pytest.param(c, marks=pytest.mark.slow) for c in CASES)])
def test_the_text_is_the_same(case: str, tmp_path: Path) -> None:
    """All that differs between the ports of two sizes is what ``build_model`` passes."""
    small, big, *_ = CASES.get(case, (bert(2), bert(3), {}))
    one, two = (definitions(port(m(), tmp_path / str(i)).read_text()) for i, m in enumerate((small, big)))
    assert one.pop("build_model") != two.pop("build_model")
    assert one == two


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_another_size_by_arguments(case: str, tmp_path: Path) -> None:
    """The small one's file with the other's arguments, the other's weights, verified against the other in torch."""
    small, big, arguments_of_big = CASES[case]
    text = port(small(), tmp_path / "small").read_text()
    target, inputs, arguments = big()
    file = port((target, inputs, arguments), tmp_path / "big")
    head, factory, rest = text.partition("def build_model(")
    for old, new in arguments_of_big.items():
        assert rest.count(old) == 1
        rest = rest.replace(old, new)
    file.write_text(head + factory + rest)
    shutil.rmtree(tmp_path / "small")
    model = target(**arguments)
    ms_port.load(tmp_path / "big")  # strictly
    verdict = ms_port.verify(tmp_path / "big", model=model, inputs=(inputs.args, inputs.kwargs), level="forward")
    assert verdict.to_json()["forward"]["status"] == "equal", verdict.to_json()["forward"]
