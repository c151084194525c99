"""What MindSpore does otherwise, emitted naively: verification finds every one of it (docs/mindspore-notes.md)."""

from __future__ import annotations

from pathlib import Path

import pytest
from made import make_small

from ms_port.verify import verify

IMAGE, ROWS, IDS = "x:float32[2,3,8,8]", "x:float32[4,6]", "i:int64[4,6]<50"
INIT = "def __init__(self):\n    super().__init__()\n"

NAIVE: dict[str, tuple[str, list[str], str, str, str, str]] = {
    # what: level at which it shows, inputs, torch's layer and expression, the port's
    "selu": ("gradient", [ROWS], "", "F.selu(x)", "", "ops.selu(x)"),
    "output_padding": (
        "forward",
        [IMAGE],
        "nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1)",
        "self.f(x)",
        'nn.Conv2dTranspose(3, 4, 3, stride=2, pad_mode="pad", padding=1, output_padding=1, has_bias=True)',
        "self.f(x)",
    ),
    "bicubic": (
        "forward",
        [IMAGE],
        "",
        'F.interpolate(x, size=(13, 13), mode="bicubic", align_corners=False)',
        "",
        'ops.interpolate(x, size=(13, 13), mode="bicubic", align_corners=False)',
    ),
    "full without dtype": ("forward", [ROWS], "", "x + torch.full((4, 6), 1.5)", "", "x + ops.full((4, 6), 1.5)"),
    "mean of integers": ("forward", [ROWS, IDS], "", "x + i.float().mean()", "", "x + i.mean()"),
    "bitwise not": ("forward", [ROWS, IDS], "", "x + (~i).float()", "", "x + (~i).astype(ms.float32)"),
    "cast to integers": (
        "gradient",
        [ROWS],
        "",
        "x + (x * 5).int().float()",
        "",
        "x + (x * 5).astype(ms.int32).astype(ms.float32)",
    ),
    "cast to bool": ("gradient", [ROWS], "", "x + x.bool().float()", "", "x + x.astype(ms.bool_).astype(ms.float32)"),
    "pop from a list": ("crashed", [ROWS], "", "[x * 2, x * 3].pop(0) + x", "", "[x * 2, x * 3].pop(0) + x"),
    "logsumexp of -inf": (
        "forward",
        [ROWS],
        "",
        "torch.logsumexp(x.masked_fill(torch.arange(4)[:, None] == 1, float('-inf')), -1)",
        "",
        "ops.logsumexp(x.masked_fill(ops.arange(4)[:, None] == 1, float('-inf')), -1)",
    ),
    "std": ("forward", [ROWS], "", "x - x.std(-1, keepdim=True)", "", "x - x.std(-1, keepdims=True)"),
    "layer norm's eps": (
        "forward",
        [ROWS],
        "nn.LayerNorm(6)",
        "self.f(x * 0.01)",
        "nn.LayerNorm((6,))",
        "self.f(x * 0.01)",
    ),
    "gelu": ("forward", [ROWS], "nn.GELU()", "self.f(x)", "nn.GELU()", "self.f(x)"),
    "max pool's stride": ("forward", [IMAGE], "nn.MaxPool2d(2)", "self.f(x)", "nn.MaxPool2d(2)", "self.f(x)"),
    "dropout by position": ("forward", [ROWS], "nn.Dropout(0.1)", "self.f(x)", "nn.Dropout(0.1)", "self.f(x)"),
    "convolution's padding": (
        "forward",
        [IMAGE],
        "nn.Conv2d(3, 4, 3, stride=2, padding=1)",
        "self.f(x)",
        "nn.Conv2d(3, 4, 3, stride=2, has_bias=True)",
        "self.f(x)",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", NAIVE)
def test_it_is_found(what: str, tmp_path: Path) -> None:
    level, inputs, layer, expression, cell, port = NAIVE[what]
    names = ", ".join(spec.partition(":")[0] for spec in inputs)
    torch_code = f"def forward(self, {names}):\n    return {expression}\n"
    port_code = f"def construct(self, {names}):\n    return {port}\n"
    if layer:
        torch_code = f"{INIT}    self.f = {layer}\n{torch_code}"
        port_code = f"{INIT}    self.f = {cell}\n{port_code}"
    verdict = verify(make_small(tmp_path, torch_code, port_code, inputs), level="gradient")
    if level == "forward":
        assert verdict.forward.status == "not equal", verdict.forward
        assert verdict.forward.first is not None and verdict.forward.first.path == ("f" if layer else "")
    elif level == "crashed":
        assert verdict.forward.status == "crashed" and "Map" in verdict.forward.message, verdict.forward
    else:
        assert verdict.forward.status == "equal", verdict.forward
        assert verdict.gradient.status == "not equal", verdict.gradient
