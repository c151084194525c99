"""Padding of the last axes by indices, for every mode and rank."""

import numpy as np
from mindspore import Tensor, nn, ops


def pad_mode_nd(x: Tensor, pad: tuple[int, ...], mode: str) -> Tensor:
    """torch's F.pad for reflect, replicate and circular: (left, right, top, bottom, ...), the last axis first.

    A negative amount crops.
    """
    for index in range(len(pad) // 2):
        before, after = pad[2 * index], pad[2 * index + 1]
        if before != 0 or after != 0:
            axis = x.ndim - 1 - index
            x = ops.gather(x, Tensor(border_indices(x.shape[axis], before, after, mode)), axis)
    return x


def border_indices(size: int, before: int, after: int, mode: str) -> np.ndarray:
    """Which element stands at each place of a padded axis."""
    index = np.arange(-before, size + after)
    if mode == "replicate":
        index = np.clip(index, 0, size - 1)
    elif mode == "circular":
        index = index % size
    else:
        index = np.abs(index)
        index = np.where(index >= size, 2 * (size - 1) - index, index)
    return index.astype(np.int32)


class ModePad(nn.Cell):
    """torch.nn.ReflectionPad, ReplicationPad and CircularPad over ``dims`` axes; samples may be unbatched."""

    def __init__(self, dims: int, padding: int | tuple[int, ...], mode: str) -> None:
        super().__init__()
        self.padding = (padding,) * (2 * dims) if isinstance(padding, int) else tuple(padding)
        self.mode = mode

    def construct(self, x: Tensor) -> Tensor:
        return pad_mode_nd(x, self.padding, self.mode)


class ConstantPad(nn.Cell):
    """torch.nn.ConstantPad and ZeroPad over ``dims`` axes; a negative amount crops."""

    def __init__(self, dims: int, padding: int | tuple[int, ...], value: float = 0.0) -> None:
        super().__init__()
        self.padding = (padding,) * (2 * dims) if isinstance(padding, int) else tuple(padding)
        self.value = value

    def construct(self, x: Tensor) -> Tensor:
        return pad_constant_nd(x, self.padding, self.value)


def pad_constant_nd(x: Tensor, pad: tuple[int, ...], value: float = 0.0) -> Tensor:
    """torch's F.pad with a constant: (left, right, top, bottom, ...), the last axis first; a negative amount crops."""
    for index in range(len(pad) // 2):
        axis = x.ndim - 1 - index
        before, after = pad[2 * index], pad[2 * index + 1]
        if before < 0 or after < 0:
            kept = np.arange(max(0, -before), x.shape[axis] - max(0, -after)).astype(np.int32)
            x = ops.gather(x, Tensor(kept), axis)
        shape = x.shape
        parts = (x,)
        if before > 0:
            parts = (ops.full((*shape[:axis], before, *shape[axis + 1 :]), value, dtype=x.dtype), *parts)
        if after > 0:
            parts = (*parts, ops.full((*shape[:axis], after, *shape[axis + 1 :]), value, dtype=x.dtype))
        if len(parts) > 1:
            x = ops.cat(parts, axis=axis)
    return x
