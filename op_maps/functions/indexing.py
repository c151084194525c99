"""Scatter and index ops with torch's argument shapes."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor, ops


def scatter_from(x: Tensor, dim: int, index: Tensor, src: Tensor, reduction: str = "none") -> Tensor:
    """torch.scatter and scatter_add (``reduction="add"``): only the part of src that index covers is used."""
    if x.ndim == 0:
        return src.reshape(()) if reduction == "none" else x + src.reshape(())
    if index.shape != src.shape:
        for axis in range(index.ndim):
            src = src.narrow(axis, 0, index.shape[axis])
    return ops.tensor_scatter_elements(x, index, src, dim, reduction)


def scatter_value(x: Tensor, dim: int, index: Tensor, value: float) -> Tensor:
    """torch.scatter of one number."""
    if x.ndim == 0:
        return ops.full((), value, dtype=x.dtype)
    return ops.tensor_scatter_elements(x, index, ops.full(index.shape, value, dtype=x.dtype), dim)


def index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """torch.index_copy: slices of x along dim replaced."""
    if x.ndim == 0:
        return source.reshape(())
    if dim % x.ndim == 0:
        return ops.tensor_scatter_update(x, index.expand_dims(-1), source)
    moved = ops.tensor_scatter_update(x.swapaxes(0, dim), index.expand_dims(-1), source.swapaxes(0, dim))
    return moved.swapaxes(0, dim)


def scatter_reduce(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool = True) -> Tensor:
    """torch.scatter_reduce for ``sum`` and ``mean``."""
    base = x
    if not include_self:
        base = ops.where(scatter_from(ops.zeros_like(x), dim, index, ops.ones_like(src), "add") > 0, 0.0, x)
    total = scatter_from(base, dim, index, src, "add")
    if reduce == "sum":
        return total
    count = scatter_from(ops.zeros_like(x), dim, index, ops.ones_like(src), "add")
    return total / ops.clamp(count + 1.0 if include_self else count, min=1.0)


def expand_mask(mask: Tensor, x: Tensor) -> Tensor:
    """A mask over the first dimensions of x, with dimensions of one for the rest."""
    return mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim))


def every(x: Tensor, axis: int, step: int, start: int = 0, stop: int | None = None) -> Tensor:
    """``x[start:stop:step]`` along an axis: the gradient of a stepped slice of an inner axis fails on CPU."""
    return x.swapaxes(0, axis)[start:stop:step].swapaxes(0, axis)


def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """torch.masked_select of a tensor and a mask that are broadcast."""
    shape = (x.astype(ms.float32) + mask.astype(ms.float32)).shape if x.shape != mask.shape else x.shape
    return ops.broadcast_to(x, shape)[ops.nonzero(ops.broadcast_to(mask, shape), as_tuple=True)]
