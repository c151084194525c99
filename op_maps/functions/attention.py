"""Scaled dot-product attention."""

from __future__ import annotations

import math

import mindspore as ms
from mindspore import Tensor, nn, ops


def lowest(dtype: ms.Type) -> float:
    """The lowest finite number of a float type; bfloat16's, which float32 holds too, for all wider ones."""
    if dtype == ms.float16:
        return -65504.0
    return -3.3895313892515355e38


def masked_softmax(scores: Tensor, empty: float = 0.0) -> Tensor:
    """Softmax over the last axis; a row of -inf alone becomes ``empty``.

    On CPU ops.softmax leaves all rows behind such a row uncomputed (MindSpore 2.10).
    """
    none = scores == float("-inf")
    weights = ops.softmax(ops.where(none, lowest(scores.dtype), scores), axis=-1)
    return ops.where(none, ops.where(ops.all(none, -1, True), empty, 0.0), weights)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    dropout_p: float = 0.0,
    draw: nn.Cell | None = None,
) -> Tensor:
    """F.scaled_dot_product_attention. A boolean mask is True where attention is allowed; ``draw`` draws the dropout."""
    if enable_gqa:
        key = ops.repeat_interleave(key, query.shape[-3] // key.shape[-3], axis=-3)
        value = ops.repeat_interleave(value, query.shape[-3] // value.shape[-3], axis=-3)
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = ops.matmul(query * factor, key.swapaxes(-1, -2))
    if is_causal:
        rows, columns = ops.arange(query.shape[-2]).expand_dims(-1), ops.arange(key.shape[-2])
        scores = ops.where(columns > rows, lowest(scores.dtype), scores)
    if attn_mask is None:
        weights = ops.softmax(scores, axis=-1)
    elif attn_mask.dtype == ms.bool_:
        weights = ops.softmax(ops.where(attn_mask, scores, lowest(scores.dtype)), axis=-1)
        # A row that may attend to nothing gives zeros, as in torch.
        weights = ops.where(attn_mask, weights, 0.0)
    else:
        weights = masked_softmax(scores + attn_mask)
    if dropout_p > 0.0 and draw is not None:
        weights = weights * (draw(weights.shape, weights.dtype) >= dropout_p).astype(weights.dtype) / (1.0 - dropout_p)
    return ops.matmul(weights, value)


def attention_by_length(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Attention over (batch, length, heads, width), where torch's own takes (batch, heads, length, width)."""
    query, key, value = query.swapaxes(1, 2), key.swapaxes(1, 2), value.swapaxes(1, 2)
    made = scaled_dot_product_attention(
        query, key, value, attn_mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
    )
    return made.swapaxes(1, 2)


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    num_heads: int,
    in_proj: Tensor | tuple[Tensor, Tensor, Tensor],
    in_proj_bias: Tensor | None,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    dropout_p: float = 0.0,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    draw: nn.Cell | None = None,
) -> tuple[Tensor, Tensor | None]:
    """F.multi_head_attention_forward of (length, batch, width). Boolean masks are True where attention is forbidden."""
    length, batch, width = query.shape
    source = key.shape[0]
    weights = in_proj if isinstance(in_proj, tuple) else ops.chunk(in_proj, 3, axis=0)
    biases = (None, None, None) if in_proj_bias is None else ops.chunk(in_proj_bias, 3)
    head = width // num_heads
    q = ops.dense(query, weights[0], biases[0]).reshape(length, batch, num_heads, head).permute(1, 2, 0, 3)
    k = ops.dense(key, weights[1], biases[1]).reshape(source, batch, num_heads, head).permute(1, 2, 3, 0)
    v = ops.dense(value, weights[2], biases[2]).reshape(source, batch, num_heads, head).permute(1, 2, 0, 3)
    scores = ops.matmul(q / math.sqrt(head), k)
    if attn_mask is not None:
        mask = attn_mask if attn_mask.ndim == 2 else attn_mask.reshape(batch, num_heads, length, source)
        scores = forbid(scores, mask)
    if key_padding_mask is not None:
        scores = forbid(scores, key_padding_mask.reshape(batch, 1, 1, source))
    if attn_mask is None and key_padding_mask is None:
        attention = ops.softmax(scores, axis=-1)
    else:  # torch's is NaN for a row that may attend to nothing, where it gives the weights
        attention = masked_softmax(scores, float("nan") if need_weights else 0.0)
    if training and dropout_p > 0.0 and draw is not None:
        keep = (draw(attention.shape, attention.dtype) >= dropout_p).astype(attention.dtype)
        attention = attention * keep / (1.0 - dropout_p)
    out = ops.matmul(attention, v).permute(2, 0, 1, 3).reshape(length, batch, width)
    out = ops.dense(out, out_proj_weight, out_proj_bias)
    if not need_weights:
        return out, None
    return out, attention.mean(1) if average_attn_weights else attention


def forbid(scores: Tensor, mask: Tensor) -> Tensor:
    """Apply a mask to attention scores: boolean (True: forbidden) or a number to add."""
    if mask.dtype == ms.bool_:
        return ops.where(mask, lowest(scores.dtype), scores)
    return scores + mask
