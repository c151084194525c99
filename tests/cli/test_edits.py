"""A person's edits live through further conversions, also after the torch source has changed."""

import json
from pathlib import Path

import pytest

from ms_port.cli import run

SOURCE = '''\
"""A small net."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 3)

    def features(self, x):
        x = self.first(x)
        return torch.relu(x)

    def forward(self, x):
        x = self.features(x)
        x = self.norm(x)
        return self.head(x)
'''


class Project:
    """A torch source and its port."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.source, self.out, self._capsys = folder / "net.py", folder / "out", capsys
        self.model = self.out / "net" / "model.py"
        self.source.write_text(SOURCE)

    def convert(self, *options: str) -> dict:
        self._capsys.readouterr()
        command = ["convert", f"{self.source}:Net", "--input", "x:float32[2,4]", "-o", str(self.out), "--json"]
        self.code = run([*command, "--no-verify", *options])
        return json.loads(self._capsys.readouterr().out)

    def diff(self) -> list[str]:
        return [x for x in self.convert("--diff")["diff"].splitlines() if x[0] in "+-" and x[:3] not in ("+++", "---")]

    def edit(self, file: Path, old: str, new: str) -> None:
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Project:
    made = Project(tmp_path, capsys)
    assert made.convert()["edits"] == []
    return made


def test_edit_run_change_the_source_run(project: Project) -> None:
    project.edit(project.model, "return ops.relu(x)", "return ops.gelu(x)  # smoother")
    assert project.diff() == []
    assert project.convert()["edits"] == [{"file": "net/model.py", "action": "kept"}]
    project.edit(project.source, "return self.head(x)", "return self.head(x).sigmoid()")
    assert project.diff() == ["-        return self.head(x)", "+        return self.head(x).sigmoid()"]
    assert project.convert()["edits"] == [{"file": "net/model.py", "action": "merged"}]
    assert project.code == 0
    text = project.model.read_text()
    assert "ops.gelu(x)" in text
    assert "self.head(x).sigmoid()" in text
    assert project.diff() == []


def test_a_conflict(project: Project) -> None:
    project.edit(project.model, "return self.head(x)", "return self.head(x) * 2")
    project.edit(project.source, "return self.head(x)", "return self.head(x).sigmoid()")
    report = project.convert()
    assert report["edits"] == [{"file": "net/model.py", "action": "merged, 1 conflict marked with <<<<<<<"}]
    assert report["status"] == "flagged"
    assert project.code == 1
    text = project.model.read_text()
    assert "return self.head(x) * 2" in text
    assert "return self.head(x).sigmoid()" in text
    settled = (
        text[: text.index("<<<<<<<")]
        + "        return self.head(x).sigmoid() * 2\n"
        + text.partition(">>>>>>> generated now\n")[2]
    )
    project.model.write_text(settled)
    assert project.convert()["edits"] == [{"file": "net/model.py", "action": "kept"}]
    assert project.code == 0


def test_source_map(project: Project) -> None:
    """Every line that comes from the source says from which one, also below a line that a person added."""

    def lines() -> dict[str, dict]:
        found = json.loads((project.out / "report/source_map.json").read_text())["files"]["net/model.py"]
        text = project.model.read_text().splitlines()
        return {text[int(n) - 1].strip(): origin for n, origin in found.items()}

    source = SOURCE.splitlines()

    def line_of(text: str) -> dict:
        return {"file": str(project.source), "line": source.index(text) + 1, "module": ""}

    expected = {
        "self.first = nn.Dense(4, width)": line_of("        self.first = nn.Linear(4, width)"),
        "return ops.relu(x)": line_of("        return torch.relu(x)"),
        "class Net(nn.Cell):": line_of("class Net(nn.Module):"),
    }
    assert expected.items() <= lines().items()
    assert "import mindspore as ms" not in lines()
    project.edit(project.model, "    def features(", "    def mine(self):\n        return 1\n\n    def features(")
    project.convert()
    assert expected.items() <= lines().items()
    assert "return 1" not in lines()
