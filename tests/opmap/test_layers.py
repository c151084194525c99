"""Layers: golden texts, classes as values, factories, built instances, weights."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping

import pytest
import torch
from opmap_calls import call, of, text
from torch import nn

from ms_port.ir.values import Literal
from ms_port.opmap import NoLowering, OpMap

FACTORY = ast.Name("norm_layer", ast.Load())


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (call("torch.nn.LayerNorm", of("dim", 8, 16)), "nn.LayerNorm((dim,), epsilon=1e-05)"),
        (call("torch.nn.LayerNorm", of("dim", 8), eps="1e-6"), "nn.LayerNorm((dim,), epsilon=1e-06)"),
        (
            call("torch.nn.MaxPool2d", "3", stride="2", padding="1"),
            "nn.MaxPool2d(3, stride=2, pad_mode='pad', padding=1)",
        ),
        (call("torch.nn.BatchNorm2d", "c", momentum=of("m", 0.1)), "nn.BatchNorm2d(c, momentum=1 - m)"),
        (call("torch.nn.Dropout", of("p", 0.1)), "nn.Dropout(p=p)"),
        (
            call("torch.nn.Linear", "dim", "dim * 3", bias=of("qkv_bias", True)),
            "nn.Dense(dim, dim * 3, has_bias=qkv_bias)",
        ),
        (call("torch.nn.GELU"), "nn.GELU(approximate=False)"),
        (
            call("torch.nn.Conv2d", "i", "o", kernel_size=of("p", 8), stride=of("p", 8)),
            "nn.Conv2d(i, o, kernel_size=p, stride=p, pad_mode='valid', has_bias=True)",
        ),
    ],
)
def test_golden_texts(op_map: OpMap, made: object, expected: str) -> None:
    assert text(op_map.lower(made)) == expected


@pytest.mark.parametrize(
    ("api", "keywords", "expected"),
    [
        ("torch.nn.BatchNorm2d", {}, "nn.BatchNorm2d"),
        ("torch.nn.LayerNorm", {}, "partial(nn.LayerNorm, epsilon=1e-05)"),
        ("torch.nn.LayerNorm", {"eps": "1e-6"}, "partial(nn.LayerNorm, epsilon=1e-06)"),
        (
            "torch.nn.BatchNorm2d",
            {"eps": "1e-3", "momentum": "0.03"},
            "partial(nn.BatchNorm2d, eps=0.001, momentum=0.97)",
        ),
        ("torch.nn.ReLU", {"inplace": "True"}, "nn.ReLU"),
        ("torch.nn.GELU", {}, "partial(nn.GELU, approximate=False)"),
        ("torch.nn.Conv2d", {}, "partial(nn.Conv2d, pad_mode='valid', has_bias=True)"),
        ("torch.nn.InstanceNorm2d", {"affine": "True"}, "partial(InstanceNorm2d, affine=True)"),
        ("torch.nn.Identity", {}, "nn.Identity"),
    ],
)
def test_classes_as_values(op_map: OpMap, api: str, keywords: dict[str, str], expected: str) -> None:
    assert text(op_map.lower_value(api, tuple((k, of(v)) for k, v in keywords.items()))) == expected


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (call("torch.nn.LayerNorm", of("dim", 8)), "norm_layer((dim,))"),
        (call("torch.nn.LayerNorm", of("dim", 8), eps="1e-6"), "norm_layer((dim,), epsilon=1e-06)"),
        (call("torch.nn.BatchNorm2d", "width"), "norm_layer(width)"),
        (call("torch.nn.BatchNorm2d", "width", momentum="0.01"), "norm_layer(width, momentum=0.99)"),
        (call("torch.nn.Conv2d", "i", "o", "3"), "norm_layer(i, o, 3)"),
        (call("torch.nn.Conv2d", "i", "o", "3", padding="1"), "norm_layer(i, o, 3, pad_mode='pad', padding=1)"),
        (call("torch.nn.ZeroPad3d", of("p", 1)), "norm_layer(p)"),
    ],
)
def test_factories(op_map: OpMap, made: object, expected: str) -> None:
    assert text(op_map.lower(made, FACTORY)) == expected


def test_a_factory_of_another_class_is_refused(op_map: OpMap) -> None:
    """The variable holds nn.BatchNorm2d; without a scale the layer would have to be another cell."""
    with pytest.raises(NoLowering, match=r"the variable nn\.BatchNorm2d"):
        op_map.lower(call("torch.nn.BatchNorm2d", "width", affine="False"), FACTORY)


def test_functions_as_values(op_map: OpMap) -> None:
    assert text(op_map.lower_value("torch.nn.functional.relu")) == "ops.relu"
    with pytest.raises(NoLowering):
        op_map.lower_value("torch.Tensor.view")


class Attributes(Mapping[str, object]):
    """A layer's attributes by name."""

    def __init__(self, layer: nn.Module) -> None:
        self.layer = layer

    def __getitem__(self, name: str) -> object:
        try:
            return getattr(self.layer, name)
        except AttributeError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError


LAYERS = [
    nn.Linear(4, 6, bias=False), nn.Bilinear(2, 3, 4), nn.Conv1d(4, 6, 3, padding=1), nn.Conv2d(4, 6, (1, 3), 2, "valid"),
    nn.Conv3d(4, 6, 3, bias=False, groups=2), nn.ConvTranspose2d(4, 6, 3, 2, 1, 1), nn.BatchNorm2d(4, momentum=0.03),
    nn.BatchNorm1d(4, affine=False), nn.LayerNorm(8, bias=False), nn.LayerNorm((4, 8), elementwise_affine=False),
    nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True), nn.RMSNorm(4), nn.LocalResponseNorm(3), nn.Embedding(5, 4, 1),
    nn.EmbeddingBag(5, 4, mode="sum"), nn.Dropout(0.3), nn.Dropout2d(), nn.ReLU(True), nn.LeakyReLU(0.2), nn.ELU(0.5), nn.GELU("tanh"),
    nn.PReLU(3, 0.1), nn.Softplus(2.0), nn.Hardtanh(-2.0, 2.0), nn.Softmax(-1), nn.LogSoftmax(), nn.GLU(1), nn.Threshold(0.1, 2.0),
    nn.MaxPool2d(3, 2, 1), nn.MaxPool1d(2, ceil_mode=True), nn.AvgPool2d(2, count_include_pad=False), nn.AdaptiveAvgPool2d((1, None)),
    nn.AdaptiveMaxPool1d(3), nn.Upsample(scale_factor=2.0, mode="bilinear"), nn.PixelShuffle(2), nn.Unfold(3), nn.Fold((4, 5), 2),
    nn.ReflectionPad2d((1, 2, 0, 1)), nn.ConstantPad1d(1, 0.5), nn.Flatten(2), nn.Unflatten(1, (2, 2)), nn.Identity(),
    nn.CosineSimilarity(-1), nn.CrossEntropyLoss(label_smoothing=0.1), nn.BCEWithLogitsLoss(reduction="sum"), nn.SmoothL1Loss(beta=0.5),
    nn.LSTM(3, 4, 2, bias=False, bidirectional=True), nn.GRU(3, 4, batch_first=True), nn.RNN(3, 4, nonlinearity="relu"),
    nn.LSTMCell(3, 4, bias=False), nn.MultiheadAttention(8, 2, batch_first=True), nn.MultiheadAttention(8, 2, bias=False, kdim=3, vdim=4),
    nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", norm_first=True), nn.TransformerDecoderLayer(8, 2, 16, 0.2, bias=False),
]  # fmt: skip
SOURCE = inspect.getsource(inspect.getmodule(Attributes) or inspect)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_built_layers_give_the_text_of_their_constructor_call(op_map: OpMap, layer: nn.Module) -> None:
    """Lowered from its attributes and from the call that made it, a layer is the same after defaults are filled in."""
    api = f"torch.nn.{type(layer).__name__}"
    made = op_map.from_instance(api, Attributes(layer))
    again = rebuilt(ast.unparse(made.expression), layer, op_map)
    assert ast.unparse(again.expression) == ast.unparse(made.expression)


def rebuilt(expected: str, layer: nn.Module, op_map: OpMap) -> object:
    """The lowering of the call in LAYERS that made the layer."""
    tree = next(
        n for n in ast.walk(ast.parse(SOURCE)) if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "LAYERS"
    )
    assert isinstance(tree.value, ast.List)
    node = tree.value.elts[LAYERS.index(layer)]
    assert isinstance(node, ast.Call)
    row = op_map.row(f"torch.nn.{type(layer).__name__}")
    assert row is not None
    # Positional and keyword style differ: every argument by the style that from_instance uses.
    names = [p.name for p in row.overloads[0].signature]
    given = {**dict(zip(names, node.args, strict=False)), **{k.arg: k.value for k in node.keywords}}
    required = [p.name for p in row.overloads[0].signature if not_optional(p.default)]
    args = [of(ast.unparse(given[name])) for name in required if name in given]
    rest = {name: of(ast.unparse(given[name])) for name in names if name in given and name not in required}
    defaults = {p.name: p.default for p in row.overloads[0].signature}
    rest = {
        name: item
        for name, item in rest.items()
        if item.values != (Literal(defaults[name]),) and not same(item, defaults[name])
    }
    return op_map.lower(call(row.api, *args, **rest))


def not_optional(default: object) -> bool:
    return type(default).__name__ == "_Missing"


def same(item: object, default: object) -> bool:
    return ast.unparse(item.expression) == repr(default)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("api", "name", "expected"),
    [
        ("torch.nn.BatchNorm2d", "running_mean", ("moving_mean", "same")),
        ("torch.nn.BatchNorm2d", "num_batches_tracked", (None, "drop")),
        ("torch.nn.Conv1d", "weight", ("weight", "conv1d_to_2d")),
        ("torch.nn.LSTM", "weight_ih_l1_reverse", ("weight_ih_l1_reverse", "same")),
        ("torch.nn.Transformer", "encoder.layers.0.norm1.weight", ("encoder.layers.0.norm1.gamma", "same")),
        ("torch.nn.Transformer", "encoder.layers.0.linear1.weight", ("encoder.layers.0.linear1.weight", "same")),
    ],
)
def test_weights(op_map: OpMap, api: str, name: str, expected: tuple[str | None, str]) -> None:
    row = op_map.row(api)
    assert row is not None
    rule = row.weight(name)
    assert (rule.mindspore, rule.rule) == expected


def test_every_weight_rule_exists(op_map: OpMap) -> None:
    from ms_port.weights.rules import RULES

    used = {rule.rule for api in op_map.apis for rule in (op_map.row(api) or pytest.fail(api)).weights}
    assert used <= {*RULES, "same", "drop"}


def test_variant_brings_its_own_weights(op_map: OpMap) -> None:
    plain = op_map.lower(call("torch.nn.ConvTranspose1d", "4", "6", "3"))
    own = op_map.lower(call("torch.nn.ConvTranspose1d", "4", "6", "3", output_padding="1", stride="2"))
    assert plain.row.weight("weight").rule == "conv1d_to_2d"
    assert own.row.weight("weight").rule == "same"
    assert own.functions == {"ConvTranspose1d"}


def test_torch_is_untouched() -> None:
    assert torch.get_default_dtype() is torch.float32
