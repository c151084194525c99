"""Nets whose forward changes containers, binds names in loops, runs over children, cuts gradients by statement, or
calls Tensor methods that torch writes in Python."""

from __future__ import annotations

from typing import Callable, Dict, List, Tuple

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


class InOrder(nn.Sequential):
    """A Sequential without a constructor of its own, which runs over what torch registered."""

    def forward(self, x: Tensor) -> Tensor:
        for name, layer in self._modules.items():
            x = layer(x) * 2 if name == "1" else layer(x)
        return x


class Each(nn.ModuleList):
    def forward(self, x: Tensor) -> List[Tensor]:
        return [layer(x) for layer in self._modules.values()]


class Named(nn.ModuleDict):
    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        return {name: layer(x) for name, layer in self.items()}


class Chain(nn.Module):
    """Children that a class and the one that derives from it have."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.children():
            x = layer(x)
        return x * len(self._modules)


class LongerChain(Chain):
    def __init__(self) -> None:
        super().__init__()
        self.b = nn.Linear(4, 4)


class Extractor(nn.Module):
    """Features of the layers inside another module, by name and in their order; one layer stands there twice."""

    def __init__(self, names: Tuple[str, ...] = ("0", "2")) -> None:
        super().__init__()
        act = nn.Tanh()
        self.base = InOrder(nn.Linear(4, 4), act, nn.Linear(4, 4), act)
        self.plain = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
        self.chain = LongerChain()
        self.each = Each(nn.Linear(4, i + 2) for i in range(2))
        self.named = Named({"x": nn.Linear(4, 2), "y": nn.Linear(4, 3)})
        self.names = names

    def forward(self, x: Tensor) -> List[Tensor]:
        out = [self.base(x), self.chain(x), *self.each(x), *self.named(x).values()]
        y = x
        for name, layer in self.base._modules.items():
            y = layer(y)
            if name in self.names:
                out.append(y)
        for name, layer in self.chain._modules.items():
            y = layer(y) if name == "a" else y + layer(y)
        for index, layer in enumerate(self.plain.children()):
            y = layer(y) + index
        for layer in self.base.children():
            x = layer(x)
        return [*out, x, y]


_generator = torch.Generator().manual_seed(3)
x4 = torch.randn(3, 4, generator=_generator)
CASES: Dict[str, Tuple[Callable[[], nn.Module], Tuple[Tensor, ...]]] = {
    "extends": (Extends, (x4,)),
    "reorders": (Reorders, (x4,)),
    "loop names": (LoopNames, (x4,)),
    "grad modes": (GradModes, (x4,)),
    "several detached": (SeveralDetached, (x4,)),
    "python methods": (PythonMethods, (x4,)),
    "children": (Extractor, (x4,)),
    "in order": (lambda: InOrder(nn.Linear(4, 3), nn.ReLU()), (x4,)),
}
