"""In-place writes to a tensor that a container or a second name also holds.

``CASES``: name -> (factory, inputs) of nets whose ports are equal to torch and carry no flag; ``FLAGGED``: those whose
ports can't follow the write and must say so (MSP401).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def image(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


class AppendedThenActivated(nn.Module):
    """The list holds the tensor that the in-place activation writes next."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(c, 4, 3, padding=1) for c in (3, 4))
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for conv in self.convs:
            x = conv(x)
            skips.append(x)
            x = self.act(x)
        return x * 2 + skips[0] + skips[1]


class NamedThenActivated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        out = {}
        x = self.conv(x)
        out["conv"] = x
        F.relu_(x)
        out["act"] = x
        return out["conv"] * 2 + out["act"]


class AugmentedAfterAppend(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        feats = []
        for layer in self.layers:
            x = layer(x)
            feats.append(x)
            x += 1
        return torch.cat(feats, 1)


class TwoNames(nn.Module):
    """A tuple assignment and a chained one bind second names."""

    def __init__(self) -> None:
        super().__init__()
        self.m = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.m(x)
        w, v = y, x
        y *= 2
        a = b = self.m(v)
        a += 1
        return w + b


class ElementAndName(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.m = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = self.m(x)
        hs = [h, h * 2]
        hs[0] += 1
        return h + hs[1]


class LateTaps(nn.Module):
    """Harmless: every tensor is put away after the write."""

    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 1), nn.ReLU(inplace=True))

    def forward(self, x: Tensor) -> Tensor:
        taps = []
        for i, layer in enumerate(self.f):
            x = layer(x)
            if i in (1, 3):
                taps.append(x)
        return taps[0] + taps[1]


class EarlyTaps(LateTaps):
    """The tensor that was put away is written in the next turn of the loop."""

    def forward(self, x: Tensor) -> Tensor:
        taps = []
        for i, layer in enumerate(self.f):
            x = layer(x)
            if i in (0, 3):
                taps.append(x)
        return taps[0] + taps[1]


class BlockWrites(nn.Module):
    """The write is the first thing that a block does to the skip."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.f = nn.Sequential(nn.ReLU(inplace=True), nn.Conv2d(4, 4, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        skips = [x]
        x = self.f(x)
        return x + skips[0]


class OutForms(nn.Module):
    """Calls that write their result to a tensor: one with a second name, an empty one, a part, a buffer, truth values."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.register_buffer("scaled", torch.zeros(3, 4))

    def forward(self, x):
        fixed = x.detach()
        first = torch.empty_like(fixed)
        alias = first
        torch.add(fixed, 1, out=first)
        grown = fixed.new_empty(0)
        both = torch.cat([fixed, first], dim=1, out=grown)
        half = fixed.new_zeros(3, 8)
        torch.mul(fixed, 2, out=half[:, :4])
        torch.mul(fixed, 3, out=self.scaled)
        mask = torch.empty(3, 4, dtype=torch.bool)
        torch.gt(fixed, 0, out=mask)
        return self.lin(x) * alias, both + 1, grown, half, mask, self.scaled + x


CASES = {
    "out forms": (OutForms, (image(3, 4),)),
    "appended then activated": (AppendedThenActivated, (image(2, 3, 6, 6),)),
    "named then activated": (NamedThenActivated, (image(2, 3, 6, 6),)),
    "augmented after append": (AugmentedAfterAppend, (image(3, 4),)),
    "two names": (TwoNames, (image(3, 4),)),
    "element and name": (ElementAndName, (image(3, 4),)),
    "late taps": (LateTaps, (image(2, 3, 6, 6),)),
}


class Shifted(nn.Module):
    """A part is copied into one that overlaps with it: torch reads what it has just written."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(6, 6)

    def forward(self, x):
        y = self.lin(x)
        y[:, :, 1:] = y[:, :, :-1]
        return y


FLAGGED = {
    "shifted": (Shifted, (image(2, 3, 6, 6),)),
    "early taps": (EarlyTaps, (image(2, 3, 6, 6),)),
    "block writes": (BlockWrites, (image(2, 3, 6, 6),)),
}
