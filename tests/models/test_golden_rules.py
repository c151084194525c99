"""The rules of a good port, read off the gallery's ports of a residual net, a vision transformer and a text encoder.

CI regenerates these ports, so the text checked here is what the translation writes.
"""

from pathlib import Path

import pytest

MODELS = Path(__file__).resolve().parents[2] / "models"
R, V, T = "residual", "vision_transformer", "text_encoder"

RULES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "1 classes, helpers, loops, comments": (
        R,
        (
            "def conv_norm(",
            "def _make_stage(",
            "def forward_features(",
            "for i, depth in enumerate(layers):\n            # All stages but the first halve the resolution.",
        ),
        ("def forward(",),
    ),
    "1 methods keep their names": (
        V,
        ("def forward_features(", "def forward_head(", "def construct("),
        ("def forward(",),
    ),
    "1 a property stays": (T, ("@property\n    def dtype(",), ()),
    "2 constructor arithmetic": (
        R,
        ("width * self.expansion", 'pad_mode="pad",\n            padding=kernel_size // 2'),
        (),
    ),
    "2 a literal padding of 0": (V, ("int(dim * mlp_ratio)", 'pad_mode="valid"'), ()),
    "3 an optional child": (R, ("out if self.downsample is None else self.downsample(out)",), ()),
    "4 pruned with the arguments that fed it": (
        R,
        ("def construct(self, x: Tensor) -> Tensor:",),
        ("channels_last", "logger", "self.stride"),
    ),
    "4 in the transformer": (V, (), ("fused", "inplace", "pool_type", "contiguous")),
    "4 in the encoder": (T, (), ("pre_norm", "**kwargs", "mask is not None")),
    "5 arms in constructors": (R, ("if norm_layer is None:\n            norm_layer = nn.BatchNorm2d",), ()),
    "5 a dict of functions": (T, ('"relu": ops.relu, "silu": ops.silu, "gelu": ops.gelu',), ()),
    "6 asserts on shapes": (V, ("assert ",), ()),
    "7 another return in training": (V, ("if self.training:",), ()),
    "8 a small configuration class": (T, ("@dataclass\nclass EncoderConfig:", "hidden_size: int"), ("pre_norm",)),
    "9 the factory": (R, ("def build_model(num_classes: int = 10) -> ResidualClassifier:",), ()),
    "10 defaults that differ are written": (V, ("has_bias=True", "approximate=False", "nn.Dropout(p="), ()),
    "10 epsilon": (T, ("epsilon=",), ()),
    "11 momentum in a partial": (R, ("partial(nn.BatchNorm2d, eps=1e-3, momentum=0.97)",), ()),
    "12 a class as a value carries its defaults": (
        V,
        ("partial(nn.LayerNorm, epsilon=1e-5)", "norm_layer((dim,))"),
        (),
    ),
    "13 methods": (V, ("swapaxes(", "reshape(", "flatten(start_dim=2)", "B, N, C = "), (".view(", "transpose(")),
    "14 tensors made in a constructor": (V, ("Parameter(initializer(", "np.linspace("), ()),
    "14 buffers": (T, ('self.register_buffer("position_ids"', "np.arange("), ()),
    "15 initialisation": (R, ("cells_and_names()", "HeNormal(mode=", ".set_data("), ()),
    "16 an attribute that differs by class": (
        T,
        ("isinstance(module, nn.Embedding)", "isinstance(module, nn.Dense)"),
        (),
    ),
    "17 a write is a rebinding": (R, ("out = out + identity",), ("+=",)),
    "18 a stale alias": (R, ("out = self.act(x)\n        identity = out if",), ()),
    "19 masked assignment": (T, ("finfo_min(scores.dtype)", "mask == 0"), ()),
    "20 draws through cells": (V, ("self.rand = Rand()", "rand: "), ("ops.rand(",)),
    "21 no dataclass in construct": (T, (), ("NamedTuple", "Output(")),
    "22 no partial over an op": (T, ("def gelu_tanh(x: Tensor) -> Tensor:",), ("partial(",)),
    "23 no dict keyed by dtype": (T, ("finfo_min(",), ("ms.float16:",)),
    "24 the padding row": (T, ("Embedding(config.vocab_size",), ()),
    "25 tied weights, loops over tuples": (T, ("for layer in (self.up, self.act, self.down, self.dropout):",), ()),
}


@pytest.mark.parametrize("rule", RULES)
def test_rule(rule: str) -> None:
    model, present, absent = RULES[rule]
    text = (MODELS / model / "ported" / model / "model.py").read_text()
    for part in present:
        assert part in text, f"{rule}: {part!r} is not in the port"
    for part in absent:
        assert part not in text, f"{rule}: {part!r} is in the port"
