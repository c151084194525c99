"""Functions for what a script's source leaves open."""

import mindspore as ms
from mindspore import Tensor, ops


def diag(x, diagonal=0):
    """The matrix with a diagonal, or the diagonal of a matrix."""
    if diagonal:
        raise NotImplementedError("diag with an offset")
    return ops.diag(x) if x.ndim == 1 else ops.diagonal(x)


def scatter_source(value, index, like):
    """The values that scatter writes: a number for all places, or what lies under the index."""
    if not isinstance(value, Tensor):
        return ops.full(index.shape, value, dtype=like.dtype)
    return value[tuple(slice(n) for n in index.shape)].astype(like.dtype)


def randint(low, high=None, size=None, dtype=None, device=None, generator=None, requires_grad=False):
    """Integers in [low, high); ``randint(high, size)`` starts at 0. int64 unless a type is given."""
    if isinstance(high, (tuple, list)):
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    return (ops.rand(*size) * (high - low)).astype(dtype or ms.int64) + low
