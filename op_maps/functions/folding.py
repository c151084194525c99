"""torch.nn.functional.fold."""

from __future__ import annotations

from mindspore import Tensor, ops

from .layer_shape import two, window_indices


def fold(
    x: Tensor,
    output_size: int | tuple[int, int],
    kernel_size: int | tuple[int, int],
    dilation: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
    stride: int | tuple[int, int] = 1,
) -> Tensor:
    """F.fold: (N, C * kernel elements, windows) -> (N, C, H, W); overlapping windows add up."""
    top, left = two(padding)
    size = two(output_size)
    height, width = size[0] + 2 * top, size[1] + 2 * left
    index = window_indices((height, width), two(kernel_size), two(dilation), two(stride))
    channels = x.shape[1] // index.shape[0]
    values = x.reshape(x.shape[0] * channels, index.size).swapaxes(0, 1)
    zeros = ops.zeros((height * width, values.shape[1]), x.dtype)
    total = ops.tensor_scatter_add(zeros, Tensor(index.reshape(-1, 1)), values)
    out = total.swapaxes(0, 1).reshape(x.shape[0], channels, height, width)
    return out[:, :, top : height - top, left : width - left]
