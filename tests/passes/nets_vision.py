"""Torch modules, each with one habit of the vision zoos (torchvision, timm). ``CASES`` as in nets."""

from __future__ import annotations

from typing import Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def image(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


class NormAct(nn.BatchNorm2d):
    """torch's own forward written out, and an activation."""

    def __init__(self, features: int, apply_act: bool = True) -> None:
        super().__init__(features, eps=1e-3)
        self.act = nn.ReLU() if apply_act else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats:
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
                factor = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        batch = True if self.training else self.running_mean is None and self.running_var is None
        x = F.batch_norm(
            x,
            self.running_mean if not self.training or self.track_running_stats else None,
            self.running_var if not self.training or self.track_running_stats else None,
            self.weight,
            self.bias,
            batch,
            factor,
            self.eps,
        )
        return self.act(x)


class NormActs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.first, self.second = NormAct(4), NormAct(4, apply_act=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(self.conv(x)) + 1)


class ConvNorm(nn.Module):
    """Its padding is a number in some instances and a pair in others."""

    def __init__(self, inputs: int, outputs: int, **kwargs: Union[int, Tuple[int, int]]) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, bias=False, **kwargs)
        self.bn = nn.BatchNorm2d(outputs, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)), inplace=True)


class Factorized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvNorm(3, 4, kernel_size=3, stride=2)
        self.wide = ConvNorm(4, 4, kernel_size=(1, 5), padding=(0, 2))
        self.high = ConvNorm(4, 4, kernel_size=(5, 1), padding=(2, 0))
        self.square = ConvNorm(4, 4, kernel_size=3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        return torch.cat([self.high(self.wide(x)), self.square(x)], 1)


img = image(2, 3, 9, 9)
CASES = {
    "norm act": (NormActs, (img,)),
    "factorized": (Factorized, (img,)),
}
