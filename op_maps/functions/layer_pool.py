"""Adaptive pools for every size."""

from mindspore import Tensor, nn, ops

from .pooling import lp_pool


class AdaptiveAvgPool1d(nn.Cell):
    """torch.nn.AdaptiveAvgPool1d (nn.AdaptiveAvgPool1d wants sizes that divide)."""

    def __init__(self, output_size: int | tuple[int]) -> None:
        super().__init__()
        self.output_size = output_size if isinstance(output_size, int) else output_size[0]

    def construct(self, x: Tensor) -> Tensor:
        return ops.adaptive_avg_pool2d(x.expand_dims(-2), (1, self.output_size)).squeeze(-2)


class AdaptiveMaxPool1d(nn.Cell):
    """torch.nn.AdaptiveMaxPool1d (nn.AdaptiveMaxPool1d wants sizes that divide)."""

    def __init__(self, output_size: int | tuple[int], return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size if isinstance(output_size, int) else output_size[0]
        self.return_indices = return_indices

    def construct(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        out, indices = ops.adaptive_max_pool2d(x.expand_dims(-2), (1, self.output_size), return_indices=True)
        if self.return_indices:
            return out.squeeze(-2), indices.squeeze(-2)
        return out.squeeze(-2)


class AdaptiveMaxPool3d(nn.Cell):
    """torch.nn.AdaptiveMaxPool3d with sizes of None (the input's)."""

    def __init__(self, output_size: tuple[int | None, ...], return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def construct(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        depth, height, width = self.output_size
        depth = x.shape[-3] if depth is None else depth
        height = x.shape[-2] if height is None else height
        width = x.shape[-1] if width is None else width
        return ops.adaptive_max_pool3d(x, (depth, height, width), self.return_indices)


class MaxUnpool(nn.Cell):
    """torch.nn.MaxUnpool1d, 2d and 3d (``dims``): each value at the flat place its index names."""

    def __init__(
        self,
        dims: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] | None = None,
        padding: int | tuple[int, ...] = 0,
    ) -> None:
        super().__init__()
        self.dims = dims
        self.kernel_size = (kernel_size,) * dims if isinstance(kernel_size, int) else tuple(kernel_size)
        stride = self.kernel_size if stride is None else stride
        self.stride = (stride,) * dims if isinstance(stride, int) else tuple(stride)
        self.padding = (padding,) * dims if isinstance(padding, int) else tuple(padding)

    def construct(self, x: Tensor, indices: Tensor, output_size: tuple[int, ...] | None = None) -> Tensor:
        lead, spatial = x.shape[: -self.dims], x.shape[-self.dims :]
        sizes = ()
        count = 1
        for axis in range(self.dims):
            size = (spatial[axis] - 1) * self.stride[axis] - 2 * self.padding[axis] + self.kernel_size[axis]
            if output_size is not None:
                size = output_size[len(output_size) - self.dims + axis]
            sizes = (*sizes, size)
            count = count * size
        rows = 1
        for size in lead:
            rows = rows * size
        flat = ops.zeros((rows, count), x.dtype)
        out = ops.tensor_scatter_elements(flat, indices.reshape(rows, -1), x.reshape(rows, -1), axis=1)
        return out.reshape(lead + sizes)


class LPPool(nn.Cell):
    """torch.nn.LPPool1d, 2d and 3d (``dims``)."""

    def __init__(
        self,
        dims: int,
        norm_type: float,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.dims = dims
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def construct(self, x: Tensor) -> Tensor:
        return lp_pool(x, self.dims, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)
