"""Habits of the modules that public projects publish, each net with members of one kind. ``CASES`` as in nets."""

from __future__ import annotations

from collections import namedtuple

import torch
from torch import Tensor, nn


def _x(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class HeldRanges(nn.Module):
    """A range comes out of a tuple that the constructor made, and is kept; the graph loops over it."""

    def __init__(self) -> None:
        super().__init__()
        Genotype = namedtuple("Genotype", "normal concat")
        genotype = Genotype(normal=[("skip", 1), ("conv", 0)], concat=range(2, 4))
        names, indices = zip(*genotype.normal, strict=True)
        concat = genotype.concat
        self.concat, self.first = concat, range(2)
        self.backwards = range(3, -1, -2)
        self.indices = indices
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in names])

    def forward(self, x: Tensor) -> Tensor:
        states = [x, x * 2]
        for i in self.first:
            states.append(self.layers[i](states[self.indices[i]]))
        return torch.cat([states[i] for i in self.concat] + [states[i] * 3 for i in self.backwards], dim=1)


CASES = {
    "held ranges": (HeldRanges, (_x(2, 4),)),
}
