"""ops, explain, doctor."""

import json

import pytest

from ms_port.cli import run


def test_ops(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ops", "nn.Linear", "--json"]) == 0
    [row] = [r for r in json.loads(capsys.readouterr().out) if r["api"] == "torch.nn.Linear"]
    assert row["mindspore"].split(", ")[0] == "nn.Dense"  # the usual form first
    assert run(["ops", "linear"]) == 0
    assert "torch.nn.Linear -> nn.Dense" in capsys.readouterr().out


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "msp201", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["code"] == "MSP201"


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--json"]) == 0
    found = {f["name"]: f["status"] for f in json.loads(capsys.readouterr().out)}
    assert found["smallest graph"] == "ok"
    assert found["numpy"] == "ok"
