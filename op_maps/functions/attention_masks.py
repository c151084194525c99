"""Attention masks as transformers makes them, True where a query may attend to a key."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor, ops

from .dtype import finfo_min


def with_padding(mask: Tensor, attention_mask: Tensor | None, batch: int) -> Tensor:
    """A mask [q, k] or [batch, q, k] for every head, without the keys that are padding: bool [batch, 1, q, k]."""
    mask = mask.reshape(-1, 1, *mask.shape[-2:]).broadcast_to((batch, 1, *mask.shape[-2:]))
    if attention_mask is None:
        return mask
    return ops.logical_and(mask, attention_mask.astype(ms.bool_)[:, None, None, :])


def causal_attention_mask(
    hidden_states: Tensor, attention_mask: Tensor | None = None, window: int | None = None
) -> Tensor:
    """A token attends to itself and to what stands before it, no further back than the window.

    hidden_states: [batch, length, width]; attention_mask: [batch, length], 0 for padding. Returns bool
    [batch, 1, length, length].
    """
    batch, length = hidden_states.shape[:2]
    key = ops.arange(length)
    query = key.expand_dims(-1)
    mask = key <= query
    if window is not None:
        mask = ops.logical_and(mask, key > query - window)
    return with_padding(mask, attention_mask, batch)


def packed_causal_attention_mask(hidden_states: Tensor, position_ids: Tensor, window: int | None = None) -> Tensor:
    """A causal mask for several sequences packed into one row: a sequence begins where the positions do not go on.

    hidden_states: [batch, length, width]; position_ids: [batch or 1, length]. Returns bool [batch, 1, length, length].
    """
    batch, length = hidden_states.shape[:2]
    position_ids = position_ids.broadcast_to((batch, length))
    begins = (position_ids[:, 1:] != position_ids[:, :-1] + 1).astype(ms.int32)
    sequence = ops.cat((ops.zeros((batch, 1), ms.int32), ops.cumsum(begins, 1)), axis=1)
    key, query = position_ids.expand_dims(1), position_ids.expand_dims(2)
    mask = ops.logical_and(key <= query, sequence.expand_dims(1) == sequence.expand_dims(2))
    if window is not None:
        mask = ops.logical_and(mask, key > query - window)
    return with_padding(mask, None, batch)


def chunked_causal_attention_mask(hidden_states: Tensor, attention_mask: Tensor | None, chunk: int) -> Tensor:
    """A causal mask inside chunks, which are counted from each row's first token that is no padding.

    hidden_states: [batch, length, width]; attention_mask: [batch, length]. Returns bool [batch, 1, length, length].
    """
    batch, length = hidden_states.shape[:2]
    steps = ops.arange(length)
    mask = steps <= steps.expand_dims(-1)
    if attention_mask is not None:
        left = (ops.cumsum(attention_mask.astype(ms.int32), 1) == 0).astype(ms.int32).sum(1, keepdims=True)
        steps = steps - left
    numbers = steps.reshape(-1, length) // chunk
    mask = ops.logical_and(mask, numbers.expand_dims(1) == numbers.expand_dims(2))
    return with_padding(mask, attention_mask, batch)


def bidirectional_attention_mask(
    hidden_states: Tensor, attention_mask: Tensor | None = None, source: Tensor | None = None, window: int | None = None
) -> Tensor:
    """Every token attends to all keys that are no padding and no further off than the window.

    hidden_states: [batch, length, width]; source: where the keys come from, if not from these, [batch, keys, width];
    attention_mask: [batch, keys], 0 for padding. Returns bool [batch, 1, length, keys].
    """
    batch, length = hidden_states.shape[:2]
    keys = length if source is None else source.shape[1]
    mask = ops.ones((length, keys), ms.bool_)
    if window is not None:
        mask = ops.abs(ops.arange(length).expand_dims(-1) - ops.arange(keys)) <= window
    return with_padding(mask, attention_mask, batch)


def additive_mask(mask: Tensor, dtype: ms.Type) -> Tensor:
    """0 where the mask is True, elsewhere the lowest number of the type, for adding to scores."""
    return ops.where(mask, ops.zeros((), dtype), finfo_min(dtype))
