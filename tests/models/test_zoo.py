"""A fixed sample of public zoos: converted, nothing flagged, every name of the port defined.

With the models of test_models.py, which run in GRAPH_MODE, thirty. Here MindSpore is not started: what a zoo computes is
measured by ``python -m benchmarks.coverage``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.coverage import cases
from ms_port.capture import Inputs
from ms_port.conversion import Request, run

pytest.importorskip("torchvision")
pytest.importorskip("timm")
pytest.importorskip("transformers")

QUICK = {"torchvision": ["alexnet"], "timm": ["mambaout_femto"], "transformers": ["MixtralModel", "ViTModel"]}
SLOW = {
    "torchvision": ["mobilenet_v2", "shufflenet_v2_x0_5", "segmentation.lraspp_mobilenet_v3_large"],
    "timm": ["fasternet_t0", "starnet_s1", "ghostnet_050", "resnet18", "hgnet_tiny", "nf_seresnet26"],
    "transformers": ["DiffLlamaModel", "GPT2Model", "CLIPSegModel", "MiniMaxModel", "T5Model"],
}


def chosen() -> list[object]:
    quick = [pytest.param(zoo, name, id=name) for zoo, names in QUICK.items() for name in names]
    slow = [pytest.param(zoo, name, id=name, marks=pytest.mark.slow) for zoo, names in SLOW.items() for name in names]
    return [*quick, *slow]


@pytest.mark.parametrize(("zoo", "name"), chosen())
def test_it_converts(zoo: str, name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    example = next(case for case in cases(zoo) if case.name == name).make()
    inputs = Inputs(tuple(example.args), dict(example.kwargs))
    request = Request(
        target=example.target, inputs=inputs, arguments=dict(example.arguments), out=tmp_path / "out",
        level="none", name="port",
    )  # fmt: skip
    report = run(request).report
    assert [f"{f.rule} {f.message}" for f in report.flags if f.severity != "info"] == []
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821,F811", str(tmp_path / "out/port")]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout
