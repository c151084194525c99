"""Integer arithmetic that MindSpore's own ops get wrong."""

from __future__ import annotations

import math

import mindspore as ms
from mindspore import Tensor, ops


def int_div_trunc(x: Tensor, y: Tensor | int) -> Tensor:
    """torch.div(x, y, rounding_mode="trunc") of integers: the quotient rounded toward zero, in their dtype."""
    quotient = ops.floor_divide(x, y)
    # Floor and truncation differ by one where the quotient is negative and not exact.
    return quotient + ((quotient < 0) & (quotient * y != x)).astype(quotient.dtype)


def mvlgamma(x: Tensor, p: int) -> Tensor:
    """torch.mvlgamma (ops.mvlgamma of a tensor without dimensions is a number, and takes no int64)."""
    x = x if x.is_floating_point() else x.float()
    out = ops.lgamma(x) + p * (p - 1) / 4 * math.log(math.pi)
    for j in range(1, p):
        out = out + ops.lgamma(x - j / 2)
    return out


def linspace_between(start: Tensor | float, end: Tensor | float, steps: int) -> Tensor:
    """torch.linspace where an end is a tensor: ops.linspace wants both of one type."""
    whole = ops.zeros((steps,), dtype=ms.float32)
    if steps == 1:
        return whole + start
    share = ops.arange(steps).astype(ms.float32) / (steps - 1)
    return whole + start + (end - start) * share


def diff(x: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """torch.diff, n times over; of truth values, whether neighbours differ (ops.diff takes n=1 only)."""
    parts = (x,) if prepend is None else (prepend, x)
    parts = parts if append is None else (*parts, append)
    out = ops.cat(parts, axis=dim) if len(parts) > 1 else x
    dim = dim % x.ndim
    if n >= out.shape[dim]:
        return ops.zeros((*out.shape[:dim], 0, *out.shape[dim + 1 :]), out.dtype)
    for _ in range(n):
        size = out.shape[dim]
        high, low = out.narrow(dim, 1, size - 1), out.narrow(dim, 0, size - 1)
        out = ops.logical_xor(high, low) if out.dtype == ms.bool_ else high - low
    return out


def unravel_index(indices: Tensor, shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    """torch.unravel_index: the coordinates of flat places."""
    found = ()
    rest = indices
    for size in shape[::-1]:
        found = (rest % size, *found)
        rest = rest // size
    return found


def frexp(x: Tensor) -> tuple[Tensor, Tensor]:
    """torch.frexp: mantissas from 0.5 up to 1, and exponents of two (int32)."""
    size = ops.abs(ops.stop_gradient(x))
    zero = size == 0
    exponent = ops.floor(ops.log2(ops.where(zero, ops.ones_like(size), size))) + 1.0
    mantissa = size * ops.pow(ops.full_like(size, 2.0), -exponent)
    exponent = ops.where(mantissa >= 1.0, exponent + 1.0, ops.where(mantissa < 0.5, exponent - 1.0, exponent))
    exponent = ops.where(zero, ops.zeros_like(exponent), exponent)
    return x * ops.pow(ops.full_like(size, 2.0), -exponent), exponent.astype(ms.int32)


def var_of(x: Tensor, axis: int | tuple[int, ...] | None = None, ddof: float = 0, keepdims: bool = False) -> Tensor:
    """torch.var, any correction (ops.var squares a standard deviation: its gradient is NaN where all values agree)."""
    axes = (axis,) if isinstance(axis, int) else axis
    if not axes:
        axes = tuple(range(x.ndim))
    count = 1
    for one in axes:
        count = count * x.shape[one]
    squares = ops.square(x - ops.mean(x, axes, True))
    return squares.sum(axes, keepdims=keepdims) / max(count - ddof, 0)


def std_of(x: Tensor, axis: int | tuple[int, ...] | None = None, ddof: float = 0, keepdims: bool = False) -> Tensor:
    """torch.std: no gradient where all values agree (ops.std has NaN there)."""
    var = var_of(x, axis, ddof, keepdims)
    none = var == 0
    return ops.where(none, ops.zeros_like(var), ops.sqrt(ops.where(none, ops.ones_like(var), var)))


def var_mean_of(
    x: Tensor, axis: int | tuple[int, ...] | None = None, ddof: float = 0, keepdims: bool = False
) -> tuple[Tensor, Tensor]:
    """torch.var_mean."""
    return var_of(x, axis, ddof, keepdims), ops.mean(x, axis, keepdims)


def std_mean_of(
    x: Tensor, axis: int | tuple[int, ...] | None = None, ddof: float = 0, keepdims: bool = False
) -> tuple[Tensor, Tensor]:
    """torch.std_mean."""
    return std_of(x, axis, ddof, keepdims), ops.mean(x, axis, keepdims)


def xlogy(x: Tensor, y: Tensor) -> Tensor:
    """torch.xlogy: 0 where x is 0 (ops.xlogy is NaN there if y is 0 too)."""
    none = ops.logical_and(x == 0, y == y)  # a y that is NaN stays it
    return x * ops.log(ops.where(none, ops.ones_like(y), y))


def max_of_truths(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """torch.max along a dimension of truth values (ops.max takes none)."""
    values, indices = ops.max(x.int(), dim, keepdim)
    return values.bool(), indices


def min_of_truths(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """torch.min along a dimension of truth values (ops.min takes none)."""
    values, indices = ops.min(x.int(), dim, keepdim)
    return values.bool(), indices
