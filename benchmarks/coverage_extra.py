"""Small models of further libraries: vit-pytorch, x-transformers, segmentation-models-pytorch, pytorchcv,
denoising-diffusion-pytorch, diffusers, open-clip, kornia.

Each is installed by hand where the zoo is run (``pip install --no-deps``: none is a dependency); a library that isn't
there leaves its models "not built".
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage_run import Case, Example

BATCH = 2
Inputs = Callable[[], tuple[Any, ...]]


def cases(zoo: str) -> Iterator[Case]:
    """Every library's models, in the order of the tables below."""
    for library in (_vit_pytorch, _x_transformers, _segmentation, _pytorchcv, _diffusion, _diffusers, _others):
        yield from library()


def _case(name: str, place: str, arguments: Mapping[str, Any], inputs: Inputs, **named: Callable[[], Any]) -> Case:
    """``place`` is ``module:name`` of a class or factory."""

    def make() -> Example:
        torch.manual_seed(1)
        module, _, attribute = place.partition(":")
        kwargs = {key: value() for key, value in named.items()}
        return Example(getattr(importlib.import_module(module), attribute), inputs(), kwargs, dict(arguments))

    return Case(name, make)


def _image(size: int = 64, channels: int = 3) -> tuple[Tensor]:
    return (torch.randn(BATCH, channels, size, size),)


def _words(length: int = 16, words: int = 100) -> Tensor:
    return torch.randint(0, words, (BATCH, length))


def _mask(length: int = 16) -> Tensor:
    mask = torch.ones(BATCH, length, dtype=torch.bool)
    mask[-1, -5:] = False
    return mask


# --- vision ---------------------------------------------------------------------------------------------------------


def _vit_pytorch() -> Iterator[Case]:
    vit = {"image_size": 64, "patch_size": 16, "num_classes": 10, "dim": 64, "depth": 2, "heads": 4, "mlp_dim": 128}
    simple = vit
    stages = {"num_classes": 10, "dim": 32, "depth": (1, 1, 1, 1)}
    four = (32, 64, 96, 128)
    rows: tuple[tuple[str, dict[str, Any], int], ...] = (
        ("vit_pytorch:ViT", {**vit, "dropout": 0.1, "emb_dropout": 0.1}, 64),
        ("vit_pytorch:SimpleViT", simple, 64),
        ("vit_pytorch.simple_vit_with_register_tokens:SimpleViT", {**simple, "num_register_tokens": 4}, 64),
        ("vit_pytorch.simple_vit_with_qk_norm:SimpleViT", simple, 64),
        ("vit_pytorch.deepvit:DeepViT", vit, 64),
        ("vit_pytorch.cait:CaiT", {**vit, "cls_depth": 2, "layer_dropout": 0.0}, 64),
        ("vit_pytorch.t2t:T2TViT", {k: vit[k] for k in ("dim", "depth", "heads", "mlp_dim", "image_size", "num_classes")}, 64),
        ("vit_pytorch.cct:CCT", {"img_size": 64, "embedding_dim": 64, "n_conv_layers": 2, "kernel_size": 7, "stride": 2,
                                 "padding": 3, "pooling_kernel_size": 3, "pooling_stride": 2, "pooling_padding": 1,
                                 "num_layers": 2, "num_heads": 4, "mlp_ratio": 2.0, "num_classes": 10}, 64),
        ("vit_pytorch.cross_vit:CrossViT", {"image_size": 64, "num_classes": 10, "depth": 2, "sm_dim": 32, "sm_patch_size": 16,
                                            "sm_enc_depth": 1, "sm_enc_heads": 2, "sm_enc_mlp_dim": 64, "lg_dim": 64,
                                            "lg_patch_size": 32, "lg_enc_depth": 1, "lg_enc_heads": 2, "lg_enc_mlp_dim": 64,
                                            "cross_attn_depth": 1, "cross_attn_heads": 2}, 64),
        ("vit_pytorch.pit:PiT", {**vit, "patch_size": 8, "depth": (1, 1, 1)}, 64),
        ("vit_pytorch.levit:LeViT", {"image_size": 64, "num_classes": 10, "stages": 2, "dim": (32, 64), "depth": 2, "heads": (2, 4),
                                     "mlp_mult": 2}, 64),
        ("vit_pytorch.cvt:CvT", {"num_classes": 10, "s1_emb_dim": 32, "s2_emb_dim": 32, "s3_emb_dim": 64, "s3_depth": 2,
                                 "s1_heads": 1, "s2_heads": 2, "s3_heads": 2}, 64),
        ("vit_pytorch.twins_svt:TwinsSVT", {"num_classes": 10, "s1_emb_dim": 32, "s1_local_patch_size": 4, "s2_emb_dim": 32,
                                            "s2_local_patch_size": 4, "s3_emb_dim": 32, "s3_local_patch_size": 4, "s3_depth": 1,
                                            "s4_emb_dim": 32, "s4_local_patch_size": 2, "s4_depth": 1}, 128),
        ("vit_pytorch.regionvit:RegionViT", {"dim": four, "depth": (1, 1, 1, 1), "window_size": 7, "num_classes": 10}, 224),
        ("vit_pytorch.crossformer:CrossFormer", {"num_classes": 10, "dim": four, "depth": (1, 1, 1, 1),
                                                 "global_window_size": (8, 4, 2, 1), "local_window_size": 7}, 224),
        ("vit_pytorch.scalable_vit:ScalableViT", {**stages, "heads": (2, 2, 2, 2), "ssa_dim_key": (16, 16, 16, 16),
                                                  "reduction_factor": (8, 4, 2, 1), "window_size": (16, 8, None, None)}, 64),
        ("vit_pytorch.sep_vit:SepViT", {**stages, "dim_head": 16, "heads": (1, 1, 2, 2), "window_size": 7}, 224),
        ("vit_pytorch.max_vit:MaxViT", {"num_classes": 10, "dim_conv_stem": 16, "dim": 32, "dim_head": 16, "depth": (1, 1),
                                        "window_size": 4}, 64),
        ("vit_pytorch.nest:NesT", {"image_size": 64, "patch_size": 4, "dim": 32, "heads": 2, "num_hierarchies": 3,
                                   "block_repeats": (1, 1, 1), "num_classes": 10}, 64),
        ("vit_pytorch.mobile_vit:MobileViT", {"image_size": (64, 64), "dims": [32, 48, 64], "num_classes": 10,
                                              "channels": [16, 16, 24, 24, 32, 32, 48, 48, 64, 64, 96]}, 64),
        ("vit_pytorch.xcit:XCiT", {**vit, "cls_depth": 1, "local_patch_kernel_size": 3}, 64),
        ("vit_pytorch.vit_for_small_dataset:ViT", vit, 64),
        ("vit_pytorch.parallel_vit:ViT", {**vit, "num_parallel_branches": 2}, 64),
        ("vit_pytorch.learnable_memory_vit:ViT", vit, 64),
        ("vit_pytorch.look_vit:LookViT", {"dim": 32, "num_classes": 10, "image_size": 64, "patch_size": 16, "depth": 2, "heads": 2,
                                          "dim_head": 16, "highres_patch_size": 8, "highres_dim_head": 16, "highres_heads": 2}, 64),
    )  # fmt: skip
    for place, arguments, size in rows:
        module, _, name = place.partition(":")
        yield _case(f"{module.rpartition('.')[2]}.{name}", place, arguments, partial(_image, size))
    video = {**vit, "frames": 4, "image_patch_size": 16, "frame_patch_size": 2}
    del video["patch_size"]
    yield _case("vit_pytorch.vit_3d", "vit_pytorch.vit_3d:ViT", video, lambda: (torch.randn(BATCH, 3, 4, 64, 64),))
    series = {"seq_len": 64, "patch_size": 16, "num_classes": 10, "dim": 64, "depth": 2, "heads": 4, "mlp_dim": 128}
    yield _case("vit_pytorch.vit_1d", "vit_pytorch.vit_1d:ViT", series, lambda: (torch.randn(BATCH, 3, 64),))


def _segmentation() -> Iterator[Case]:
    for name in ("Unet", "UnetPlusPlus", "MAnet", "Linknet", "FPN", "PSPNet", "PAN", "DeepLabV3", "DeepLabV3Plus", "UPerNet"):
        arguments = {"encoder_name": "resnet18", "encoder_weights": None, "classes": 3}
        yield _case(f"smp.{name}", f"segmentation_models_pytorch:{name}", arguments, _image)
    arguments = {"encoder_name": "mit_b0", "encoder_weights": None, "classes": 3}
    yield _case("smp.Segformer", "segmentation_models_pytorch:Segformer", arguments, _image)
    arguments = {"encoder_name": "tu-mobilenetv3_small_050", "encoder_weights": None, "classes": 3}
    yield _case("smp.Unet timm", "segmentation_models_pytorch:Unet", arguments, _image)


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


def _pytorchcv() -> Iterator[Case]:
    for name in PYTORCHCV:
        size = 32 if "cifar" in name else 224
        size = 299 if "inception" in name else 256 if any(k in name for k in ("cityscapes", "celeba", "coco")) else size
        yield _case(f"pytorchcv.{name}", "pytorchcv.model_provider:get_model", {"name": name}, partial(_image, size))


# --- diffusion ------------------------------------------------------------------------------------------------------


def _diffusion() -> Iterator[Case]:
    where = "denoising_diffusion_pytorch"
    times = {"time": lambda: torch.tensor([3, 7])}
    sizes = {"dim": 16, "dim_mults": (1, 2), "flash_attn": False, "attn_dim_head": 16}
    yield _case("ddpm.Unet", f"{where}:Unet", sizes, partial(_image, 16), **times)
    yield _case("ddpm.Unet flash", f"{where}:Unet", {**sizes, "flash_attn": True}, partial(_image, 16), **times)
    line = {"dim": 16, "dim_mults": (1, 2), "channels": 4}
    yield _case("ddpm.Unet1D", f"{where}:Unet1D", line, lambda: (torch.randn(BATCH, 4, 32),), **times)
    yield _case(
        "ddpm.KarrasUnet", f"{where}:KarrasUnet", {"image_size": 16, "dim": 16, "num_downsamples": 1, "num_blocks_per_stage": 1,
        "attn_res": (8,), "attn_dim_head": 16}, lambda: (torch.randn(BATCH, 4, 16, 16),), time=lambda: torch.tensor([0.3, 0.7]),
    )  # fmt: skip


def _diffusers() -> Iterator[Case]:
    two = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8}
    noise = lambda c=4, n=16: (torch.randn(BATCH, c, n, n), torch.tensor([3, 7]))  # noqa: E731
    text = lambda d=32: torch.randn(BATCH, 8, d)  # noqa: E731
    rows: tuple[tuple[str, dict[str, Any], Inputs, dict[str, Callable[[], Any]]], ...] = (
        ("UNet2DModel", {**two, "sample_size": 16, "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
                         "up_block_types": ("AttnUpBlock2D", "UpBlock2D")}, partial(noise, 3), {}),
        ("UNet2DConditionModel", {**two, "sample_size": 16, "cross_attention_dim": 32, "attention_head_dim": 8,
                                  "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
                                  "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D")}, noise,
         {"encoder_hidden_states": text}),
        ("ControlNetModel", {**two, "cross_attention_dim": 32, "attention_head_dim": 8,
                             "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
                             "conditioning_embedding_out_channels": (8, 16)}, noise,
         {"encoder_hidden_states": text, "controlnet_cond": lambda: torch.randn(BATCH, 3, 32, 32)}),
        ("AutoencoderKL", {**two, "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2,
                           "latent_channels": 4}, partial(_image, 32), {}),
        ("AutoencoderTiny", {"encoder_block_out_channels": (16, 16), "decoder_block_out_channels": (16, 16),
                             "num_encoder_blocks": (1, 1), "num_decoder_blocks": (1, 1)}, partial(_image, 32), {}),
        ("VQModel", {**two, "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2,
                     "latent_channels": 3, "num_vq_embeddings": 32}, partial(_image, 32), {}),
        ("UNet1DModel", {"sample_size": 32, "in_channels": 4, "out_channels": 4, "extra_in_channels": 16,
                         "block_out_channels": (32, 32, 64)}, lambda: (torch.randn(BATCH, 4, 32), torch.tensor([3, 7])), {}),
        ("DiTTransformer2DModel", {"num_attention_heads": 2, "attention_head_dim": 16, "in_channels": 4, "num_layers": 2,
                                   "sample_size": 8, "num_embeds_ada_norm": 100}, lambda: (torch.randn(BATCH, 4, 8, 8),),
         {"timestep": lambda: torch.tensor([3, 7]), "class_labels": lambda: torch.tensor([1, 5])}),
        ("PixArtTransformer2DModel", {"num_attention_heads": 2, "attention_head_dim": 16, "in_channels": 4, "num_layers": 2,
                                      "sample_size": 8, "cross_attention_dim": 32, "caption_channels": 32},
         lambda: (torch.randn(BATCH, 4, 8, 8),), {"encoder_hidden_states": text, "timestep": lambda: torch.tensor([3, 7])}),
        ("SD3Transformer2DModel", {"sample_size": 8, "patch_size": 2, "in_channels": 4, "num_layers": 2, "attention_head_dim": 16,
                                   "num_attention_heads": 2, "joint_attention_dim": 32, "caption_projection_dim": 32,
                                   "pooled_projection_dim": 16, "out_channels": 4, "pos_embed_max_size": 8},
         lambda: (torch.randn(BATCH, 4, 8, 8),),
         {"encoder_hidden_states": text, "pooled_projections": lambda: torch.randn(BATCH, 16),
          "timestep": lambda: torch.tensor([3, 7])}),
        ("FluxTransformer2DModel", {"in_channels": 4, "num_layers": 1, "num_single_layers": 1, "attention_head_dim": 16,
                                    "num_attention_heads": 2, "joint_attention_dim": 32, "pooled_projection_dim": 32,
                                    "axes_dims_rope": (4, 4, 8)}, lambda: (torch.randn(BATCH, 16, 4),),
         {"encoder_hidden_states": text, "pooled_projections": lambda: torch.randn(BATCH, 32),
          "timestep": lambda: torch.tensor([0.3, 0.7]), "img_ids": lambda: torch.randint(0, 8, (16, 3)).float(),
          "txt_ids": lambda: torch.zeros(8, 3)}),
        ("LTXVideoTransformer3DModel", {"in_channels": 8, "out_channels": 8, "num_attention_heads": 2, "attention_head_dim": 16,
                                        "cross_attention_dim": 32, "num_layers": 1, "caption_channels": 16},
         lambda: (torch.randn(BATCH, 32, 8), torch.randn(BATCH, 8, 16), torch.tensor([3, 7]),
                  torch.ones(BATCH, 8), 2, 4, 4), {}),
        ("SanaTransformer2DModel", {"in_channels": 4, "out_channels": 4, "num_layers": 1, "attention_head_dim": 16,
                                    "num_attention_heads": 2, "num_cross_attention_heads": 2, "cross_attention_head_dim": 16,
                                    "cross_attention_dim": 32, "caption_channels": 16, "sample_size": 8},
         lambda: (torch.randn(BATCH, 4, 8, 8), torch.randn(BATCH, 8, 16), torch.tensor([3, 7])), {}),
    )  # fmt: skip
    for name, arguments, inputs, named in rows:
        yield _case(f"diffusers.{name}", f"diffusers:{name}", arguments, inputs, **named)


# --- language and the rest ------------------------------------------------------------------------------------------


def lm(layers: str, wrapper: Mapping[str, Any], **settings: Any) -> torch.nn.Module:
    """x-transformers' language model: ``layers`` names the class of its attention layers."""
    import x_transformers as xt

    made = getattr(xt, layers)(dim=64, depth=2, heads=4, attn_dim_head=16, **settings)
    return xt.TransformerWrapper(num_tokens=100, max_seq_len=64, attn_layers=made, **wrapper)


def vit(**settings: Any) -> torch.nn.Module:
    """x-transformers' vision model."""
    import x_transformers as xt

    made = xt.Encoder(dim=64, depth=2, heads=4, **settings)
    return xt.ViTransformerWrapper(image_size=32, patch_size=8, num_classes=10, attn_layers=made)


def _x_transformers() -> Iterator[Case]:
    here = "benchmarks.coverage_extra"
    rows: dict[str, dict[str, Any]] = {
        "Decoder": {"layers": "Decoder"},
        "Encoder": {"layers": "Encoder"},
        "rotary, rms norm, glu": {"layers": "Decoder", "rotary_pos_emb": True, "use_rmsnorm": True, "ff_glu": True},
        "flash": {"layers": "Decoder", "attn_flash": True},
        "alibi": {"layers": "Decoder", "alibi_pos_bias": True},
        "relative positions": {"layers": "Decoder", "rel_pos_bias": True},
        "dynamic positions": {"layers": "Decoder", "dynamic_pos_bias": True},
        "one key head": {"layers": "Decoder", "attn_one_kv_head": True},
        "qk norm": {"layers": "Decoder", "attn_qk_norm": True},
        "talking heads": {"layers": "Decoder", "attn_pre_talking_heads": True, "attn_post_talking_heads": True},
        "memory keys": {"layers": "Encoder", "attn_num_mem_kv": 4},
        "gated": {"layers": "Decoder", "gate_residual": True, "attn_gate_values": True},
        "sandwich norm, relu squared": {"layers": "Decoder", "sandwich_norm": True, "ff_relu_squared": True},
        "shifted tokens": {"layers": "Decoder", "shift_tokens": 1},
        "residual attention, macaron": {"layers": "Encoder", "residual_attn": True, "macaron": True},
    }
    for name, settings in rows.items():
        mask = {"mask": _mask} if settings["layers"] == "Encoder" else {}
        yield _case(f"xt.{name}", f"{here}:lm", {"wrapper": {}, **settings}, lambda: (_words(),), **mask)
    extra = {"layers": "Decoder", "wrapper": {"num_memory_tokens": 4, "tie_embedding": True}}
    yield _case("xt.memory tokens", f"{here}:lm", extra, lambda: (_words(),))
    yield _case("xt.ViT", f"{here}:vit", {}, partial(_image, 32))


def clip(**settings: Any) -> torch.nn.Module:
    """open-clip's two towers."""
    from open_clip.model import CLIP

    image = {"layers": 2, "width": 64, "head_width": 16, "image_size": 32, "patch_size": 8}
    words = {"context_length": 16, "vocab_size": 100, "width": 64, "heads": 4, "layers": 2}
    return CLIP(embed_dim=32, vision_cfg=image | settings, text_cfg=words)


def _others() -> Iterator[Case]:
    here = "benchmarks.coverage_extra"
    both = lambda: (torch.randn(BATCH, 3, 32, 32), _words())  # noqa: E731
    yield _case("open_clip.CLIP", f"{here}:clip", {}, both)
    yield _case("open_clip.CLIP resnet", f"{here}:clip", {"layers": (1, 1, 1, 1), "image_size": 64}, lambda: (torch.randn(BATCH, 3, 64, 64), _words()))  # fmt: skip
    yield _case("kornia.DISK", "kornia.feature:DISK", {}, partial(_image, 64))
    yield _case("kornia.HardNet", "kornia.feature:HardNet", {}, lambda: (torch.rand(BATCH, 1, 32, 32),))
    yield _case("kornia.SOSNet", "kornia.feature:SOSNet", {}, lambda: (torch.rand(BATCH, 1, 32, 32),))
    yield _case("kornia.HyNet", "kornia.feature:HyNet", {}, lambda: (torch.rand(BATCH, 1, 32, 32),))
    yield _case("kornia.TinyViT", "kornia.contrib.models.tiny_vit:TinyViT", {"img_size": 64, "embed_dims": (32, 32, 64, 64), "depths": (1, 1, 1, 1), "num_heads": (1, 1, 2, 2), "window_sizes": (4, 4, 4, 2)}, partial(_image, 64))  # fmt: skip
    yield _case("kornia.Sobel", "kornia.filters:Sobel", {}, partial(_image, 32))
    yield _case("kornia.GaussianBlur2d", "kornia.filters:GaussianBlur2d", {"kernel_size": (5, 5), "sigma": (1.5, 1.5)}, partial(_image, 32))  # fmt: skip
    yield _case("kornia.RgbToLab", "kornia.color:RgbToLab", {}, lambda: (torch.rand(BATCH, 3, 32, 32),))
