"""Rules run both ways, conversion is strict, and files are written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file

from ms_port.weights import RULES, ParameterRow, WeightsError, convert, convert_file, write_safetensors
from ms_port.weights.write import HEADER_ROOM

ROWS = (
    ParameterRow("fc.weight", "fc.weight", (2, 3), "transpose"),
    ParameterRow("conv.weight", "conv.weight", (4, 2, 5), "conv1d_to_2d"),
    ParameterRow("norm.weight", "norm.gamma", (4,)),
    ParameterRow("norm.num_batches_tracked", None, (), "drop"),
    ParameterRow("head.weight", "fc.weight", (2, 3), "tied"),
)


def state(dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    fc = torch.randn(2, 3).to(dtype)
    values = {"fc.weight": fc, "conv.weight": torch.randn(4, 2, 5).to(dtype), "norm.weight": torch.randn(4).to(dtype)}
    return {**values, "norm.num_batches_tracked": torch.tensor(0), "head.weight": fc}


def port(folder: Path) -> Path:
    rows = [{"torch": r.torch, "mindspore": r.mindspore, "shape": list(r.shape), "rule": r.rule} for r in ROWS]
    (folder / "port.json").write_text(json.dumps({"parameters": rows}))
    return folder


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_every_rule_is_undone_by_its_backward(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(RULES)))
    shapes = {"gru_gates": (6, 3), "flatten": (), "transpose": (2, 5), "flip_kernel_2d": (2, 2, 3, 4)}
    array = np.random.default_rng(0).standard_normal(shapes.get(name, (3, 2, 4))).astype(np.float32)
    np.testing.assert_array_equal(RULES[name].backward(RULES[name].forward(array)), array)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_there_and_back(dtype: torch.dtype) -> None:
    there = dict(convert(state(dtype), ROWS))
    assert {k: tuple(v.shape) for k, v in there.items()} == {
        "fc.weight": (3, 2),
        "conv.weight": (4, 2, 1, 5),
        "norm.gamma": (4,),
    }
    assert all(v.dtype == dtype for v in there.values())
    back = dict(convert(there, ROWS, to="torch"))
    assert back.keys() == state().keys()
    assert all(torch.equal(back[k], v) for k, v in state(dtype).items())


def test_it_is_strict() -> None:
    def fails(changed: dict[str, torch.Tensor], words: str) -> None:
        with pytest.raises(WeightsError, match=words):
            convert(changed, ROWS)

    good = state()
    fails({**good, "extra": torch.zeros(1)}, "1 unexpected: extra")
    fails({k: v for k, v in good.items() if k != "norm.weight"}, "1 missing: norm.weight")
    fails({**good, "norm.weight": torch.zeros(5)}, r"norm.weight: \[5\] in the checkpoint, \[4\] in the model")
    untied = {**good, "head.weight": torch.zeros(2, 3)}
    with pytest.raises(WeightsError, match=r"head\.weight differs from fc\.weight"):
        dict(convert(untied, ROWS))
    slim = {k: v for k, v in good.items() if k not in ("head.weight", "norm.num_batches_tracked")}
    assert len(dict(convert(slim, ROWS))) == 3
    with pytest.raises(WeightsError, match="unknown rule"):
        convert(good, [*ROWS, ParameterRow("a", "a", (), "nonsense")])


def test_file_is_written_in_a_stream_and_read_by_safetensors(tmp_path: Path) -> None:
    items = [("half", torch.ones(3, dtype=torch.float16)), ("long", torch.arange(2)), ("none", torch.zeros(0, 4))]
    items += [("scalar", torch.tensor(2.0)), ("bf", torch.ones(1, dtype=torch.bfloat16))]
    write_safetensors(tmp_path / "a.safetensors", iter(items), {"made": "here"})
    loaded = load_file(tmp_path / "a.safetensors")
    assert all(torch.equal(loaded[k], v) and loaded[k].dtype == v.dtype for k, v in items)
    with safe_open(tmp_path / "a.safetensors", "pt") as file:
        assert file.metadata() == {"made": "here"}
    many = [("x" * 200 + str(i), torch.tensor([i])) for i in range(HEADER_ROOM // 200)]
    write_safetensors(tmp_path / "b.safetensors", many)
    loaded = load_file(tmp_path / "b.safetensors")
    assert all(torch.equal(loaded[k], v) for k, v in many)


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "w.safetensors"
    target.write_bytes(b"old")
    torch.save({"fc.weight": torch.zeros(1)}, tmp_path / "bad.pt")
    with pytest.raises(WeightsError, match="do not fit"):
        convert_file(tmp_path / "bad.pt", target, port(tmp_path))
    assert target.read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.pt", "port.json", "w.safetensors"]
    with pytest.raises(WeightsError, match="cannot be written"):
        write_safetensors("/proc/no/w.safetensors", [])
    with pytest.raises(WeightsError, match=r"cannot write weights for torch as \.onnx"):
        convert_file(tmp_path / "bad.pt", tmp_path / "w.onnx", tmp_path, to="torch")
    with pytest.raises(WeightsError, match=r"no port\.json"):
        convert_file(tmp_path / "bad.pt", target, tmp_path / "nowhere")


def test_convert_file_both_ways_and_ckpt(tmp_path: Path) -> None:
    torch.save({"state_dict": {f"module.{k}": v for k, v in state().items()}}, tmp_path / "a.pt")
    notes = convert_file(tmp_path / "a.pt", tmp_path / "w.ckpt", port(tmp_path))
    assert "unwrapped `state_dict`" in notes
    convert_file(tmp_path / "w.ckpt", tmp_path / "b.pth", tmp_path, to="torch")
    back = torch.load(tmp_path / "b.pth")
    assert all(torch.equal(back[k], v) for k, v in state().items())
    convert_file(tmp_path / "b.pth", tmp_path / "w.safetensors", tmp_path, dtype="float16")
    assert load_file(tmp_path / "w.safetensors")["norm.gamma"].dtype == torch.float16
