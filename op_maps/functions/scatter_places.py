"""Writes to places that are known while the graph is compiled: what torch calls ``*_scatter`` and ``as_strided``."""

from __future__ import annotations

import numpy as np
from mindspore import Tensor, ops
from mindspore.ops import constexpr


def slice_scatter(
    x: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """torch.slice_scatter: x with ``x[start:end:step]`` along dim replaced."""
    return _take(x, src, slice_places(x.shape, dim, start, end, step))


def select_scatter(x: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """torch.select_scatter: x with one index of dim replaced."""
    return _take(x, src, select_places(x.shape, dim, index))


def diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """torch.diagonal_scatter: x with a diagonal replaced."""
    return _take(x, src, diagonal_places(x.shape, offset, dim1, dim2))


def as_strided(x: Tensor, size: tuple[int, ...], stride: tuple[int, ...], storage_offset: int = 0) -> Tensor:
    """torch.as_strided of a contiguous tensor."""
    return ops.gather(x.reshape(-1), strided_places(size, stride, storage_offset), 0)


def contiguous_strides(x: Tensor, dim: int | None = None) -> tuple[int, ...] | int:
    """Tensor.stride of a contiguous tensor: how many elements lie between neighbours, by axis."""
    strides = ()
    step = 1
    for size in x.shape[::-1]:
        strides = (step, *strides)
        step = step * size
    return strides if dim is None else strides[dim]


def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """torch.masked_scatter: the true places of mask take the elements of source in order."""
    total = x + mask.astype(x.dtype) * 0
    mask = ops.broadcast_to(mask, total.shape)
    place = ops.cumsum(mask.reshape(-1).astype("int32"), 0) - 1
    values = ops.gather(source.reshape(-1), ops.clamp(place, 0, source.size - 1), 0)
    return ops.where(mask, values.reshape(total.shape), x)


def index_by(x: Tensor, indices: list[Tensor | None]) -> Tensor:
    """``x[i, :, j]``: None takes the whole dimension."""
    places = ()
    for index in indices:
        places = (*places, slice(None) if index is None else index)
    return x[places]


def index_put(x: Tensor, indices: list[Tensor | None], values: Tensor) -> Tensor:
    """x with ``x[i, :, j]`` replaced."""
    places = ()
    for index in indices:
        places = (*places, slice(None) if index is None else index)
    x[places] = values
    return x


def _take(x: Tensor, src: Tensor, places: Tensor) -> Tensor:
    """Elements of x and, behind them, of src."""
    return ops.gather(ops.cat((x.reshape(-1), src.astype(x.dtype).reshape(-1))), places, 0)


@constexpr
def slice_places(shape: tuple[int, ...], dim: int, start: int | None, end: int | None, step: int) -> Tensor:
    """Where each element of the result stands."""
    table = np.arange(int(np.prod(shape))).reshape(shape)
    part = np.moveaxis(table, dim, 0)[start:end:step]
    moved = np.moveaxis(table.copy(), dim, 0)
    new = np.moveaxis(table.size + np.arange(part.size).reshape(np.moveaxis(part, 0, dim).shape), dim, 0)
    moved[start:end:step] = new
    return Tensor(np.moveaxis(moved, 0, dim).astype(np.int32))


@constexpr
def select_places(shape: tuple[int, ...], dim: int, index: int) -> Tensor:
    """Where each element of the result stands."""
    table = np.moveaxis(np.arange(int(np.prod(shape))).reshape(shape), dim, 0).copy()
    table[index] = table.size + np.arange(table[index].size).reshape(table[index].shape)
    return Tensor(np.moveaxis(table, 0, dim).astype(np.int32))


@constexpr
def diagonal_places(shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Tensor:
    """Where each element of the result stands."""
    table = np.arange(int(np.prod(shape))).reshape(shape)
    old = np.diagonal(table, offset, dim1, dim2)
    flat = table.reshape(-1).copy()
    flat[old.reshape(-1)] = table.size + np.arange(old.size)
    return Tensor(flat.reshape(shape).astype(np.int32))


@constexpr
def strided_places(size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Tensor:
    """Where each element of the result stands in the storage."""
    places = np.full(tuple(size), offset)
    for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
        places = places + (np.arange(count) * step).reshape([-1 if a == axis else 1 for a in range(len(size))])
    return Tensor(places.astype(np.int32))
