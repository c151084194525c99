"""`ms-port demo`, as a newcomer runs it."""

import time
from pathlib import Path

import pytest

from ms_port.cli import run


@pytest.mark.slow
def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    started = time.time()
    assert run(["demo", "-o", str(tmp_path / "demo")]) == 0
    said = capsys.readouterr().out
    assert said.count("trained in GRAPH_MODE: step 1 loss") == 2
    for name in ("residual", "text_encoder"):
        assert (tmp_path / "demo" / name / name / "model.py").is_file()
    assert time.time() - started < 180
