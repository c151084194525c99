"""Layers that fold and unfold windows."""

import numpy as np
from mindspore import Tensor, nn, ops


def two(value: int | tuple[int, int]) -> tuple[int, int]:
    """One number for both axes, or one for each."""
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def window_indices(
    size: tuple[int, int], kernel: tuple[int, int], dilation: tuple[int, int], stride: tuple[int, int]
) -> np.ndarray:
    """Flat index into (H, W) of each element of each window: (kernel elements, windows)."""
    rows = [
        np.arange(kernel[axis])[:, None] * dilation[axis]
        + np.arange((size[axis] - dilation[axis] * (kernel[axis] - 1) - 1) // stride[axis] + 1)[None] * stride[axis]
        for axis in (0, 1)
    ]
    flat = rows[0][:, None, :, None] * size[1] + rows[1][None, :, None, :]
    return flat.reshape(kernel[0] * kernel[1], -1).astype(np.int32)


class Unfold(nn.Cell):
    """torch.nn.Unfold: (N, C, H, W) -> (N, C * kernel elements, windows)."""

    def __init__(
        self,
        kernel_size: int | tuple[int, int],
        dilation: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        stride: int | tuple[int, int] = 1,
    ) -> None:
        super().__init__()
        self.kernel_size = two(kernel_size)
        self.dilation = two(dilation)
        self.padding = two(padding)
        self.stride = two(stride)

    def construct(self, x: Tensor) -> Tensor:
        unbatched = x.ndim == 3
        if unbatched:
            x = x.expand_dims(0)
        top, left = self.padding
        x = ops.pad(x, (left, left, top, top)) if top or left else x
        batch, channels, height, width = x.shape
        index = window_indices((height, width), self.kernel_size, self.dilation, self.stride)
        windows = ops.gather(x.reshape(batch, channels, height * width), Tensor(index.reshape(-1)), 2)
        out = windows.reshape(batch, channels * index.shape[0], index.shape[1])
        return out[0] if unbatched else out


class Fold(nn.Cell):
    """torch.nn.Fold: (N, C * kernel elements, windows) -> (N, C, H, W); overlapping windows add up."""

    def __init__(
        self,
        output_size: int | tuple[int, int],
        kernel_size: int | tuple[int, int],
        dilation: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        stride: int | tuple[int, int] = 1,
    ) -> None:
        super().__init__()
        self.output_size = two(output_size)
        self.kernel_size = two(kernel_size)
        self.dilation = two(dilation)
        self.padding = two(padding)
        self.stride = two(stride)

    def construct(self, x: Tensor) -> Tensor:
        unbatched = x.ndim == 2
        if unbatched:
            x = x.expand_dims(0)
        top, left = self.padding
        height, width = self.output_size[0] + 2 * top, self.output_size[1] + 2 * left
        index = window_indices((height, width), self.kernel_size, self.dilation, self.stride)
        channels = x.shape[1] // index.shape[0]
        values = x.reshape(x.shape[0] * channels, index.size).swapaxes(0, 1)
        zeros = ops.zeros((height * width, values.shape[1]), x.dtype)
        total = ops.tensor_scatter_add(zeros, Tensor(index.reshape(-1, 1)), values)
        out = total.swapaxes(0, 1).reshape(x.shape[0], channels, height, width)
        out = out[:, :, top : height - top, left : width - left]
        return out[0] if unbatched else out
