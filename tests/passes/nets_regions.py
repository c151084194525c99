"""torchvision's operators on boxes and regions. ``CASES`` as in nets."""

from __future__ import annotations

from typing import Callable, Dict, Tuple

import torch
from torch import Tensor, nn
from torch.nn.modules.utils import _pair
from torchvision.ops import DeformConv2d, RoIAlign, batched_nms, box_iou, deform_conv2d, nms, roi_align, roi_pool


class KeptBoxes(nn.Module):
    """Boxes of falling score, without those that overlap."""

    def forward(self, x: Tensor, scores: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
        boxes = torch.cat([x[:, :2], x[:, :2] + x[:, 2:].abs()], 1)
        keep = nms(boxes, scores, 0.3)
        return boxes[keep], keep, box_iou(boxes, boxes), batched_nms(boxes, scores, (scores > 0).long(), 0.1)


class Regions(nn.Module):
    """Regions by tensor and by list, with a fixed number of samples and one that depends on the region."""

    def __init__(self) -> None:
        super().__init__()
        self.align = RoIAlign(3, 0.5, 2, True)

    def forward(self, x: Tensor, boxes: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        boxes = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:].abs() * 4], 1)
        rois = torch.cat([torch.zeros(boxes.shape[0], 1), boxes], 1)
        return self.align(x, rois), roi_align(x, [boxes[:2], boxes[2:]], (2, 3)), roi_pool(x, rois, 2, 1.0)


class Deformed(nn.Module):
    """A deformable convolution as layer and function, with groups, with and without a mask."""

    def __init__(self, kernel: int = 3) -> None:
        super().__init__()
        height, width = _pair(kernel)
        self.offset = nn.Conv2d(4, 2 * 2 * height * width, kernel, padding=1)
        self.mask = nn.Conv2d(4, 2 * height * width, kernel, padding=1)
        self.conv = DeformConv2d(4, 6, kernel, padding=1, groups=2)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        offset = self.offset(x)
        masked = self.conv(x, offset, torch.sigmoid(self.mask(x)))
        return masked, self.conv(x, offset), deform_conv2d(x, offset, self.conv.weight, padding=1)


_generator = torch.Generator().manual_seed(3)
boxes, scores = torch.randn(6, 4, generator=_generator), torch.randn(6, generator=_generator)
images = torch.randn(2, 4, 6, 7, generator=_generator)
CASES: Dict[str, Tuple[Callable[[], nn.Module], Tuple[Tensor, ...]]] = {
    "kept boxes": (KeptBoxes, (boxes, scores)),
    "regions": (Regions, (images, boxes)),
    "deformed": (Deformed, (images,)),
}
EXPECTED = {"kept boxes": {"MSP201"}}
"""How many boxes are kept depends on their values."""
