"""Real models of the gallery and of public libraries: translated, compiled in GRAPH_MODE, equal to torch in float64."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ms_port.opmap import OpMap

ROOT = Path(__file__).parents[2]


def load(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


porting = load(ROOT / "tests" / "passes" / "port.py", "tests_models_port")
checks = load(ROOT / "tests" / "passes" / "test_nets.py", "tests_models_checks")


@cache
def gallery(folder: str) -> Any:
    return load(ROOT / "models" / folder / "source.py", f"gallery_{folder}")


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(5))


def residual() -> nn.Module:
    return gallery("residual").ResidualClassifier((2, 2, 1), 10, base_width=8, zero_init_residual=True)


def vision_transformer() -> nn.Module:
    return gallery("vision_transformer").VisionTransformer(32, 8, 10, 48, 3, 3, init_value=0.1)


def text_encoder() -> nn.Module:
    source = gallery("text_encoder")
    settings = source.EncoderConfig(120, 32, 2, 4, 64, 16, hidden_act="gelu_tanh", dropout=0.0)
    return source.TextEncoder(settings)


def unet() -> nn.Module:
    return gallery("unet").UNet(num_classes=3, width=8)


def tagger() -> nn.Module:
    return gallery("lstm_tagger").Tagger(vocab=50, num_tags=9, hidden=16, dropout=0.0)


def generator() -> nn.Module:
    return gallery("gan").Generator(width=8)


def discriminator() -> nn.Module:
    return gallery("gan").Discriminator(width=8)


def torch_encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(16), enable_nested_tensor=False)


class Encoded(nn.Module):
    """torch.nn.TransformerEncoder with padding."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = torch_encoder()

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.encoder(x, src_key_padding_mask=mask == 0)


def bert() -> nn.Module:
    transformers = pytest.importorskip("transformers")
    settings = transformers.BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=12, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return transformers.BertModel(settings)


def llama() -> nn.Module:
    transformers = pytest.importorskip("transformers")
    settings = transformers.LlamaConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=64, max_position_embeddings=32, attn_implementation="eager",
    )  # fmt: skip
    return transformers.LlamaModel(settings)


def t5() -> nn.Module:
    transformers = pytest.importorskip("transformers")
    settings = transformers.T5Config(
        vocab_size=50, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4, dropout_rate=0.0
    )
    return transformers.T5Model(settings)


def resnet() -> nn.Module:
    torchvision = pytest.importorskip("torchvision")
    return torchvision.models.ResNet(torchvision.models.resnet.Bottleneck, [1, 1, 1, 1], num_classes=5)


ids = torch.arange(24).reshape(2, 12) % 40 + 1
mask = torch.ones(2, 12, dtype=torch.int64)
mask[0, 8:] = 0
CASES = {
    "residual": (residual, (random(4, 3, 64, 64),)),
    "vision_transformer": (vision_transformer, (random(4, 3, 32, 32),)),
    "text_encoder": (text_encoder, (ids, mask, mask)),
    "unet": (unet, (random(4, 3, 64, 64),)),
    "tagger": (tagger, (ids,)),
    "generator": (generator, (random(4, 64),)),
    "discriminator": (discriminator, (random(4, 3, 32, 32),)),
    "encoder": (Encoded, (random(2, 12, 16), mask)),
    "bert": (bert, (ids, mask)),
    "llama": (llama, (ids, mask)),
    "t5": (t5, (ids, mask, ids)),
    "resnet": (resnet, (random(8, 3, 64, 64),)),
}


@pytest.fixture(scope="module")
def ports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    opmap = OpMap.load()
    made = {}
    for name, (factory, args) in CASES.items():
        torch.manual_seed(0)
        made[name] = porting.port(factory, args, folder, name, opmap=opmap)
        porting.save_inputs(made[name], name, args)
    porting.run_all(folder, list(made))
    return folder, made


@pytest.mark.parametrize("name", CASES)
def test_equals_torch(ports, name):
    folder, made = ports
    checks.compare(made[name], porting.outcome(folder, name), CASES[name][1])


@pytest.mark.parametrize("name", CASES)
def test_nothing_has_to_be_fixed(ports, name):
    assert not [f for f in ports[1][name].program.flags if f.severity == "error"]
