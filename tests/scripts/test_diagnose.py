"""The knowledge of diagnose: each row's sample finds that row first; unknown logs are said to be unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from ms_port.cli import run
from ms_port.report.rules import rules
from ms_port.script.diagnose import STAGES, diagnose, diagnose_text, symptoms

NOISE = "epoch 1 step 10 loss 0.531\nsaved to ckpt/last.pt\nINFO: rank 0 ready, 8 workers\n"


@pytest.mark.parametrize("symptom", symptoms(), ids=lambda s: s.id)
def test_sample(symptom) -> None:
    found = diagnose_text(NOISE + symptom.sample + NOISE, "log").found
    assert found and found[0].symptom.id == symptom.id
    assert symptom.stage in STAGES and symptom.checks
    assert symptom.rule is None or symptom.rule in rules()


def test_noise_is_no_symptom() -> None:
    read = diagnose_text("epoch 1 step 10 loss 0.531\nsaved to ckpt/last.pt\n", "log")
    assert not read.found and not read.search and not read.stalled


def test_the_users_line_is_named() -> None:
    text = 'File "/usr/lib/python3.11/site-packages/torch/x.py", line 3\nFile "/home/me/net.py", line 27, in construct\nRuntimeError: Unsupported statement \'Try\'.\n'
    assert diagnose_text(text, "log").found[0].own == "/home/me/net.py:27"


def test_a_run_that_waits() -> None:
    assert diagnose_text("loading data\ninit_process_group backend=hccl rank 3\n", "log").stalled


def test_unknown_log_gives_words_to_search() -> None:
    read = diagnose_text("FrobnicateError: widget 0x7ffd12 of /home/me/run/12 is 4711 too blue\n", "log")
    assert not read.found and len(read.search) == 1
    assert (
        "4711" not in read.search[0] and "/home" not in read.search[0] and "FrobnicateError: widget" in read.search[0]
    )


def test_an_unknown_end_is_shown() -> None:
    text = "Traceback (most recent call last):\n  a line\nZorbError: no such thing\n"
    assert diagnose_text(text, "log").search == ("ZorbError: no such thing",)
    assert diagnose_text("a step\nthe machine stopped\n", "log").last == ("a step", "the machine stopped")


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_bytes(b"\xff\xfe binary\nHCCL: Failed to connect to peer process.\n")
    assert run(["diagnose", str(tmp_path / "a.log")]) == 1
    shown = capsys.readouterr().out
    assert "RANK_ID" in shown and "MSP804" in shown
    assert run(["diagnose", str(tmp_path / "none.log")]) == 2
    (tmp_path / "fine.log").write_text("epoch 1 loss 0.5\n")
    assert not diagnose(tmp_path / "fine.log").found
    assert run(["diagnose", str(tmp_path / "fine.log")]) == 0
    assert "epoch 1 loss 0.5" in capsys.readouterr().out
