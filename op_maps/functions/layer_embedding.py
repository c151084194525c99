"""Embeddings with torch's gradient, initial values and bags."""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import Normal, initializer


class Embedding(nn.Embedding):
    """An embedding whose padding row starts as zeros and gets no gradient through the look-up, as in torch."""

    def __init__(self, vocab_size: int, embedding_size: int, padding_idx: int) -> None:
        row = padding_idx if padding_idx >= 0 else vocab_size + padding_idx
        super().__init__(vocab_size, embedding_size, embedding_table=Normal(1.0), padding_idx=row)

    def construct(self, ids: Tensor) -> Tensor:
        out = ops.gather(self.embedding_table, ids, 0)
        return ops.where((ids == self.padding_idx).expand_dims(-1), ops.stop_gradient(out), out)


class EmbeddingBag(nn.Cell):
    """torch.nn.EmbeddingBag: sum, mean or max over each row of a matrix, or over the bags that offsets begin."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        mode: str = "mean",
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__()
        self.weight = Parameter(initializer(Normal(1.0), (num_embeddings, embedding_dim)))
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.mode = mode
        self.include_last_offset = include_last_offset
        self.padding_idx = padding_idx

    def construct(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        return embedding_bag(
            input,
            self.weight,
            offsets,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    mode: str = "mean",
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """F.embedding_bag: sum, mean or max over each row of a matrix, or over the bags that offsets begin."""
    rows = ops.gather(weight, input, 0)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.expand_dims(-1)
    if padding_idx is None:
        kept = ops.ones(input.shape, ms.bool_)
    else:
        kept = input != (padding_idx if padding_idx >= 0 else weight.shape[0] + padding_idx)
    if offsets is None:
        return reduce_bags(rows, kept, mode)
    # Which element belongs to which bag: (bags, length).
    starts = offsets[:-1] if include_last_offset else offsets
    place = ms.Tensor(np.arange(input.shape[0]))
    begun = (place.expand_dims(0) >= starts.expand_dims(1)).astype(ms.int32)
    following = ops.cat((begun[1:], ops.zeros((1, input.shape[0]), ms.int32)), axis=0)
    member = ops.logical_and(begun > following, kept)
    return reduce_bags(rows, member, mode)


def reduce_bags(rows: Tensor, member: Tensor, mode: str) -> Tensor:
    """(bags, dim) from rows (length, dim) or (bags, length, dim), and who belongs (bags, length)."""
    weights = member.astype(rows.dtype)
    if rows.ndim == 3:
        total = (rows * weights.expand_dims(-1)).sum(1)
        spread = rows
    else:
        total = ops.matmul(weights, rows)
        spread = rows.expand_dims(0).broadcast_to((member.shape[0], *rows.shape))
    count = weights.sum(1, keepdims=True)
    if mode == "mean":
        return total / ops.maximum(count, ops.ones_like(count))
    if mode == "max":
        lowest = ops.where(member.expand_dims(-1), spread, ops.full_like(spread, -3.4028234663852886e38))
        return ops.where(count > 0, lowest.max(axis=1), ops.zeros_like(total))
    return total
