"""Checkpoints of every kind are read; what can't be read says why, and no pickled code runs."""

from __future__ import annotations

import json
import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from ms_port.weights import Checkpoint, LazyTensors, WeightsError, fit_names, load_into_module, read_checkpoint

STATE = {"fc.weight": torch.arange(6.0).reshape(2, 3), "fc.bias": torch.tensor([1.0, 2.0], dtype=torch.bfloat16)}


def same(checkpoint: Checkpoint) -> bool:
    return list(checkpoint.tensors) == list(STATE) and all(torch.equal(checkpoint.tensors[k], STATE[k]) for k in STATE)


def prefixed(prefix: str) -> dict[str, torch.Tensor]:
    return {prefix + k: v for k, v in STATE.items()}


@pytest.mark.parametrize(
    ("stored", "note"),
    [
        (STATE, ""),
        (OrderedDict(STATE), ""),
        ({"state_dict": STATE, "epoch": 3}, "unwrapped `state_dict` (left out: epoch)"),
        ({"model": {"state_dict": STATE}}, "unwrapped `state_dict`"),
        ({"model_state_dict": prefixed("module."), "optimizer": {}}, "`module.`"),
        ({"model": prefixed("_orig_mod.")}, "`_orig_mod.`"),
        (prefixed("module._orig_mod."), "`module.`"),
        ({"ema": STATE, "step": 1}, "unwrapped `ema`"),
        ({**STATE, "version": 2}, "no tensor: version"),
    ],
)
@pytest.mark.parametrize("legacy", [False, True])
def test_wrapped_checkpoints_are_unwrapped_and_said(tmp_path: Path, stored: Any, note: str, legacy: bool) -> None:
    torch.save(stored, tmp_path / "a.pt", _use_new_zipfile_serialization=not legacy)
    checkpoint = read_checkpoint(tmp_path / "a.pt")
    assert same(checkpoint)
    assert note in "; ".join(checkpoint.notes)


def test_folders(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    save_file(STATE, plain / "model.safetensors")
    (plain / "config.json").write_text("{}")
    assert sorted(read_checkpoint(plain).tensors) == sorted(STATE)

    sharded = tmp_path / "sharded"
    sharded.mkdir()
    names = {"fc.weight": "model-00001-of-00002.safetensors", "fc.bias": "model-00002-of-00002.safetensors"}
    for name, file in names.items():
        save_file({name: STATE[name]}, sharded / file)
    (sharded / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))
    checkpoint = read_checkpoint(sharded)
    assert same(checkpoint)
    assert checkpoint.notes == ("read 2 shards by model.safetensors.index.json",)
    (sharded / names["fc.bias"]).unlink()
    with pytest.raises(WeightsError, match=r"1 of 2 shards are missing: model-00002"):
        read_checkpoint(sharded)


def test_a_file_is_not_read_before_it_is_asked_for(tmp_path: Path) -> None:
    save_file({"big": torch.zeros(1 << 22), "small": torch.zeros(1)}, tmp_path / "a.safetensors")
    tensors = read_checkpoint(tmp_path / "a.safetensors").tensors
    assert tensors.shape("big") == (1 << 22,)
    assert tensors["small"].shape == (1,)


class Evil:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("touch executed",)


@pytest.mark.parametrize("legacy", [False, True])
def test_pickled_code_is_never_run(tmp_path: Path, legacy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": STATE, "hook": Evil()}, "evil.pt", _use_new_zipfile_serialization=not legacy)
    Path("plain.pkl").write_bytes(pickle.dumps(Evil()))
    torch.save(torch.nn.Linear(2, 2), "whole.pt")
    for name, code in (("evil.pt", "system"), ("plain.pkl", ""), ("whole.pt", "torch.nn.modules.linear.Linear")):
        with pytest.raises(WeightsError) as error:
            read_checkpoint(name)
        assert name in error.value.message and code in error.value.message
        assert error.value.advice
    assert not Path("executed").exists()


def test_unreadable_files_say_what_they_are(tmp_path: Path) -> None:
    torch.save(STATE, tmp_path / "whole.pt")
    save_file(STATE, tmp_path / "whole.safetensors")
    for name in ("whole.pt", "whole.safetensors"):
        data = (tmp_path / name).read_bytes()
        (tmp_path / f"cut{Path(name).suffix}").write_bytes(data[: len(data) * 2 // 3])
    (tmp_path / "empty.pt").write_bytes(b"")
    (tmp_path / "text.pt").write_text("hello, these are not weights")
    (tmp_path / "list.pt").write_bytes(b"")
    (tmp_path / "tf.h5").write_bytes(b"x")
    torch.save([torch.zeros(1)], tmp_path / "list.pt")
    torch.jit.script(torch.nn.Linear(1, 1)).save(tmp_path / "script.pt")
    expected = {
        "absent.pt": "no such file",
        "cut.pt": "truncated",
        "cut.safetensors": "not a complete safetensors file",
        "empty.pt": "empty",
        "text.pt": "not a checkpoint of torch",
        "list.pt": "no state dict",
        "tf.h5": "TensorFlow",
        "script.pt": "TorchScript",
    }
    for name, words in expected.items():
        with pytest.raises(WeightsError, match=words) as error:
            read_checkpoint(tmp_path / name)
        assert str(tmp_path / name) in error.value.message
    (tmp_path / "folder").mkdir()
    with pytest.raises(WeightsError, match="no weights of torch in this folder"):
        read_checkpoint(tmp_path / "folder")
    with pytest.raises(WeightsError, match="several checkpoints"):
        read_checkpoint(tmp_path)


def test_names_are_fitted_to_the_model() -> None:
    def fitted(state: dict[str, torch.Tensor], expected: list[str]) -> Checkpoint:
        return fit_names(Checkpoint(LazyTensors.of(state)), expected)

    larger = {**prefixed("bert."), "cls.weight": torch.zeros(1)}
    checkpoint = fitted(larger, list(STATE))
    assert same(checkpoint)
    assert checkpoint.notes == ("took `bert.` off the names, left out 1 tensors outside it",)
    assert list(fitted(STATE, ["m.fc.weight", "m.fc.bias"]).tensors) == ["m.fc.weight", "m.fc.bias"]
    assert list(fitted({"n.gamma": torch.ones(1), "n.beta": torch.ones(1)}, ["n.weight", "n.bias"]).tensors) == [
        "n.weight",
        "n.bias",
    ]
    assert fitted({"x": torch.ones(1)}, ["y"]).notes == ()


def test_load_into_module_is_strict() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.n = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)
            self.b.weight = self.a.weight

    source, target = Tied(), Tied()
    state = {k: v for k, v in source.state_dict().items() if k not in ("b.weight", "n.num_batches_tracked")}
    load_into_module(target, Checkpoint(LazyTensors.of(state)))
    assert torch.equal(target.b.weight, source.a.weight)
    for wrong, words in (
        ({**state, "c": torch.zeros(1)}, "1 unexpected: c"),
        ({**state, "a.bias": torch.zeros(3)}, r"a.bias: \[3\] in the checkpoint, \[2\] in the model"),
        ({k: v for k, v in state.items() if k != "a.weight"}, "1 missing: a.weight"),
    ):
        with pytest.raises(WeightsError, match=words):
            load_into_module(target, Checkpoint(LazyTensors.of(wrong)))
