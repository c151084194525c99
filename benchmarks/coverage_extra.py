"""Small models of further libraries: vit-pytorch, x-transformers, segmentation-models-pytorch, pytorchcv,
denoising-diffusion-pytorch, diffusers, open-clip, kornia. coverage_extra.yaml says how each is made and called.

The libraries are installed by hand where the zoo is run (``pip install --no-deps``: none is a dependency); the models
of one that isn't there are "not built".
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from benchmarks.coverage_run import Case, Example
from ms_port.inputs import example_tensors, parse_specs

TABLE = Path(__file__).with_suffix(".yaml")

PYTORCHCV = (
    "resnet10", "preresnet10", "senet16", "seresnet10", "sepreresnet10", "cbamresnet18", "bam_resnet18", "diaresnet10",
    "ibn_resnet50", "airnet50_1x64d_r2", "pyramidnet101_a360", "densenet121", "condensenet74_c4_g4", "peleenet",
    "wrn50_2", "drnc26", "dpn68", "darknet_tiny", "irevnet301", "bagnet9", "dla34", "hrnet_w18_small_v1", "vovnet39",
    "selecsls42", "hardnet39ds", "shufflenet_g1_wd4", "shufflenetv2_wd2", "menet108_8x1_g3", "mobilenet_wd4",
    "fdmobilenet_wd4", "mobilenetv2_wd4", "mobilenetv3_small_w7d20", "igcv3_wd4", "mnasnet_b1", "darts",
    "proxylessnas_cpu", "fbnet_cb", "xception", "inceptionv3", "inceptionv4", "inceptionresnetv2", "polynet",
    "nasnet_4a1056", "pnasnet5large", "spnasnet", "efficientnet_b0", "efficientnet_edge_small_b", "mixnet_s",
    "regnetx002", "ghostnet", "sknet26", "squeezenet_v1_0", "squeezeresnet_v1_0", "sqnxt23_w1", "fishnet99",
    "octresnet10_ad2", "octresnet50b_ad2", "res2net50_w14_s8", "isqrtcovresnet18", "resattnet56", "diracnet18v2",
    "nin_cifar10", "shakedropresnet20_cifar10", "fractalnet_cifar10", "ror3_56_cifar10", "rir_cifar10",
    "erfnet_cityscapes", "sinet_cityscapes", "bisenet_resnet18_celebamaskhq", "icnet_resnetd50b_cityscapes",
    "lwopenpose2d_mobilenet_cmupan_coco", "simplepose_resnet18_coco", "alphapose_fastseresnet101b_coco",
)  # fmt: skip


def cases(zoo: str) -> Iterator[Case]:
    """The models of the table, then pytorchcv's at the image sizes that their names tell."""
    for name, row in yaml.safe_load(TABLE.read_text(encoding="utf-8")).items():
        yield Case(name, partial(_example, row))
    for name in PYTORCHCV:
        row = {"make": "pytorchcv.model_provider:get_model", "arguments": {"name": name}}
        size = _side(name)
        yield Case(f"pytorchcv.{name}", partial(_example, {**row, "inputs": [f"x:float32[2,3,{size},{size}]"]}))


def _side(name: str) -> int:
    if "cifar" in name:
        return 32
    if "inception" in name:
        return 299
    return 256 if any(part in name for part in ("cityscapes", "celeba", "coco")) else 224


def _example(row: Mapping[str, Any]) -> Example:
    """``make`` is ``module:name`` of a class or factory; an input is a specification, or a plain value."""
    module, _, attribute = row["make"].partition(":")
    arguments = {key: _tuples(value) for key, value in row.get("arguments", {}).items()}
    specs = [text for text in [*row["inputs"], *row.get("named", ())] if isinstance(text, str)]
    made = example_tensors(parse_specs(specs))
    named = [text.partition(":")[0] for text in row.get("named", ())]
    places = [made[text.partition(":")[0]] if isinstance(text, str) else text for text in row["inputs"]]
    target = getattr(importlib.import_module(module), attribute)
    return Example(target, tuple(places), {name: made[name] for name in named}, arguments)


def _tuples(value: Any) -> Any:
    """Lists of YAML as the tuples that constructors ask for."""
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


# --- models that are put together from parts ------------------------------------------------------------------------


def lm(layers: str, wrapper: Mapping[str, Any], **settings: Any) -> Any:
    """x-transformers' language model: ``layers`` names the class of its attention layers."""
    xt = importlib.import_module("x_transformers")
    made = getattr(xt, layers)(dim=64, depth=2, heads=4, attn_dim_head=16, **settings)
    return xt.TransformerWrapper(num_tokens=100, max_seq_len=64, attn_layers=made, **wrapper)


def vit() -> Any:
    """x-transformers' vision model."""
    xt = importlib.import_module("x_transformers")
    made = xt.Encoder(dim=64, depth=2, heads=4)
    return xt.ViTransformerWrapper(image_size=32, patch_size=8, num_classes=10, attn_layers=made)


def clip(layers: int | Sequence[int] = 2, image_size: int = 32) -> Any:
    """open-clip's two towers, the image's a transformer or (``layers`` a sequence) a ResNet."""
    image = {"layers": layers, "width": 64, "head_width": 16, "image_size": image_size, "patch_size": 8}
    words = {"context_length": 16, "vocab_size": 100, "width": 64, "heads": 4, "layers": 2}
    return importlib.import_module("open_clip.model").CLIP(embed_dim=32, vision_cfg=image, text_cfg=words)
