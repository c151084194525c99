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


def max_pool1d_with_indices(
    x: Tensor, kernel_size: int, stride: int | None = None, padding: int = 0, dilation: int = 1, ceil_mode: bool = False
) -> tuple[Tensor, Tensor]:
    """F.max_pool1d with the places of the largest elements."""
    stride = kernel_size if stride is None else stride
    rows = x.expand_dims(-2) if x.ndim == 3 else x.expand_dims(-2).expand_dims(0)
    out, places = ops.max_pool2d(
        rows, (1, kernel_size), (1, stride), (0, padding), (1, dilation), return_indices=True, ceil_mode=ceil_mode
    )
    out, places = out.squeeze(-2), places.squeeze(-2)
    return (out, places) if x.ndim == 3 else (out.squeeze(0), places.squeeze(0))


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


def lp_pool(
    x: Tensor,
    dims: int,
    norm_type: float,
    kernel_size: int | tuple[int, ...],
    stride: int | tuple[int, ...] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """F.lp_pool1d, 2d and 3d: roots of sums of powers (ops.lp_pool turns NaN into 0); the batch may be missing."""
    single = x.ndim == dims + 1
    powers = ops.pow(x.expand_dims(0) if single else x, norm_type)
    sizes = (kernel_size,) * dims if isinstance(kernel_size, int) else tuple(kernel_size)
    steps = sizes if stride is None else (stride,) * dims if isinstance(stride, int) else tuple(stride)
    if dims == 1:
        means = ops.avg_pool2d(powers.expand_dims(-2), (1, sizes[0]), (1, steps[0]), ceil_mode=ceil_mode).squeeze(-2)
    elif dims == 2:
        means = ops.avg_pool2d(powers, sizes, steps, ceil_mode=ceil_mode)
    else:
        means = ops.avg_pool3d(powers, sizes, steps, ceil_mode=ceil_mode)
    count = 1
    for size in sizes:
        count = count * size
    out = ops.pow(means * count, 1.0 / norm_type)
    return out.squeeze(0) if single else out


def pool_with_divisor(
    x: Tensor,
    kernel_size: int | tuple[int, int],
    stride: int | tuple[int, int] | None,
    padding: int | tuple[int, int],
    ceil_mode: bool,
    divisor: int,
) -> Tensor:
    """F.avg_pool2d with divisor_override: the gradient of ops.avg_pool2d does not divide by it."""
    single = x.ndim == 3
    x = x.expand_dims(0) if single else x
    sizes = (kernel_size, kernel_size) if isinstance(kernel_size, int) else tuple(kernel_size)
    steps = sizes if stride is None else (stride, stride) if isinstance(stride, int) else tuple(stride)
    pads = (padding, padding) if isinstance(padding, int) else tuple(padding)
    sizes, steps, pads = [part * 2 if len(part) == 1 else part for part in (sizes, steps, pads)]
    ends = ()
    for axis in range(2):
        whole = x.shape[axis + 2] + 2 * pads[axis] - sizes[axis]
        count = whole // steps[axis] + 1
        if ceil_mode and whole % steps[axis] != 0 and count * steps[axis] < x.shape[axis + 2] + pads[axis]:
            count = count + 1
        ends = (*ends, max((count - 1) * steps[axis] + sizes[axis] - x.shape[axis + 2] - pads[axis], 0))
    padded = ops.pad(x, (pads[1], ends[1], pads[0], ends[0]))
    out = ops.avg_pool2d(padded, sizes, steps) * (sizes[0] * sizes[1] / divisor)
    return out.squeeze(0) if single else out


def adaptive_max_pool1d_with_indices(x: Tensor, output_size: list[int]) -> tuple[Tensor, Tensor]:
    """torch.nn.functional.adaptive_max_pool1d with the places of the largest elements."""
    found, places = ops.adaptive_max_pool2d(x.expand_dims(-2), (1, output_size[0]), return_indices=True)
    return found.squeeze(-2), places.squeeze(-2)
