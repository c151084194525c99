"""Moving and cutting that MindSpore has no call for, or none that runs on every device."""

from __future__ import annotations

from mindspore import Tensor, ops


def roll(x: Tensor, shifts: int | tuple[int, ...], dims: int | tuple[int, ...] | None = None) -> Tensor:
    """torch.roll (ops.roll has no CPU kernel)."""
    shape = x.shape
    if x.ndim == 0:
        return x
    if dims is None:
        x = x.reshape(-1)
        dims = 0
    if isinstance(dims, int):
        shifts, dims = (shifts,), (dims,)
    for i in range(len(dims)):
        dim = dims[i]
        size = x.shape[dim]
        cut = (size - shifts[i]) % size
        if cut != 0:
            head, tail = ops.split(x, [cut, size - cut], axis=dim)
            x = ops.cat((tail, head), axis=dim)
    return x.reshape(shape)


def unflatten(x: Tensor, dim: int, sizes: tuple[int, ...]) -> Tensor:
    """torch.unflatten: one dimension cut into several, of which one size may be -1."""
    axis = dim % x.ndim
    return x.reshape(x.shape[:axis] + tuple(sizes) + x.shape[axis + 1 :])


def sliding_windows(x: Tensor, dim: int, size: int, step: int) -> Tensor:
    """torch.Tensor.unfold: windows of a dimension; their elements become a new last dimension."""
    if x.ndim == 0:
        return x.reshape(1)
    axis = dim % x.ndim
    count = (x.shape[axis] - size) // step + 1
    starts = ops.arange(count).expand_dims(1) * step
    windows = ops.gather(x, starts + ops.arange(size), axis)
    return ops.movedim(windows, axis + 1, -1)


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """torch.broadcast_tensors."""
    total = ops.zeros(tensors[0].shape)
    for tensor in tensors[1:]:
        total = total + ops.zeros(tensor.shape)
    result = ()
    for tensor in tensors:
        result = (*result, ops.broadcast_to(tensor, total.shape))
    return result
