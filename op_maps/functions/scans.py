"""Running products, largest and smallest values with torch's gradients."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor, ops


def cumprod(x: Tensor, dim: int) -> Tensor:
    """torch.cumprod, in log2(n) products (the gradient of ops.cumprod is NaN where an element is 0)."""
    if x.ndim == 0:
        return x
    size = x.shape[dim]
    step = 1
    while step < size:
        head, tail = ops.split(x, [step, size - step], axis=dim)
        kept, _ = ops.split(x, [size - step, step], axis=dim)
        x = ops.cat((head, tail * kept), axis=dim)
        step = step * 2
    return x


def cummax(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """torch.cummax (ops.cummax has no gradient): the largest value so far and where it stands."""
    if x.ndim == 0:
        return x, ops.zeros((), dtype=ms.int64)
    places = ops.cummax(ops.stop_gradient(x), dim)[1].astype(ms.int64)
    return ops.gather_elements(x, dim, places), places


def cummin(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """torch.cummin: the smallest value so far and where it stands."""
    if x.ndim == 0:
        return x, ops.zeros((), dtype=ms.int64)
    places = ops.cummin(ops.stop_gradient(x), dim)[1].astype(ms.int64)
    return ops.gather_elements(x, dim, places), places


def quantile(
    x: Tensor, q: Tensor | float, dim: int | None = None, keepdim: bool = False, interpolation: str = "linear"
) -> Tensor:
    """torch.quantile: of a row with a NaN it is NaN; several q stand in a new first dimension."""
    rank = x.ndim
    if dim is None:
        x = x.reshape(-1)
        dim = 0
    axis = dim % x.ndim
    shape = (
        (1,) * rank if keepdim and x.ndim != rank else x.shape[:axis] + ((1,) if keepdim else ()) + x.shape[axis + 1 :]
    )
    rows = ops.sort(x.swapaxes(axis, -1), -1)[0]
    rows = ops.where(ops.isnan(rows).any(-1, keep_dims=True), rows[..., -1:], rows)
    places = (q if isinstance(q, Tensor) else Tensor(q, x.dtype)).reshape(-1) * (x.shape[axis] - 1)
    below, above = ops.floor(places), ops.ceil(places)
    low = ops.gather(rows, below.astype(ms.int64), rows.ndim - 1)
    high = ops.gather(rows, above.astype(ms.int64), rows.ndim - 1)
    if interpolation == "linear":
        found = low + (high - low) * (places - below)
    elif interpolation == "lower":
        found = low
    elif interpolation == "higher":
        found = high
    elif interpolation == "midpoint":
        found = low + (high - low) * 0.5
    else:
        found = ops.gather(rows, ops.round(places).astype(ms.int64), rows.ndim - 1)
    parts = []
    for index in range(places.shape[0]):
        part = found[..., index : index + 1].swapaxes(axis, -1)
        parts.append(part.reshape(shape))
    several = isinstance(q, Tensor) and q.ndim > 0
    return ops.stack(parts) if several else parts[0]


def nanmedian(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | tuple[Tensor, Tensor]:
    """torch.nanmedian: the lower median of the numbers of a row, and its place where dim is given."""
    axis = 0 if dim is None else dim
    flat = x.reshape(-1) if dim is None or x.ndim == 0 else x
    empty = ops.isnan(flat)
    _, places = ops.sort(ops.where(empty, ops.full_like(flat, float("inf")), flat), axis)
    count = (1 - empty.astype(ms.int64)).sum(axis, keepdims=True)
    middle = ops.clamp((count - 1) // 2, 0, flat.shape[axis] - 1)
    place = ops.gather_elements(places.astype(ms.int64), axis, middle)
    value = ops.gather_elements(flat, axis, place)
    if dim is None:
        return value.reshape(())
    if x.ndim == 0:
        return value.reshape(()), place.reshape(())
    return (value, place) if keepdim else (value.squeeze(axis), place.squeeze(axis))
