import torch.nn as nn

from .blocks import Residual


class SmallNet(nn.Module):
    def __init__(self, num_classes, width=8):
        super().__init__()
        self.stem = nn.Linear(6, width)
        self.blocks = nn.Sequential(*[Residual(width) for _ in range(2)])
        self.head = nn.Linear(width, num_classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)))


class WideNet(SmallNet):
    def __init__(self, num_classes):
        super().__init__(num_classes, width=16)

    def forward(self, x):
        return super().forward(x) * 1.5
