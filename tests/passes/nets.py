"""Small torch modules, each with one habit of real code. ``CASES``: name -> (factory, inputs)."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def image(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


class InplaceAlias(nn.Module):
    """An in-place activation writes into the shortcut as well."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        y = self.act(x)
        return y * 2 + x


class InplaceNested(nn.Module):
    """The write hides inside an expression, the operand is read afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        y = self.conv(F.relu_(x)) + x
        y.add_(1.0).mul_(0.5)
        return y


class AugmentedAlias(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x)
        z = y
        y += x
        z = z * 2
        z[:, 0] = 0.5
        z[:, 1] += y[:, 1]
        return z


class Buffers(nn.Module):
    """Buffers: computed from arguments, saved and not saved, and a tensor kept as a plain attribute."""

    def __init__(self, n: int = 6) -> None:
        super().__init__()
        self.register_buffer("positions", torch.arange(n).float()[None] / n, persistent=False)
        self.register_buffer("scale", torch.ones(n) * 3)
        self.register_buffer("drawn", torch.randn(n), persistent=False)
        self.steps = torch.linspace(0, 1, n)
        self.lin = nn.Linear(n, n)

    def forward(self, x: Tensor) -> Tensor:
        return self.lin(x + self.positions) * self.scale + self.steps + self.drawn


class Pooled(NamedTuple):
    last: Tensor
    mean: Optional[Tensor] = None


class NamedOutput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def inner(self, x: Tensor) -> Pooled:
        h = self.lin(x)
        return Pooled(last=h, mean=h.mean(1))

    def forward(self, x: Tensor) -> Tensor:
        out = self.inner(x)
        return out.last * 2 + out.mean[:, None]


class DictOutput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)})

    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        return {"a": self.heads["a"](x), "b": self.heads["b"](x)}


@dataclass
class Settings:
    """The sizes of a Configured."""

    width: int = 8
    depth: int = 2
    act: str = "gelu"
    rate: float = 0.0


ACTIVATIONS: Dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}


class Configured(nn.Module):
    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings
        self.layers = nn.ModuleList([nn.Linear(settings.width, settings.width) for _ in range(settings.depth)])
        self.act = ACTIVATIONS[settings.act]
        self.drop = nn.Dropout(settings.rate)

    def forward(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = self.act(layer(x)) if i < self.settings.depth - 1 else layer(x)
        return self.drop(x)


class Plan:
    """A plain record of settings."""

    def __init__(self, channels: int, kernel: int, residual: bool) -> None:
        self.channels = self.round(channels)
        self.kernel = kernel
        self.residual = residual

    @staticmethod
    def round(channels: int) -> int:
        return max(4, channels // 4 * 4)


class Planned(nn.Module):
    def __init__(self, plans: List[Plan]) -> None:
        super().__init__()
        layers: List[nn.Module] = []
        width = 3
        for plan in plans:
            layers.append(nn.Conv2d(width, plan.channels, plan.kernel, padding=plan.kernel // 2))
            width = plan.channels
        self.features = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.features(x)


def planned() -> Planned:
    make = partial(Plan, residual=True)
    return Planned([make(9, 3), make(8, 1)])


class KeywordBlock(nn.Module):
    """Keywords travel through ``**kwargs``, not the same in every instance."""

    def __init__(self, cin: int, cout: int, **kwargs: int) -> None:
        super().__init__()
        bias = kwargs.pop("bias", True)
        self.conv = nn.Conv2d(cin, cout, bias=bias, **kwargs)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.conv(x), inplace=True)


class KeywordNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = KeywordBlock(3, 4, kernel_size=1)
        self.b = KeywordBlock(4, 4, kernel_size=3, padding=1, bias=False)
        self.c = KeywordBlock(4, 4, kernel_size=3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.c(self.b(self.a(x)))


class AddedModules(nn.Module):
    """Children by add_module and setattr, under names made of numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(OrderedDict([("conv0", nn.Conv2d(3, 4, 3))]))
        for i in range(2):
            self.features.add_module(f"block{i}", nn.Conv2d(4, 4, 1))
            setattr(self, f"head{i}", nn.Linear(4, 2))
        self.add_module("tail", nn.Linear(4, 3))

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        x = self.features(x).mean((2, 3))
        heads = [getattr(self, f"head{i}")(x) for i in range(2)]
        return torch.cat(heads, dim=1), self.tail(x)


class Base(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.lin = nn.Linear(dim, dim)

    def pre(self, x: Tensor) -> Tensor:
        return x * 2

    def forward(self, x: Tensor) -> Tensor:
        return self.lin(self.pre(x))


class Derived(Base):
    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.extra = nn.Linear(dim, dim)

    def pre(self, x: Tensor) -> Tensor:
        return x + 1

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.extra(x)


class Inherits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.base, self.derived = Base(4), Derived(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.derived(x)


class Norm(nn.LayerNorm):
    """A layer whose forward is its base's."""

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class ChannelNorm(nn.LayerNorm):
    """A layer that does more than its base."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 3, 1)
        x = F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class Norms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.channel = ChannelNorm(4, eps=1e-3)
        self.norm = Norm(5)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.channel(x))


class Optional_(nn.Module):
    """Children that only some instances have, and an input that may be None."""

    def __init__(self, gate: bool) -> None:
        super().__init__()
        self.gate = nn.Linear(4, 4) if gate else None
        self.out = nn.Linear(4, 4)

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        if self.gate is not None:
            x = x * torch.sigmoid(self.gate(x))
        if mask is not None:
            x = x.masked_fill(mask == 0, 0.0)
        return self.out(x)


class OptionalNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Optional_(i % 2 == 0) for i in range(3)])

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        for i, block in enumerate(self.blocks):
            x = block(x, mask) if i else block(x)
        return x


class Auxiliary(nn.Module):
    """Another structure in training."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head, self.aux = nn.Linear(4, 4), nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x: Tensor):
        h = torch.relu(self.body(x))
        if self.training:
            return self.head(h), self.aux(h)
        return self.head(h)


def split_heads(x: Tensor, heads: int) -> Tensor:
    b, n, c = x.shape
    return x.view(b, n, heads, c // heads).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self, dim: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.register_buffer("mask", torch.tril(torch.ones(5, 5)).view(1, 1, 5, 5))

    def forward(self, x: Tensor) -> Tensor:
        B, N, C = x.size()
        q, k, v = (split_heads(t, self.heads) for t in self.qkv(x).chunk(3, dim=-1))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :N, :N] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        return (att @ v).transpose(1, 2).contiguous().view(B, N, C)


class Shared(nn.Module):
    """One module under two names, tied weights, a module called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(11, 6)
        self.lin = nn.Linear(6, 6)
        self.again = self.lin
        self.out = nn.Linear(6, 11, bias=False)
        self.out.weight = self.emb.weight

    def forward(self, ids: Tensor) -> Tensor:
        h = self.again(torch.tanh(self.lin(self.emb(ids))))
        return self.out(h)


class NoGrad(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            target = self.a(x)
        return self.b(x) * target + self.a(x).detach()


class Loops(nn.Module):
    """while, zip, reversed, comprehension, star arguments, nested tuples, chained comparison."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 5, 3, 2, 1)])
        self.up = nn.ModuleList([nn.Conv2d(5, 4, 1), nn.Conv2d(4, 3, 1)])

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for conv in self.down:
            skips.append(x)
            x = conv(x)
        for conv, skip in zip(self.up, reversed(skips)):
            x = F.interpolate(conv(x), size=skip.shape[-2:], mode="nearest")
            if 0 < x.shape[1] <= skip.shape[1]:
                x = x + skip
        n = 2
        while n > 0:
            x = x * 0.5
            n -= 1
        stacked = torch.stack([x[:, i] for i in range(x.shape[1])], dim=1)
        return stacked.flatten(1)


class Sequence(nn.Sequential):
    """A Sequential with a forward of its own."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in self:
            x = layer(x) + x
        return x


class Custom(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = Sequence(nn.Linear(4, 4), nn.Linear(4, 4))
        self.scale = nn.Parameter(torch.full((4,), 0.5))
        self.bias = nn.Parameter(torch.randn(1, 4) * 0.1)
        self.register_parameter("none", None)

    @property
    def doubled(self) -> Tensor:
        return self.scale * 2

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x) * self.doubled + self.bias
        if self.none is not None:
            x = x + self.none
        return x


class Walrus(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = self.lin(x)
        if (n := h.shape[-1]) > 2:
            h = h / n
        assert h.ndim == 2, f"expected two dims, got {h.ndim}"
        return h


class Closure(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        def twice(t: Tensor) -> Tensor:
            return self.lin(self.lin(t))

        return twice(x) + twice(x * 2)


class NoParameters(nn.Module):
    """Nothing to load: MindSpore's load_checkpoint refuses a file without tensors."""

    def forward(self, query: Tensor, key: Tensor) -> Tuple[Tensor, Tensor]:
        weights = torch.softmax(query @ key.transpose(1, 2), dim=-1)
        return weights @ key, weights


def sequential() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


x4 = image(3, 4)
img = image(2, 3, 9, 9)
CASES: Dict[str, Tuple[Callable[[], nn.Module], Tuple[Tensor, ...]]] = {
    "inplace alias": (InplaceAlias, (img,)),
    "inplace nested": (InplaceNested, (img,)),
    "augmented alias": (AugmentedAlias, (x4,)),
    "buffers": (Buffers, (image(2, 6),)),
    "named output": (NamedOutput, (image(3, 4, 4),)),
    "dict output": (DictOutput, (x4,)),
    "configured": (lambda: Configured(Settings()), (image(2, 8),)),
    "planned": (planned, (img,)),
    "keywords": (KeywordNet, (img,)),
    "added modules": (AddedModules, (img,)),
    "inherits": (Inherits, (x4,)),
    "norms": (Norms, (image(2, 4, 5, 5),)),
    "optional": (OptionalNet, (image(3, 4), (torch.arange(12).reshape(3, 4) % 3))),
    "auxiliary": (Auxiliary, (x4,)),
    "attention": (Attention, (image(2, 5, 8),)),
    "shared": (Shared, (torch.arange(6).reshape(2, 3),)),
    "no grad": (NoGrad, (x4,)),
    "loops": (Loops, (image(2, 3, 8, 8),)),
    "custom": (Custom, (x4,)),
    "walrus": (Walrus, (x4,)),
    "closure": (Closure, (x4,)),
    "sequential": (sequential, (x4,)),
    "no parameters": (NoParameters, (image(2, 3, 4), image(2, 3, 4))),
}
