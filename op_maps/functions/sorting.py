"""Sorting with torch's int64 indices."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor, ops


def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """torch.topk: the k largest (or smallest) values along dim, sorted, and their int64 indices."""
    if x.ndim == 0:
        return x, ops.zeros((), dtype=ms.int64)
    values, indices = ops.topk(x, k, dim, largest)
    return values, indices.astype(ms.int64)


def sort(x: Tensor, axis: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """torch.sort: values and their int64 indices."""
    if x.ndim == 0:
        return x, ops.zeros((), dtype=ms.int64)
    if x.dtype == ms.bool_:  # no kernel for truth values
        values, indices = ops.sort(x.astype(ms.int32), axis, descending)
        return values.astype(ms.bool_), indices.astype(ms.int64)
    values, indices = ops.sort(x, axis, descending)
    return values, indices.astype(ms.int64)


def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """torch.kthvalue: the k-th smallest value along dim and its index."""
    if x.ndim == 0:
        return x, ops.zeros((), dtype=ms.int64)
    values, indices = topk(x, k, dim, False)
    last = values.narrow(dim, k - 1, 1), indices.narrow(dim, k - 1, 1)
    return last if keepdim else (last[0].squeeze(dim), last[1].squeeze(dim))


def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """torch.mode: the smallest of the most frequent values of a row, and where it stands last."""
    if x.ndim == 0:
        return x, ops.zeros((), dtype=ms.int64)
    rows = x.swapaxes(dim, -1)
    alike = (rows.expand_dims(-1) == rows.expand_dims(-2)).astype(ms.int32)
    count = alike.sum(-1)
    best = count == count.max(-1, keepdims=True)
    rank = ops.sort(ops.sort(rows, -1)[1].astype(ms.float32), -1)[1].astype(ms.int32)  # place of each in the order
    size = x.shape[dim]
    first = ops.where(best, rank, ops.full_like(rank, size)).min(-1, keepdims=True)
    chosen = (rank == first).astype(ms.int32)
    value = (alike * chosen.expand_dims(-2)).sum(-1)  # who is equal to the chosen one
    places = ops.arange(size).astype(ms.int32)
    place = (value * (places + 1)).max(-1, keepdims=True).astype(ms.int64) - 1
    out = ops.gather_elements(rows, -1, place).swapaxes(dim, -1), place.swapaxes(dim, -1)
    return out if keepdim else (out[0].squeeze(dim), out[1].squeeze(dim))


def repeat_by(x: Tensor, repeats: Tensor, dim: int | None, output_size: int) -> Tensor:
    """torch.repeat_interleave by a tensor of counts whose sum is given."""
    if dim is None:
        x = x.reshape(-1)
        dim = 0
    ends = ops.cumsum(ops.broadcast_to(repeats, (x.shape[dim],)), 0)
    places = (ops.arange(output_size).expand_dims(-1) >= ends).astype(ms.int64).sum(-1)
    return ops.gather(x, places, dim)
