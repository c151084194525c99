"""Constructors: cells that join a container late, tensors that are filled before they become parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable, Dict, Tuple

import torch
from torch import Tensor, nn


class FilledLists(nn.Module):
    """Lists and dicts that have their place before their cells come."""

    def __init__(self, units: Tuple[int, ...] = (4, 4)) -> None:
        super().__init__()
        self.layers = nn.ModuleDict()
        for i, u in enumerate(units):
            self.layers["layer_" + str(i + 1)] = nn.Linear(4, u)
        self.more = nn.ModuleList()
        for _ in range(2):
            self.more.append(nn.Linear(4, 4))
        self.named = nn.ModuleDict({"a": nn.Linear(4, 4)})
        self.named.update({"b": nn.Linear(4, 4)})

    def forward(self, x: Tensor) -> Tensor:
        for i in range(2):
            x = self.layers["layer_" + str(i + 1)](x)
        for m in self.more:
            x = m(x)
        return self.named["b"](self.named["a"](x))


class PlainHolders(nn.Module):
    """``nn.Module()`` that only holds children; a child that gets another one; a list filled under another name."""

    def __init__(self, n: int = 3) -> None:
        super().__init__()
        self.net = FilledLists()
        self.net.fc = nn.Linear(4, 2)
        self.mid = nn.Module()
        self.mid.first = nn.Linear(4, 4)
        self.ups = nn.ModuleList()
        for _ in range(2):
            up = nn.Module()
            up.conv = nn.Linear(4, 4)
            self.ups.append(up)
        self.convs = nn.ModuleList()
        layers = self.convs
        for _ in range(n):
            layers.append(nn.Linear(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        for c in self.convs:
            x = c(x)
        for up in self.ups:
            x = up.conv(x)
        return self.net.fc(self.net(self.mid.first(x)))


class FilledTensors(nn.Module):
    """Tensors that an initializer fills before they are parameters or buffers."""

    def __init__(self, n: int = 4, r: int = 2) -> None:
        super().__init__()
        a = torch.empty(r, n)
        nn.init.kaiming_uniform_(a, a=math.sqrt(5))
        self.a = nn.Parameter(a)
        t = torch.zeros(n, n)
        bound = 1.0 / math.sqrt(t.size(1))
        t.uniform_(-bound, bound)
        self.t = nn.Parameter(t)
        v = torch.empty(n, n).normal_(0, 0.1)
        v = v / 2
        self.v = nn.Parameter(v)
        k = torch.zeros(n)
        nn.init.constant_(k, 0.5)
        self.register_buffer("k", k)
        self.o = nn.Parameter(nn.init.orthogonal_(torch.Tensor(n, n)))
        self.b = nn.Parameter(torch.Tensor(n).fill_(0.3))
        self.values = nn.Parameter(torch.Tensor([0.1, 0.2]))
        self.indices = torch.LongTensor([1, 0])

    def forward(self, x: Tensor) -> Tensor:
        y = x @ self.t @ self.v @ self.o * self.k + self.b * self.values.sum()
        return (x @ self.a.t()).sum() + y[:, self.indices].sum(1, keepdim=True) * y


class MeanShift(nn.Conv2d):
    """A layer whose weights are computed and frozen."""

    def __init__(self, rgb_range: float, mean: Tuple[float, ...], std: Tuple[float, ...], sign: int = -1) -> None:
        super().__init__(3, 3, kernel_size=1)
        std_ = torch.Tensor(std)
        self.weight.data = torch.eye(3).view(3, 3, 1, 1)
        self.weight.data.div_(std_.view(3, 1, 1, 1))
        self.bias.data = sign * rgb_range * torch.Tensor(mean) / std_
        for p in self.parameters():
            p.requires_grad = False


class SetData(nn.Module):
    """Parameters that a constructor writes, and flags that are given as numbers."""

    def __init__(self, bias: int = 4) -> None:
        super().__init__()
        self.sub_mean = MeanShift(2, (0.4, 0.5, 0.6), (1.0, 0.5, 0.25))
        self.conv = nn.Conv2d(3, 3, 3, padding=1, bias=bias)
        self.conv.weight.data = self.conv.weight.data * 2
        self.conv.bias.data.copy_(torch.full((3,), 0.5))
        with torch.no_grad():
            self.conv.weight[0] = 1.0
        self.norm = nn.BatchNorm2d(3, affine=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(self.sub_mean(x)))


class LeftOvers(nn.Module):
    """Statements that look dead: a loop whose target is read behind it, a list with two names, a write-only dict."""

    def __init__(self, widths: Tuple[int, ...] = (3, 4, 5)) -> None:
        super().__init__()
        for wide in widths:
            unused = wide * 2  # noqa: F841
        self.out = nn.Linear(4, wide)
        self.dims = [4]
        dims = self.dims
        dims += [wide]
        self.more = nn.Linear(self.dims[0], self.dims[-1] + len(self.dims))
        self.bn = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        kept = {}
        kept.update(a=self.bn(x))
        for i in range(3):
            y = x * i  # noqa: F841
        for k in (2, 3):
            pass
        return self.out(x * i * k).sum() + self.more(x) * self.bn.running_mean.sum()


class Backbone(nn.Module):
    """Convolutions with norms, and a buffer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4))
        self.layer2 = nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.utils.spectral_norm(nn.Conv2d(4, 4, 1)))
        self.register_buffer("scale", torch.full((4, 1, 1), 0.5))
        self.register_buffer("weight", torch.full((4, 1, 1), 1.5))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer2(self.layer1(x) * self.scale) * self.weight


class Thawed(nn.Module):
    """Frozen backbones of which a part, or all, is trained again: their buffers are never."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = Backbone()
        self.backbone.requires_grad_(False)
        self.backbone.layer2.requires_grad_(True)
        self.other = Backbone()
        for p in self.other.parameters():
            p.requires_grad = False
        for p in self.other.parameters():
            p.requires_grad = True
        self.third = Backbone()
        self.third.requires_grad_(False)
        for name, p in self.third.named_parameters():
            if "layer2" in name:
                p.requires_grad_(True)
        self.head = nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.backbone(x) + self.other(x) + self.third(x))


def half_weight_norm(layer: nn.Conv2d) -> nn.Module:
    """A function of one's own, with a name that ends as torch's, that also changes the layer."""
    layer.stride = (2, 2)
    return nn.utils.weight_norm(layer)


class OwnNorm(nn.Module):
    """Layers that a function of one's own changes and norms."""

    def __init__(self) -> None:
        super().__init__()
        self.a = half_weight_norm(nn.Conv2d(3, 4, 3))
        self.b = nn.utils.weight_norm(nn.Conv2d(4, 4, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x))


class ReadPadding(nn.Module):
    """A part of a convolution's padding, which torch holds as a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 3, 3, padding=1)
        self.b = nn.Conv2d(3, 3, 3, padding=(1, 2))

    def forward(self, x: Tensor) -> Tensor:
        top, left = self.a.padding
        x = self.b(self.a(x)) * (self.a.padding[0] + self.b.padding[1])
        return (
            nn.functional.pad(x, (top, left))
            + nn.functional.conv2d(x, self.a.weight, None, self.a.stride, self.b.padding).sum()
        )


class Sized(nn.Module):
    def __init__(self, inp: int, out: int = 4, bias: bool = True) -> None:
        super().__init__()
        self.layer = nn.Linear(inp, out, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class SettingsThatChange(nn.Module):
    """What a dict of settings was made of changes before the dict is handed on."""

    def __init__(self, planes: Tuple[int, ...] = (8, 6), rounds: int = 3, **kwargs) -> None:
        super().__init__()
        self.in_planes = 4
        self.blocks = nn.Sequential(*[self._block(p) for p in planes])
        sizes = list(planes)
        settings = {"out": sizes[0]}
        sizes[0] = 3
        self.items = Sized(sizes[0], **settings)
        width = 4
        settings = {"out": width}
        make = lambda width: Sized(width, **settings)  # noqa: E731
        self.deferred = make(8)
        given = {"out": kwargs.get("out")}
        kwargs["out"] = 2
        self.given, self.changed = Sized(6, **given), Sized(4, **kwargs)
        self.loop = nn.ModuleList()
        for i in range(rounds):
            if i > 0:
                self.loop.append(Sized(6, **before))  # noqa: F821
            before = {"out": 5 + i}  # noqa: F841

    def _block(self, planes: int) -> nn.Module:
        first = {"inp": self.in_planes, "out": planes}
        self.in_planes = planes
        return nn.Sequential(Sized(**first), Sized(inp=self.in_planes, out=planes))

    def forward(self, x: Tensor) -> list[Tensor]:
        y = self.blocks(x)
        z = self.changed(self.given(y))
        return [self.items(x[:, :3]), self.deferred(torch.cat([x, x], 1)), z, *(layer(y) for layer in self.loop)]


def settings_that_change() -> nn.Module:
    return SettingsThatChange(out=4)


@dataclass
class Windowed:
    """A field that is computed and then taken away, and one that is halved."""

    size: int = 4
    use_window: bool = False
    window: int | None = None
    inner: int | None = None

    def __post_init__(self) -> None:
        if self.window is None:
            self.window = self.size * 2
        if not self.use_window:
            self.window = None
        if self.inner is None:
            self.inner = self.size * 4
        self.inner //= 2


class ByConfiguration(nn.Module):
    def __init__(self, config: Windowed) -> None:
        super().__init__()
        self.inner = nn.Linear(config.size, config.inner)
        self.window = nn.Linear(config.inner, config.window) if config.window is not None else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.window(self.inner(x))


class Configurations(nn.Module):
    def __init__(self, configs: list[Windowed]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(ByConfiguration(c) for c in configs)

    def forward(self, x: Tensor) -> list[Tensor]:
        return [part(x) for part in self.parts]


def configurations() -> nn.Module:
    return Configurations([Windowed(use_window=True), Windowed(), Windowed(inner=6)])


class BoundInOneRound(nn.Module):
    """A name that becomes constant, but only from the second round on."""

    def __init__(self, file: str | None = None, bias: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for i in range(3):
            if i == 1:
                bias = file is None
            self.layers.append(nn.Linear(4, 4, bias=bias))
        if file is not None:
            self.layers[0].weight.data = torch.load(file)["weight"]

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


x4 = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))

CASES: Dict[str, Tuple[Callable[[], nn.Module], Tuple[Tensor, ...]]] = {
    "filled lists": (FilledLists, (x4,)),
    "settings that change": (settings_that_change, (x4,)),
    "configurations": (configurations, (x4,)),
    "bound in one round": (BoundInOneRound, (x4,)),
    "plain holders": (PlainHolders, (x4,)),
    "filled tensors": (FilledTensors, (x4,)),
    "left overs": (LeftOvers, (x4,)),
    "own norm": (OwnNorm, (torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(4)),)),
    "read padding": (ReadPadding, (torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(5)),)),
    "thawed": (Thawed, (torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(3)),)),
    "set data": (SetData, (torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(2)),)),
}
