"""Reductions of elements by the place to which they go: scatter_reduce, index_reduce, index_put with sums."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor, ops
from mindspore.ops import constexpr


def places_along(shape: tuple[int, ...], dim: int, index: Tensor) -> Tensor:
    """Flat places in a tensor of that shape of elements whose coordinate along dim is their index."""
    places = ops.zeros_like(index)
    stride = 1
    for axis in range(len(shape) - 1, -1, -1):
        if axis == dim:
            places = places + index * stride
        else:
            sizes = (1,) * axis + (index.shape[axis],) + (1,) * (len(shape) - axis - 1)
            places = places + ops.arange(index.shape[axis]).astype(index.dtype).reshape(sizes) * stride
        stride = stride * shape[axis]
    return places.reshape(-1).astype(ms.int32)


def scatter_reduce_by(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool = True
) -> Tensor:
    """torch.scatter_reduce for ``amax``, ``amin`` and ``prod``."""
    shape = x.shape
    flat = x.reshape(-1)
    if x.ndim == 0:
        places = ops.zeros((1,), dtype=ms.int32)
        values = src.reshape(-1)
    else:
        for axis in range(index.ndim):
            src = src.narrow(axis, 0, index.shape[axis])
        places = places_along(shape, dim % x.ndim, index)
        values = src.reshape(-1)
    touched = ops.unsorted_segment_sum(ops.ones(places.shape, ms.float32), places, flat.shape[0]) > 0
    if include_self:
        values = ops.cat((flat, values))
        places = ops.cat((ops.arange(flat.shape[0]).astype(ms.int32), places))
    if reduce == "prod":
        found = ops.unsorted_segment_prod(values, places, flat.shape[0])
    elif reduce == "amax":
        found = ops.unsorted_segment_max(values, places, flat.shape[0])
    else:
        found = ops.unsorted_segment_min(values, places, flat.shape[0])
    return ops.where(touched, found, flat).reshape(shape)


def index_reduce(x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool = True) -> Tensor:
    """torch.index_reduce: whole slices of source are reduced into those of x that index names."""
    if x.ndim == 0:
        return index_reduce_flat(x.reshape(1), 0, index, source.reshape(-1), reduce, include_self).reshape(())
    return index_reduce_flat(x, dim % x.ndim, index, source, reduce, include_self)


def index_reduce_flat(x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool) -> Tensor:
    """The same of a tensor that has dimensions."""
    sizes = (1,) * dim + (-1,) + (1,) * (x.ndim - dim - 1)
    spread = ops.broadcast_to(index.reshape(sizes), source.shape)
    if reduce != "mean":
        return scatter_reduce_by(x, dim, spread, source, reduce, include_self)
    places = places_along(x.shape, dim, spread)
    flat = x.reshape(-1)
    total = ops.unsorted_segment_sum(source.reshape(-1), places, flat.shape[0])
    count = ops.unsorted_segment_sum(ops.ones_like(source).reshape(-1), places, flat.shape[0])
    if include_self:
        return ((total + flat) / (count + 1)).reshape(x.shape)
    return ops.where(count > 0, total / ops.clamp(count, min=1.0), flat).reshape(x.shape)


def index_put_sum(x: Tensor, indices: tuple[Tensor | None, ...], values: Tensor) -> Tensor:
    """torch.index_put with ``accumulate=True``; indices are integers, None takes a whole dimension."""
    axes = [axis for axis in range(len(indices)) if indices[axis] is not None]
    others = [axis for axis in range(x.ndim) if axis not in axes]
    total = ops.zeros((), ms.int64)
    for axis in axes:
        total = total + ops.zeros(indices[axis].shape, ms.int64)
    count, first = total.ndim, axes[0] if axes[-1] - axes[0] == len(axes) - 1 else 0
    parts = [ops.broadcast_to(indices[axis] % x.shape[axis], total.shape) for axis in axes]
    rest = [x.shape[axis] for axis in others]
    values = ops.broadcast_to(values, (*rest[:first], *total.shape, *rest[first:]))
    front = [*range(first, first + count), *range(first), *range(first + count, values.ndim)]
    moved = ops.tensor_scatter_add(
        ops.permute(x, (*axes, *others)), ops.stack(parts, -1), ops.permute(values, tuple(front))
    )
    return ops.permute(moved, inverse_order((*axes, *others)))


@constexpr
def inverse_order(order: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes another."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """torch.put: x with elements, counted through all dimensions, replaced or added to."""
    flat = x.reshape(-1)
    places = (index.reshape(-1) % flat.shape[0]).expand_dims(1)
    if accumulate:
        return ops.tensor_scatter_add(flat, places, source.reshape(-1)).reshape(x.shape)
    return ops.tensor_scatter_update(flat, places, source.reshape(-1)).reshape(x.shape)


def unique_consecutive(x: Tensor, return_inverse: bool, return_counts: bool, dim: int | None) -> tuple[Tensor, ...]:
    """torch.unique_consecutive with places or counts in int64, as torch has them."""
    found = ops.unique_consecutive(x, return_inverse, return_counts, dim)
    return (found[0], *[part.long() for part in found[1:]])
