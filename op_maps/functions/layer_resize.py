"""torch's F.interpolate: sizes from scale factors, bicubic, antialiasing."""

import math
from collections.abc import Sequence

import numpy as np
from mindspore import Tensor, nn, ops


def cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """The cubic convolution kernel."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((d - 5) * d + 8) * d * a - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def resize_weights(size: int, out: int, ratio: float, mode: str, align_corners: bool, antialias: bool) -> np.ndarray:
    """(out, size): what each input element adds to each output element along one axis."""
    place = np.arange(out)
    if mode.startswith("nearest"):
        source = np.floor((place + (0.5 if mode == "nearest-exact" else 0.0)) * ratio).astype(np.int64)
        return np.eye(size)[np.minimum(source, size - 1)].astype(np.float32)
    if align_corners:
        centre = place * ((size - 1) / (out - 1) if out > 1 else 0.0)
    else:
        centre = (place + 0.5) * ratio - 0.5
    is_cubic = mode == "bicubic"
    if antialias:
        stretch = max(ratio, 1.0)
        distance = (np.arange(size)[None] - centre[:, None]) / stretch
        weights = cubic(distance, -0.5) if is_cubic else np.maximum(0.0, 1.0 - np.abs(distance))
        return (weights / weights.sum(1, keepdims=True)).astype(np.float32)
    if not is_cubic:
        centre = np.clip(centre, 0, size - 1)
    first = np.floor(centre).astype(np.int64)
    weights = np.zeros((out, size))
    for tap in range(-1, 3) if is_cubic else range(2):
        distance = centre - first - tap
        share = cubic(distance, -0.75) if is_cubic else np.maximum(0.0, 1.0 - np.abs(distance))
        np.add.at(weights, (place, np.clip(first + tap, 0, size - 1)), share)
    return weights.astype(np.float32)


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """torch.nn.functional.interpolate over all axes after the second."""
    spatial = input.shape[2:]
    dims = len(spatial)
    ratios: tuple[float, ...] = ()
    if size is not None:
        sizes = (size,) * dims if isinstance(size, int) else tuple(size)
    else:
        scales = tuple(scale_factor) if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * dims
        sizes = ()
        for index in range(dims):
            sizes = (*sizes, math.floor(spatial[index] * scales[index]))
        if not recompute_scale_factor:
            for index in range(dims):
                ratios = (*ratios, 1.0 / scales[index])
    exact = True
    if ratios:
        for index in range(dims):
            exact = exact and abs(sizes[index] * ratios[index] - spatial[index]) < 1e-6
    else:
        for index in range(dims):
            ratios = (*ratios, spatial[index] / sizes[index])
    if mode == "area" or (exact and mode != "bicubic" and not antialias):
        if mode.startswith("nearest") or mode == "area":
            return ops.interpolate(input, size=sizes, mode=mode)
        return ops.interpolate(input, size=sizes, mode=mode, align_corners=bool(align_corners))
    for index in range(dims):
        if sizes[index] == spatial[index] and ratios[index] == 1.0:
            continue
        weights = Tensor(
            resize_weights(spatial[index], sizes[index], ratios[index], mode, bool(align_corners), antialias)
        ).astype(input.dtype)
        axis = index + 2
        input = ops.matmul(input.swapaxes(axis, -1), weights.swapaxes(0, 1)).swapaxes(axis, -1)
    return input


class Upsample(nn.Cell):
    """torch.nn.Upsample."""

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size = size
        self.scale_factor = scale_factor
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def construct(self, x: Tensor) -> Tensor:
        return interpolate(x, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor)
