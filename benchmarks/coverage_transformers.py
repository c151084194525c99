"""Small configurations of every architecture of transformers, and inputs made from its configuration and ``forward``.

Nothing here knows a model: sizes are recognised by the names of the configuration's fields, inputs by the names of
``forward``'s parameters. Several sizes and inputs are tried; the first that torch runs is the case.
"""

from __future__ import annotations

import inspect
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from benchmarks.coverage_run import Case, Example

BATCH, LENGTH = 2, 16

HEADS = (
    "CAUSAL_LM", "MASKED_LM", "SEQ_TO_SEQ_CAUSAL_LM", "SEQUENCE_CLASSIFICATION", "TOKEN_CLASSIFICATION",
    "QUESTION_ANSWERING", "IMAGE_CLASSIFICATION", "OBJECT_DETECTION", "CTC", "SEMANTIC_SEGMENTATION",
    "AUDIO_CLASSIFICATION", "SPEECH_SEQ_2_SEQ", "IMAGE_TEXT_TO_TEXT", "DEPTH_ESTIMATION", "BACKBONE",
)  # fmt: skip


def cases(zoo: str) -> Iterator[Case]:
    """Base models with their default attention (mostly sdpa), the heads, then base models with eager attention.

    Each of the three is shuffled, always alike, so that the first hundred are a fair sample.
    """
    from transformers.models.auto import modeling_auto

    def classes(table: str) -> Iterator[tuple[str, str]]:
        for model_type, names in getattr(modeling_auto, f"{table}_MAPPING_NAMES").items():
            yield model_type, names if isinstance(names, str) else names[0]

    seen: set[str] = set()
    heads = [f"MODEL_FOR_{head}" for head in HEADS]
    for tables, attention in ((["MODEL"], None), (heads, None), (["MODEL"], "eager")):
        group = {}
        for model_type, name in (pair for table in tables for pair in classes(table)):
            shown = f"{name} {attention}" if attention else name
            if shown not in seen:
                seen.add(shown)
                group[shown] = partial(example, model_type, name, attention)
        yield from (Case(shown, group[shown]) for shown in sorted(group, key=lambda n: zlib.crc32(n.encode())))


def example(model_type: str, name: str, attention: str | None) -> Example:
    """The model's class, its configuration, and inputs that torch accepts. Raises what torch raised at last."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    cls = getattr(transformers, name)
    error: Exception | None = None
    for shrink in SHRINKS:
        try:
            config = shrink(CONFIG_MAPPING[model_type])
            if attention is not None:
                config._attn_implementation = attention
            with torch.device("meta"):
                size = sum(p.numel() for p in cls(config).parameters())
            if size > 60e6:
                raise ValueError(f"{size / 1e6:.0f} million parameters")
            model = cls(config).eval()
        except Exception as raised:
            error = error or raised
            continue
        for shape in SHAPES:
            try:
                kwargs = inputs(model, config, shape)
                with torch.no_grad():
                    model(**kwargs)
            except Exception as raised:
                error = error or raised
                continue
            return Example(cls, (), kwargs, {"config": config})
    assert error is not None
    raise error


# --- configurations -------------------------------------------------------------------------------------------------

_SIZES: tuple[tuple[str, int], ...] = (
    (r"(num_|n_)?(hidden_|encoder_|decoder_|attention_)?(layers?|blocks)|depth|(en|de)coder_depth", 2),
    (r"(?!.*feat_extract).*_(num_)?(hidden_)?layers", 2),
    (r"(num_|n_)(key_value_|kv_)heads", 2),
    (r".*(attention_heads|num_heads|n_heads?)", 4),
    (r"n_embd|d_model|(en|de)coder_dim|.*hidden_(size|dim)|dim", 64),
    (r"(embed|embedding|input|projection|proj|model)_(size|dim)", 64),
    (r".*(intermediate_size|ffn_dim|ffn_hidden_size|feedforward_dim|dim_feedforward)|d_ff|n_inner|ffn_size", 128),
    (r"(attention_)?head_dim|d_kv|(qk_nope|qk_rope|v|qk|kv|index|mamba|linear|swa|global).*_head_dim", 16),
    (r"(kv|q|qk)_lora_rank", 16),
    (r"(num|n)_(local_|routed_)?experts|moe_num_experts", 4),
    (r"num_experts_per_tok|moe_topk|moe_k|top_k|topk_group|n_group", 2),
    (r"max_position_embeddings|n_positions|max_sequence_length|context_length", 64),
    (r"vocab_size(_per_layer_input)?", 160),
    (r"rotary_dim", 8),
    (r"num_queries", 10),
)  # fmt: skip


def small(cls: type) -> Any:
    """Two layers, width 64: recognised by the fields' names, in the sub-configurations too."""
    return _shrunken(cls, _SIZES)


def kinds_of_layers(cls: type) -> Any:
    """The same with one layer of each kind that the configuration lists."""
    return _shrunken(cls, _SIZES, kinds=True)


def one_head(cls: type) -> Any:
    """Two layers with one head of the usual size, whose rotations are cut into sections of fixed sizes."""
    wide = tuple((p, 128 if size == 64 else 1 if "heads" in p else size) for p, size in _SIZES if "head_dim" not in p)
    return _shrunken(cls, wide)


def shallow(cls: type) -> Any:
    """Two layers, few words; all other sizes as they are by default."""
    return _shrunken(cls, (_SIZES[0], _SIZES[1], ("vocab_size", 160)))


def default(cls: type) -> Any:
    """The configuration as it is; it may be small enough."""
    return cls()


SHRINKS: tuple[Callable[[type], Any], ...] = (small, kinds_of_layers, one_head, shallow, default)


def _shrunken(cls: Any, sizes: tuple[tuple[str, int], ...], kinds: bool = False) -> Any:
    whole = cls()
    given: dict[str, Any] = {}
    for name, value in whole.__dict__.items():
        if type(value) is int and (size := _size(name, value, sizes)) != value:
            given[name] = size
            if "key_value_heads" in name and value == whole.__dict__.get("num_attention_heads"):
                given[name] = _size("num_attention_heads", value, sizes)
        elif name in getattr(cls, "sub_configs", {}) and hasattr(value, "to_dict"):
            given[name] = _shrunken(type(value), sizes, kinds).to_dict()
        elif len(sizes) > 3 and isinstance(value, dict) and "mrope_section" in value:
            given[name] = {**value, "mrope_section": [2, 3, 3]}  # half of a head
        elif len(sizes) > 3 and isinstance(value, list | tuple) and (found := _list(name, value)) is not None:
            given[name] = found
    if kinds:
        given |= _kinds(whole)
    if "image_size" in whole.__dict__ and type(whole.image_size) is int and len(sizes) > 3:
        patch = whole.__dict__.get("patch_size", 16)
        given["image_size"] = 4 * patch if type(patch) is int and patch >= 8 else 64
    words = given.get("vocab_size", whole.__dict__.get("vocab_size"))
    for name, value in whole.__dict__.items():
        if (
            name.endswith(("_token_id", "_token_index"))
            and type(value) is int
            and type(words) is int
            and value >= words
        ):
            given[name] = words - 1 - value % 8
    return cls(**given)


def _kinds(whole: Any) -> dict[str, Any]:
    """Lists with an entry a layer, cut to the layers at which a kind is first met."""
    count = whole.__dict__.get("num_hidden_layers")
    lists = {k: v for k, v in whole.__dict__.items() if isinstance(v, list) and v and len(v) == count}
    if not lists:
        return {}
    rows = [repr(row) for row in zip(*lists.values(), strict=True)]
    first = sorted({rows.index(row) for row in rows})[:4]
    first = first if len(first) > 1 else [first[0]] * 2
    return {"num_hidden_layers": len(first)} | {k: [v[i] for i in first] for k, v in lists.items()}


def _size(name: str, value: int, sizes: tuple[tuple[str, int], ...]) -> int:
    for pattern, size in sizes:
        if re.fullmatch(pattern, name):
            return min(size, value) if value > 0 else value
    return value


def _list(name: str, value: Any) -> Any:
    """Sizes by stage: the same number of stages, each of them small; None for what is none."""
    if not value or not all(type(v) is int for v in value):
        return None
    if re.fullmatch(r"(hidden|embed|neck_hidden|embedding|stem)_(sizes|dims?)|channels", name):
        return type(value)(16 * (i + 1) for i in range(len(value))) if len(value) < 8 else None
    if name == "depths":
        return type(value)(min(v, 2) for v in value)
    if name in ("conv_dim", "tdnn_dim"):
        return type(value)([32] * len(value))
    return None


# --- inputs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """How the inputs are made where the configuration leaves it open. Sizes of 0 are the configuration's own."""

    image: int = 0
    sound: int = 4000
    frames: int = 0
    last: bool = False
    """The features of a sound come last."""
    channel: bool = False
    """A wave has an axis of channels."""
    cache: bool = True
    """False: ``use_cache=False`` is given."""


SHAPES = (
    Shape(),
    Shape(cache=False),
    Shape(last=True),
    Shape(channel=True),
    Shape(image=224, sound=16000, frames=3000),
    Shape(sound=16000, frames=3000, last=True),
)


def inputs(model: Any, config: Any, shape: Shape) -> dict[str, Any]:
    """An argument for each parameter of ``forward`` whose name is known. Masks are mixed, never all ones."""
    torch.manual_seed(1)
    names = list(inspect.signature(model.forward).parameters)
    main = getattr(model, "main_input_name", "input_ids")
    read = partial(_field, config)
    frames = shape.frames or 2 * (read("max_source_positions") or 50)
    features = read("num_mel_bins", "input_dim", "feature_size", "input_feat_per_channel") or 80
    side = _side(read, shape.image)
    wave = (BATCH, 1, shape.sound) if shape.channel else (BATCH, shape.sound)
    context = (BATCH, read("context_length", "patch_length") or 32, read("num_input_channels") or 1)
    makers: dict[str, Callable[[], torch.Tensor]] = {
        "input_ids": lambda: _words(read, LENGTH),
        "attention_mask": _mask,
        "bbox": lambda: torch.randint(0, 30, (BATCH, LENGTH, 4)).sort(-1).values,
        "decoder_input_ids": lambda: _words(read, LENGTH // 2),
        "pixel_values": lambda: _image(read, shape.image),
        "input_values": lambda: torch.randn(wave),
        "input_features": lambda: torch.randn((BATCH, frames, features) if shape.last else (BATCH, features, frames)),
        "pixel_values_videos": lambda: torch.randn(BATCH, read("num_frames") or 4, 3, side, side),
        "past_values": lambda: torch.randn(context),
        "qformer_input_ids": lambda: _words(read, LENGTH),
    }
    wanted = [main, "input_ids", "pixel_values", "decoder_input_ids", "qformer_input_ids"]
    if "pixel_values" in names and "input_ids" in names and read("image_token_id", "image_token_index") is not None:
        wanted = ["input_ids"]  # as many image tokens as there are patches: text alone runs too
    required = [p.name for p in inspect.signature(model.forward).parameters.values() if p.default is p.empty]
    found: dict[str, Any] = {
        name: makers[name]() for name in dict.fromkeys([*wanted, *required]) if name in names and name in makers
    }
    if "decoder_input_ids" in found and not getattr(config, "is_encoder_decoder", True):
        del found["decoder_input_ids"]
    if "input_ids" in found and "attention_mask" in names:
        found["attention_mask"] = _mask()
    if "bbox" in names:
        found["bbox"] = makers["bbox"]()
    if not shape.cache and "use_cache" in names:
        found["use_cache"] = False
    return found


def _field(config: Any, *names: str) -> Any:
    """The first field of that name in the configuration or those below it; None where there is none."""
    below = [v for v in config.__dict__.values() if hasattr(v, "to_dict")]
    for name in names:
        if (value := config.__dict__.get(name)) is not None:
            return value
        for part in below:
            if (value := _field(part, name)) is not None:
                return value
    return None


def _words(read: Callable[..., Any], length: int) -> torch.Tensor:
    """Ids that are no special token: of the first hundred, none of the lowest."""
    words = read("vocab_size") or 100
    names = "pad_token_id eos_token_id bos_token_id image_token_id image_token_index".split()
    special = [read(name) for name in names]
    allowed = [i for i in range(5, max(int(words), 7) - 1) if i not in special][:100]
    return torch.tensor(allowed)[torch.randint(0, len(allowed), (BATCH, length))]


def _mask() -> torch.Tensor:
    mask = torch.ones(BATCH, LENGTH, dtype=torch.int64)
    mask[-1, -5:] = 0
    return mask


def _side(read: Callable[..., Any], usual: int) -> int:
    side = usual or read("image_size") or 64
    return int(side if isinstance(side, int) else side[0])


def _image(read: Callable[..., Any], usual: int) -> torch.Tensor:
    side = _side(read, usual)
    if (frames := read("num_frames")) is not None:
        return torch.randn(BATCH, frames, read("num_channels", "in_channels", "in_chans") or 3, side, side)
    return torch.randn(BATCH, read("num_channels", "in_channels", "in_chans") or 3, side, side)
