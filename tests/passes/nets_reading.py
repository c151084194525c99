"""Nets whose ports read shorter than their source: dead names, aliases, empty constructors, named children."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from typing import Callable, Dict, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Base(nn.Module):
    """Its constructor says nothing that its subclasses need."""

    kind = "base"
    tags = ("a", "b")

    def __init__(self, *rest: object) -> None:
        super().__init__()
        self.log = {}
        self.log["rest"] = len(rest)


class Scale(Base):
    factor = 2.0

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


def mixed(query: Tensor, key: Tensor, value: Tensor, rate: float = 0.0) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, dropout_p=rate, is_causal=False)


class Registry:
    """Kinds of attention by name; an object that the port does not have."""

    def __init__(self) -> None:
        self.known = {"mixed": mixed}

    def get(self, name: str) -> Callable[..., Tensor]:
        return self.known[name]


KINDS = Registry()


class Attention(nn.Module):
    """The rate of its dropout is an option, 0 here."""

    def __init__(self, width: int = 4, rate: float = 0.0) -> None:
        super().__init__()
        self.rate = rate
        self.proj = nn.Linear(width, 3 * width)

    def forward(self, x: Tensor) -> Tensor:
        attend: Callable[..., Tensor] = KINDS.get("mixed")
        q, k, v = self.proj(x).unsqueeze(0).chunk(3, dim=-1)
        return attend(q, k, v, rate=self.rate if self.training else 0.0).squeeze(0)


class NamedChildren(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        act = nn.ReLU
        names = []
        for name in ("norm", "fc"):
            names.append(name)
        self.head = nn.Sequential(OrderedDict([("norm", nn.LayerNorm(4)), ("act", act()), ("fc", nn.Linear(4, 3))]))
        self.scale = Scale()
        self.attention = Attention()

    def forward(self, x: Tensor) -> Tensor:
        y = None
        z = None
        y = self.head.norm(x)
        x = x + self.attention(x)
        if self.training:
            z = x * 2
        else:
            z = x * 3
        return self.head.fc(self.head.act(y) + self.scale(z))


class ReadLater(nn.Module):
    """Each of the names is read after another was bound, in the next round, or by a lambda."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        sizes = [4]
        sizes.append(3)
        self.last = nn.Linear(*sizes)

    def forward(self, x: Tensor) -> Tensor:
        before = x
        total = self.fc(x)
        for i in range(3):
            total = total + before * i
            before = total * 0.5
            if i == 1:
                continue
            before = before + x
        scale = 2.0
        scale = 3.0
        double = lambda t: t * scale  # noqa: E731
        return self.last(double(total + before))


class LateLambda(nn.Module):
    """The lambda sees the value that its name has when it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        scale = 2.0
        scaled = lambda t: t * scale  # noqa: E731
        scale = 3.0
        return scaled(self.fc(x))


x4 = torch.randn(3, 4, generator=torch.Generator().manual_seed(4))


def is_even(number: int, by: int) -> bool:
    return number % by == 0


class PlainBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: Tensor):
        return self.lin(x)


class CrossBlock(PlainBlock):
    def __init__(self):
        super().__init__()
        self.has_cross = True

    def forward(self, x: Tensor, context=None):
        return self.lin(x) + context


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: Tensor, scale=None, shift=None):
        x = self.lin(x)
        x = x * scale if scale is not None else x
        return x + shift if shift is not None else x


class Selecting(nn.Module):
    """Keywords of one's own are selected by what another function takes; cells are told apart by an attribute."""

    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.blocks = nn.ModuleList([PlainBlock(), CrossBlock(), PlainBlock()])

    def apply_inner(self, x, **kwargs):
        known = set(inspect.signature(self.inner.forward).parameters.keys())
        kwargs = {k: w for k, w in kwargs.items() if k in known}
        return self.inner(x, **kwargs)

    def forward(self, x: Tensor, y):
        assert all([is_even(d, 1) for d in x.shape[-2:]])  # noqa: C419
        for block in self.blocks:
            if hasattr(block, "has_cross") and block.has_cross:
                x = block(x, context=y)
            else:
                x = block(x)
        return self.apply_inner(x, scale=y, other=x) + self.apply_inner(x, shift=y)


CASES: Dict[str, Tuple[Callable[[], nn.Module], Tuple[Tensor, ...]]] = {
    "selecting": (Selecting, (x4, x4 * 2)),
    "named children": (NamedChildren, (x4,)),
    "late lambda": (LateLambda, (x4,)),
    "read later": (ReadLater, (x4,)),
}
