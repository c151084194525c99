"""OUT/verify.py in an environment of its own that holds MindSpore, numpy, safetensors and what they need: no torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from made import make_port
from packaging.requirements import Requirement

from ms_port.verify import verify


def make_environment(folder: Path, packages: list[str]) -> Path:
    """A virtual environment with links to the installed files of these packages and of all they require; its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    done: set[str] = set()
    while packages:
        name = packages.pop()
        if name in done:
            continue
        done.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:  # only wanted on other platforms
            continue
        for part in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / part).exists():
                (site / part).symlink_to(str(found.locate_file(part)))
        wanted = [Requirement(text) for text in found.requires or ()]
        packages += [r.name for r in wanted if r.marker is None or r.marker.evaluate({"extra": ""})]
    return folder / "bin" / "python"


@pytest.mark.slow
def test_verify_py_needs_no_torch(tmp_path: Path) -> None:
    out = make_port("text_encoder", tmp_path)
    assert verify(out, level="step").status == "equal"
    python = make_environment(tmp_path / "env", ["mindspore", "numpy", "safetensors"])
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([python, *arguments], cwd=out, env=environment, capture_output=True, text=True)

    for absent in ("torch", "ms_port"):
        assert "No module named" in run("-c", f"import {absent}").stderr
    found = run("verify.py")
    assert found.returncode == 0, found.stdout + found.stderr
    runs = json.loads((out / "report" / "certificate.json").read_text())["runs"]
    assert [r["by"] for r in runs] == ["ms-port verify", "verify.py"]
    assert [runs[1]["levels"][name]["status"] for name in ("forward", "gradient", "step")] == ["equal"] * 3

    file = out / "text_encoder" / "model.py"
    text = file.read_text()
    assert "scores = scores + mask" in text
    file.write_text(text.replace("scores = scores + mask", "scores = scores - mask"))
    found = run("verify.py")
    assert found.returncode == 3, found.stdout + found.stderr
    assert "layers.0.attention" in found.stdout
