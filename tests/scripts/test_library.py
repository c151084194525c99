"""Models of torchvision that a script takes, named or chosen by an option."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from migrating import torch_imports

from ms_port.script.migrate import Migration, migrate

CHOSEN = """
import argparse
import torchvision.models as models
parser = argparse.ArgumentParser()
parser.add_argument("--arch", default="resnet18")
args = parser.parse_args()
names = sorted(n for n in models.__dict__ if n.islower() and callable(models.__dict__[n]))
"""


def porter(name: str, keywords: Mapping[str, Any], package: str) -> dict[str, str] | str:
    return {f"{package}/__init__.py": "def build_model(): ...\n"}


def library(tmp_path: Path, source: str) -> tuple[str, Migration]:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(source))
    found = migrate(path, (), porter)
    text = found.files["script.py"]
    assert not torch_imports(text)
    return text, found


def test_a_model_chosen_by_an_option_is_looked_up_among_the_ported(tmp_path: Path) -> None:
    text, found = library(tmp_path, CHOSEN + "model = models.__dict__[args.arch]()\n")
    assert "PortedModels({'resnet18': build_resnet18})[args.arch]().set_train()" in text
    assert not found.open


def test_getattr_chooses_a_model_too(tmp_path: Path) -> None:
    text, found = library(tmp_path, CHOSEN + "model = getattr(models, args.arch)(pretrained=True)\n")
    assert "PortedModels({'resnet18': build_resnet18})[args.arch]().set_train()" in text
    assert [(n.rule, n.severity) for n in found.open] == [("MSP602", "warning")]


def test_a_model_that_no_option_names_raises_at_its_line(tmp_path: Path) -> None:
    text, found = library(
        tmp_path, "import sys\nfrom torchvision import models\nnet = models.__dict__[sys.argv[1]]()\n"
    )
    assert "raise NotImplementedError" in text
    assert [(n.line, n.severity) for n in found.open] == [(3, "error")]


def test_arguments_of_a_chosen_model_are_refused(tmp_path: Path) -> None:
    text, _ = library(tmp_path, CHOSEN + "model = models.__dict__[args.arch](num_classes=10)\n")
    assert "raise NotImplementedError" in text
