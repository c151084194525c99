"""Layers under weight_norm and spectral_norm, as a hook and as a parametrization."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations, remove_weight_norm, spectral_norm, weight_norm


def image(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


class Vocoder(nn.Module):
    """Upsampling, dilated residual convolutions, one layer without its norm again."""

    def __init__(self) -> None:
        super().__init__()
        self.first = weight_norm(nn.Conv1d(3, 4, 3, padding=1))
        self.up = weight_norm(nn.ConvTranspose1d(4, 4, 4, stride=2, padding=1))
        self.convs = nn.ModuleList([weight_norm(nn.Conv1d(4, 4, 3, dilation=d, padding=d, groups=2)) for d in (1, 3)])
        self.last = weight_norm(nn.Conv1d(4, 1, 3, bias=False))
        remove_weight_norm(self.last)

    def forward(self, x: Tensor) -> Tensor:
        x = self.up(F.leaky_relu(self.first(x), 0.1))
        for conv in self.convs:
            x = x + conv(F.leaky_relu(x, 0.1))
        return self.last(x)


def normed(*args: int, **kwargs: int) -> nn.Module:
    return parametrizations.weight_norm(nn.Conv2d(*args, **kwargs))


class Parametrized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.Sequential(normed(3, 4, 3, stride=2, padding=1), nn.ReLU(), normed(4, 4, 1))
        self.head = parametrizations.weight_norm(nn.Linear(4, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.convs(x).mean((2, 3)))


class Positions(nn.Module):
    """Lengths along the kernel's taps, as speech models have them, over a layer that is there already."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 4, kernel_size=4, padding=2, groups=2)
        self.conv = parametrizations.weight_norm(self.conv, name="weight", dim=2)
        self.other = weight_norm(nn.Conv1d(4, 4, 3, padding=1), dim=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.other(F.gelu(self.conv(x)[:, :, :-1]))


class WholeWeights(nn.Module):
    """One length for all of a weight: ``dim=None``, which torch keeps as -1, and -1 itself."""

    def __init__(self) -> None:
        super().__init__()
        self.first = weight_norm(nn.Conv1d(4, 4, 3, padding=1), dim=None)
        self.last = weight_norm(nn.Conv1d(4, 4, 3, padding=1), dim=-1)
        self.up = weight_norm(nn.ConvTranspose1d(4, 2, 2), dim=None)
        self.image = parametrizations.weight_norm(nn.Conv2d(1, 3, 3), dim=None)
        self.heads = nn.ModuleList([weight_norm(nn.Linear(3, 2), dim=None)])
        self.other = parametrizations.weight_norm(nn.Linear(2, 2, bias=False), dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.up(self.last(F.relu(self.first(x))))
        x = self.image(x.unsqueeze(1).repeat(1, 1, 2, 1))
        return self.other(self.heads[0](x.mean((2, 3))))


class Critic(nn.Module):
    """Two passes a call, as a discriminator on real and made images: each pass takes one power iteration."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.Sequential(spectral_norm(nn.Conv2d(3, 4, 3, stride=2, padding=1)), nn.LeakyReLU(0.2))
        self.up = spectral_norm(nn.ConvTranspose2d(4, 6, 4, stride=2, padding=1, bias=False))
        self.head = spectral_norm(nn.Linear(6, 2))

    def score(self, x: Tensor) -> Tensor:
        return self.head(self.up(self.convs(x)).mean((2, 3)))

    def forward(self, x: Tensor) -> Tensor:
        return self.score(x) - self.score(x.flip(-1) * 2)


class ParametrizedCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = parametrizations.spectral_norm(nn.Conv2d(3, 4, 3, padding=1, groups=1))
        self.line = parametrizations.spectral_norm(nn.Conv1d(4, 4, 3))
        self.head = parametrizations.spectral_norm(nn.Linear(4, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.line(self.conv(x).mean(3)).mean(2))


CASES = {
    "whole weights": (WholeWeights, (image(2, 4, 6),)),
    "positions": (Positions, (image(2, 4, 7),)),
    "critic": (Critic, (image(2, 3, 6, 6),)),
    "parametrized critic": (ParametrizedCritic, (image(2, 3, 6, 6),)),
    "vocoder": (Vocoder, (image(2, 3, 8),)),
    "parametrized": (Parametrized, (image(2, 3, 6, 6),)),
}
