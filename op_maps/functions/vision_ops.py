"""torchvision's operators on boxes and regions, and its deformable convolution."""

from mindspore import Tensor, ops


def kept_boxes(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """torchvision.ops.nms: indices of the boxes (N, 4) that are kept, by falling score."""
    order = ops.argsort(scores, descending=True)
    boxes = boxes[order]
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    sides = ops.clamp(
        ops.minimum(boxes[:, None, 2:], boxes[None, :, 2:]) - ops.maximum(boxes[:, None, :2], boxes[None, :, :2]), 0
    )
    shared = sides[:, :, 0] * sides[:, :, 1]
    places = ops.arange(boxes.shape[0])
    later = places[None, :] > places[:, None]
    covers = ops.logical_and(shared > iou_threshold * (areas[:, None] + areas[None, :] - shared), later).int()
    kept = ops.ones_like(order)
    index = Tensor(0)
    while index < boxes.shape[0]:  # a box that is dropped itself drops no other
        kept = kept * (1 - covers[index] * kept[index])
        index = index + 1
    return ops.masked_select(order, kept.bool()).long()


def aligned_rois(
    x: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    """torchvision.ops.roi_align: (K, C, pooled_height, pooled_width) for rois (K, 5) of image, x1, y1, x2, y2.

    Bilinear samples on a grid are a product of weights of rows and weights of columns.
    """
    rois = ops.stop_gradient(rois)
    images = x[rois[:, 0].int()]
    shift = 0.5 if aligned else 0.0
    places = rois * spatial_scale - shift
    rows = roi_weights(places[:, 2], places[:, 4], x.shape[2], pooled_height, sampling_ratio, aligned)
    columns = roi_weights(places[:, 1], places[:, 3], x.shape[3], pooled_width, sampling_ratio, aligned)
    return ops.matmul(ops.matmul(rows.expand_dims(1), images), columns.swapaxes(1, 2).expand_dims(1))


def roi_weights(start: Tensor, end: Tensor, size: int, bins: int, samples: int, aligned: bool) -> Tensor:
    """The share (K, bins, size) of each place of an axis in each bin of the regions from start to end (K,)."""
    length = end - start
    if not aligned:
        length = ops.maximum(length, ops.ones_like(length))
    step = (length / bins).reshape(-1, 1, 1)
    count = ops.full_like(step, samples) if samples > 0 else ops.ceil(step)
    index = ops.arange(samples if samples > 0 else size).astype(step.dtype)
    places = start.reshape(-1, 1, 1) + step * ops.arange(bins).astype(step.dtype).reshape(1, -1, 1)
    places = places + (index + 0.5) * step / ops.maximum(count, ops.ones_like(count))
    used = ops.logical_and(ops.logical_and(places >= -1, places <= size), index < count).astype(step.dtype)
    places = ops.clamp(places, 0, size - 1).expand_dims(3)
    weights = ops.relu(1 - ops.abs(places - ops.arange(size).astype(step.dtype))) * used.expand_dims(3)
    return weights.sum(2) / ops.maximum(count, ops.ones_like(count))


def pooled_rois(x: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int):
    """torchvision.ops.roi_pool: (K, C, pooled_height, pooled_width), the largest of each bin; without places."""
    rois = ops.stop_gradient(rois)
    places = ops.floor(rois * spatial_scale + 0.5)
    images = x[rois[:, 0].int()]
    rows = roi_bins(places[:, 2], places[:, 4], x.shape[2], pooled_height)[:, None, :, :, None]
    columns = roi_bins(places[:, 1], places[:, 3], x.shape[3], pooled_width)[:, None, None, :, :]
    least = ops.full_like(images, float("-inf")).expand_dims(3)
    found = ops.where(columns, images.expand_dims(3), least).max(4)
    found = ops.where(rows, found.expand_dims(2), float("-inf")).max(3)
    return ops.where(ops.isinf(found), ops.zeros_like(found), found), None


def roi_bins(start: Tensor, end: Tensor, size: int, bins: int) -> Tensor:
    """Which places of an axis (K, bins, size) lie in which bin of the regions from start to end (K,)."""
    step = ops.maximum(end - start + 1, ops.ones_like(start)).reshape(-1, 1) / bins
    index = ops.arange(bins).astype(step.dtype)
    first = ops.floor(index * step) + start.reshape(-1, 1)
    last = ops.ceil((index + 1) * step) + start.reshape(-1, 1)
    places = ops.arange(size).astype(step.dtype)
    return ops.logical_and(places >= first.expand_dims(2), places < last.expand_dims(2))


def deformable_conv2d(
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Tensor:
    """torchvision.ops.deform_conv2d: a convolution that samples x (N, C, H, W) bilinearly, moved by offset."""
    n, channels, height, width = x.shape
    out_channels, _, kernel_height, kernel_width = weight.shape
    taps, rows, columns = kernel_height * kernel_width, offset.shape[2], offset.shape[3]
    moved = offset.reshape(n, offset_groups, taps, 2, rows, columns)
    down = ops.arange(kernel_height).repeat_interleave(kernel_width).reshape(-1, 1, 1) * dilation[0]
    right = ops.arange(kernel_width).tile((kernel_height,)).reshape(-1, 1, 1) * dilation[1]
    y = moved[:, :, :, 0] + (ops.arange(rows).reshape(1, -1, 1) * stride[0] - padding[0] + down)
    z = moved[:, :, :, 1] + (ops.arange(columns).reshape(1, 1, -1) * stride[1] - padding[1] + right)
    places = (n, offset_groups, 1, taps * rows * columns)
    sampled = sample_bilinear(
        x.reshape(n, offset_groups, -1, height * width), y.reshape(places), z.reshape(places), height, width
    )
    if use_mask:
        sampled = sampled * mask.reshape(places)
    sampled = sampled.reshape(n, groups, channels // groups * taps, rows * columns)
    kernel = weight.reshape(1, groups, out_channels // groups, -1)
    return ops.matmul(kernel, sampled).reshape(n, out_channels, rows, columns) + bias.reshape(1, -1, 1, 1)


def sample_bilinear(x: Tensor, y: Tensor, z: Tensor, height: int, width: int) -> Tensor:
    """Values (N, G, C, P) of x (N, G, C, height * width) at rows y and columns z (N, G, 1, P); zero outside."""
    top, left = ops.stop_gradient(ops.floor(y)), ops.stop_gradient(ops.floor(z))
    shape = (*x.shape[:3], y.shape[3])
    sampled = ops.zeros(shape, x.dtype)
    for row, high in ((top, 1 - (y - top)), (top + 1, y - top)):
        for column, wide in ((left, 1 - (z - left)), (left + 1, z - left)):
            inside = ops.logical_and(
                ops.logical_and(row >= 0, row < height), ops.logical_and(column >= 0, column < width)
            )
            index = ops.clamp(row, 0, height - 1) * width + ops.clamp(column, 0, width - 1)
            found = ops.gather_elements(x, 3, ops.broadcast_to(index.int(), shape))
            sampled = sampled + found * (high * wide * inside.astype(x.dtype))
    return sampled
