"""The Python face."""

import sys
from pathlib import Path

import pytest
import torch

import ms_port
from ms_port.errors import BadInput

sys.path.insert(0, str(Path(__file__).parent))
from nets import Net


def test_a_built_instance(tmp_path: Path) -> None:
    model = Net(6).eval()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    seen: list[str] = []
    port = ms_port.convert(
        model, (torch.ones(2, 4),), out=tmp_path / "net", static={"batch": 2}, progress=lambda e: seen.append(e.stage)
    )
    assert port.status in ("ok", "flagged"), port.report
    assert port.report.verification["forward"]["status"] == "equal"
    assert not model.training
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert seen[0] == "load"
    assert seen[-1] == "verify"
    with pytest.raises(BadInput, match="built in Python"):
        ms_port.verify(port.out)
    again = ms_port.verify(port.out, model=model, inputs=(torch.ones(2, 4),))
    assert again.forward.status == "equal"


def test_a_factory(tmp_path: Path) -> None:
    port = ms_port.convert(Net, (torch.ones(2, 4),), out=tmp_path / "net", verify="none", name="mine")
    assert (port.out / "mine/model.py").is_file()
    assert port.report.verification == {}


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no level"):
        ms_port.convert(Net, (), out=tmp_path / "net", verify="deep")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=r"no port\.json"):
        ms_port.load(tmp_path)
    assert list(tmp_path.iterdir()) == []
