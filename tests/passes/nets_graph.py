"""Nets whose forward changes containers, binds names in loops, cuts gradients by statement, or calls Tensor methods
that torch writes in Python."""

from __future__ import annotations

from typing import Callable, Dict, Tuple

import torch
from torch import Tensor, nn


class _Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))


class Extends(_Base):
    """Each item of the generator sees the list with the items before it."""

    def forward(self, x: Tensor) -> Tensor:
        y = list(self.a(x).chunk(2, 1))
        y.extend([y[0] * 2, y[1] + 1])
        z = [x]
        z.extend(m(z[-1]) for m in self.layers)
        z.extend([m(x) for m in self.layers if m is not None])
        w = [x]
        [w.append(m(w[-1])) for m in self.layers]
        w.extend(tuple(z))
        return torch.cat([*y, *z, *w], 1)


class Reorders(_Base):
    def forward(self, x: Tensor) -> Tensor:
        y = [x, self.a(x), self.b(x)]
        y.insert(0, x * 2)
        y.insert(2, x * 3)
        y.reverse()
        last = y.pop()
        y.pop(0)
        del y[0]
        d = {"x": x}
        d.update({"a": self.a(x)}, b=self.b(x))
        weights = torch.arange(1, len(y) + 1, dtype=x.dtype)
        return sum(w * t for w, t in zip(weights, y)) + last * 5 + sum(d.values())


class LoopNames(_Base):
    """Names bound in a loop, read after it or in its next round."""

    def forward(self, x: Tensor) -> Tensor:
        for i in range(3):
            if i > 0:
                x = x + previous  # noqa: F821
            previous = self.a(x)
            if i == 2:
                last = previous * 2
        for m in self.layers:
            x = m(x)
        for m in self.layers:
            y = m(x) + x
        return last + y


class GradModes(_Base):
    @torch.set_grad_enabled(False)
    def teacher(self, x: Tensor) -> Tensor:
        return self.a(x)

    @staticmethod
    @torch.no_grad()
    def frozen(layer: nn.Module, x: Tensor) -> Tensor:
        return layer(x)

    def forward(self, x: Tensor) -> Tensor:
        torch.set_grad_enabled(False)
        w = self.layers[0](x)
        torch.set_grad_enabled(True)
        y = self.layers[1](x)
        y.detach_()
        return self.teacher(x) + self.frozen(self.a, x) + self.b(x) + w + y


class SeveralDetached(_Base):
    """Several tensors bound at once under ``no_grad``, and a function decorated as a whole that returns a dict."""

    @torch.no_grad()
    def best(self, x: Tensor) -> Dict[str, Tensor]:
        p, q = self.a(x).split([2, 2], dim=-1)
        q = q + self.b(x)[:, :2]
        return {"all": p * q, "top": p.topk(1, dim=-1).values}

    @torch.no_grad()
    def pair(self, x: Tensor) -> Tuple[Tensor, ...]:
        return self.a(x).split(2, -1)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            p, q = self.a(x).chunk(2, -1)
            values, order = q.topk(2, dim=-1)
        found = self.best(x)
        u, v = self.pair(x)
        y = self.b(x)[:, :2] * (p + found["all"] + u * v + order.float())
        return y * values.sum(-1, keepdim=True) + found["top"].sum() * y


class PythonMethods(_Base):
    """``split`` and ``norm`` of a Tensor are Python there; shifts are no operator of MindSpore's Tensor."""

    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        q, k = self.a(x).split(2, dim=-1)
        u, v, w = self.b(x).split([1, 1, 2], 1)
        bits = (x > 0).long()
        return dict(  # noqa: C408
            qk=q * k + w,
            uv=u / (1 + v.norm(dim=1, keepdim=True)),
            shifted=(bits << 2) + (bits >> 1),
            member=self.a(x) if x.shape[1] in {3, 4} else x,
        )


_generator = torch.Generator().manual_seed(3)
x4 = torch.randn(3, 4, generator=_generator)
CASES: Dict[str, Tuple[Callable[[], nn.Module], Tuple[Tensor, ...]]] = {
    "extends": (Extends, (x4,)),
    "reorders": (Reorders, (x4,)),
    "loop names": (LoopNames, (x4,)),
    "grad modes": (GradModes, (x4,)),
    "several detached": (SeveralDetached, (x4,)),
    "python methods": (PythonMethods, (x4,)),
}
