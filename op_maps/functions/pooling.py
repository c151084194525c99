"""Pools that MindSpore lacks as functions."""

from __future__ import annotations

from mindspore import Tensor, ops


def max_pool1d(
    x: Tensor, kernel_size: int, stride: int | None = None, padding: int = 0, dilation: int = 1, ceil_mode: bool = False
) -> Tensor:
    """F.max_pool1d, as a 2-d pool over one row; (C, L) has no batch."""
    stride = kernel_size if stride is None else stride
    rows = x.expand_dims(-2) if x.ndim == 3 else x.expand_dims(-2).expand_dims(0)
    out = ops.max_pool2d(rows, (1, kernel_size), (1, stride), (0, padding), (1, dilation), ceil_mode=ceil_mode)
    return out.squeeze(-2) if x.ndim == 3 else out.squeeze(-2).squeeze(0)


def max_unpool2d(
    x: Tensor,
    indices: Tensor,
    kernel_size: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int] = (0, 0),
    output_size: tuple[int, ...] | None = None,
) -> Tensor:
    """F.max_unpool2d: each value at the flat place that its index names, zeros elsewhere."""
    lead, spatial = x.shape[:-2], x.shape[-2:]
    if output_size is None:
        height = (spatial[0] - 1) * stride[0] - 2 * padding[0] + kernel_size[0]
        width = (spatial[1] - 1) * stride[1] - 2 * padding[1] + kernel_size[1]
    else:
        height, width = output_size[-2], output_size[-1]
    rows = 1
    for size in lead:
        rows = rows * size
    flat = ops.zeros((rows, height * width), x.dtype)
    out = ops.tensor_scatter_elements(flat, indices.reshape(rows, -1), x.reshape(rows, -1), axis=1)
    return out.reshape((*lead, height, width))
