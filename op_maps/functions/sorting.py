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
    values, indices = ops.sort(x, axis, descending)
    return values, indices.astype(ms.int64)


def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """torch.kthvalue: the k-th smallest value along dim and its index."""
    if x.ndim == 0:
        return x, ops.zeros((), dtype=ms.int64)
    values, indices = topk(x, k, dim, False)
    last = values.narrow(dim, k - 1, 1), indices.narrow(dim, k - 1, 1)
    return last if keepdim else (last[0].squeeze(dim), last[1].squeeze(dim))
