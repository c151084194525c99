"""Models that nobody wrote for these tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
from reading import function

from ms_port.capture import Inputs, record

IDS = torch.arange(32).reshape(2, 16) % 97 + 1
MASK = torch.ones(2, 16, dtype=torch.long)
MASK[0, 13:] = 0
TINY = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}


def checked(recording, forward):
    """Whatever ran is recorded, in both modes, and every call has a user's line."""
    assert {code.co_name for code in recording.uninstrumented if code.co_name == "forward"} == set()
    for mode in ("eval", "train"):
        assert recording.roots[mode].function.qualname == forward
        assert recording.roots[mode].self is recording.model
        assert not recording.roots[mode].raised
    assert recording.reads == []
    assert all(call.file and call.activation is not None for call in recording.torch_calls)
    assert all(call.name.startswith(("torch.", "torchvision.")) for call in recording.torch_calls)
    assert set(recording.module_arguments) >= {id(module) for module in recording.model.modules()}
    for item in recording.functions:
        for activation in item.activations:
            for calls in activation.calls.values():
                assert all(child.parent is activation for call in calls for child in call.children)
    return recording


@pytest.mark.parametrize(("name", "forward"), [("resnet18", "ResNet.forward"), ("swin_t", "SwinTransformer.forward")])
def test_torchvision(name, forward):
    models = pytest.importorskip("torchvision.models")
    checked(record(getattr(models, name), Inputs((torch.randn(2, 3, 64, 64),))), forward)


@pytest.mark.parametrize(
    ("name", "size", "forward"),
    [("vit_tiny_patch16_224", 224, "VisionTransformer.forward"), ("convnext_atto", 64, "ConvNeXt.forward")],
)
def test_timm(name, size, forward):
    timm = pytest.importorskip("timm")
    inputs = Inputs((torch.randn(2, 3, size, size),))
    recording = checked(record(timm.create_model, inputs, arguments={"model_name": name}), forward)
    assert recording.roots["init"].function.qualname == "create_model"


def test_bert():
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(**TINY, max_position_embeddings=64)
    inputs = Inputs((), {"input_ids": IDS, "attention_mask": MASK})
    recording = checked(record(transformers.BertModel, inputs, arguments={"config": config}), "BertModel.forward")
    used = {id(item) for call in recording.torch_calls for item in call.args}
    assert id(recording.fake_inputs["attention_mask"]) in used
    assert len(function(recording, "BertLayer.forward").activations) == 4


def test_llama():
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(**TINY, num_key_value_heads=2, max_position_embeddings=64)
    inputs = Inputs((), {"input_ids": IDS, "attention_mask": MASK, "use_cache": False})
    recording = record(transformers.LlamaForCausalLM, inputs, arguments={"config": config})
    checked(recording, "LlamaForCausalLM.forward")
    assert len(function(recording, "LlamaDecoderLayer.forward").activations) == 4


def test_scripted_functions_of_a_module_under_no_name(tmp_path: Path) -> None:
    """A file loaded by path, and known to nobody: its scripted functions are followed all the same."""
    file = tmp_path / "unnamed.py"
    file.write_text(
        "import torch\n\n\n@torch.jit.script\ndef gate(x, y):\n    return torch.tanh(x) * y\n\n\n"
        "class Gated(torch.nn.Module):\n    def forward(self, x):\n        return gate(x, x)\n"
    )
    spec = importlib.util.spec_from_file_location("unnamed", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    scripted = module.gate
    recording = record(module.Gated, Inputs((torch.ones(2),), {}))
    assert any(f.name == "gate" for f in recording.functions)
    assert module.gate is scripted
