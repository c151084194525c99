"""A U-Net for segmentation: transposed convolutions on the way up, skip connections across."""

from typing import List

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class DoubleConv(nn.Module):
    """Two convolutions, each normalised and rectified."""

    def __init__(self, in_channels: int, out_channels: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(out_channels)
        self.dropout = nn.Dropout2d(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm1(self.conv1(x)), inplace=True)
        x = self.dropout(x)
        return F.relu(self.norm2(self.conv2(x)), inplace=True)


class Down(nn.Module):
    """Halve the resolution, then convolve."""

    def __init__(self, in_channels: int, out_channels: int, dropout: float) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(2)
        self.conv = DoubleConv(in_channels, out_channels, dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(self.pool(x))


class Up(nn.Module):
    """Double the resolution, join the skip connection, convolve."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(in_channels, out_channels, kernel_size=2, stride=2)
        self.conv = DoubleConv(out_channels * 2, out_channels)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        x = self.up(x)
        # An odd size loses a row or column when it is halved.
        dy, dx = skip.shape[-2] - x.shape[-2], skip.shape[-1] - x.shape[-1]
        if dy != 0 or dx != 0:
            x = F.pad(x, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.conv(torch.cat([skip, x], dim=1))


class UNet(nn.Module):
    """Contract `depth` times, expand as often, and classify every pixel.

    Args:
        width: channels of the first level; they double from level to level.
    """

    def __init__(
        self, in_channels: int = 3, num_classes: int = 2, width: int = 32, depth: int = 3, dropout: float = 0.1
    ) -> None:
        super().__init__()
        channels = [width * 2**i for i in range(depth + 1)]
        self.stem = DoubleConv(in_channels, width)
        self.downs = nn.ModuleList([Down(a, b, dropout) for a, b in zip(channels, channels[1:])])
        self.ups = nn.ModuleList([Up(b, a) for a, b in zip(channels[::-1][1:], channels[::-1])])
        self.head = nn.Conv2d(width, num_classes, kernel_size=1)

    def forward(self, image: Tensor) -> Tensor:
        x = self.stem(image)
        skips: List[Tensor] = []
        for down in self.downs:
            skips.append(x)
            x = down(x)
        for up, skip in zip(self.ups, reversed(skips)):
            x = up(x, skip)
        return self.head(x)
