"""Torch modules, each with one habit that decides whether the port builds and takes its weights. ``CASES`` as in nets."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def image(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


WIDTH = 2


class ClassAttributes(nn.Module):
    """Literals and a layer in the class body, read through self, type(self) and the class."""

    default_act = nn.SiLU()
    plan = {"A": [4, "M", 4]}
    expansion = 2 * WIDTH
    keys = ("a", "b"); offset = 3  # fmt: skip  # noqa: E702

    def __init__(self, act: bool = True) -> None:
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(4, 4) for v in self.plan["A"] if v != "M"])
        self.act = self.default_act if act is True else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        scale = type(self).expansion + self.__class__.offset + ClassAttributes.expansion + len(self.keys)
        return self.act(self.layers(x)) * scale


class Scaled:
    """A mixin reads what the classes below it set."""

    @property
    def scale(self) -> float:
        return 3.0 * self.mult


class MixedIn(Scaled, nn.Module):
    mult = 2

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.scale


class Aliases(nn.Module):
    """One layer under several names, at the root and below."""

    def __init__(self) -> None:
        super().__init__()
        blocks = [nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)]
        self.features = nn.Sequential(*blocks)
        self.head = blocks[-1]
        self.stem = self.features[0]
        self.body = nn.Sequential(self.stem, nn.Tanh())

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x)) + self.body(x)


class InnerAlias(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Aliases()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + x


class CellNames(nn.Module):
    """Children, numbers, parameters and methods under names that nn.Cell has itself."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.shard = nn.Linear(4, 4)
        self.recompute = nn.Parameter(torch.ones(4))
        self.phase = 0.5
        self.requires_grad = 3.0
        self.parameters_dict = {"k": 2.0}
        setattr(self, "offload", 0.25)

    def get_parameters(self, x: Tensor) -> Tensor:
        return x + 3

    def forward(self, x: Tensor) -> Tensor:
        for cell in self.cells:
            x = cell(x)
        x = self.get_parameters(self.shard(x)) * self.recompute * self.offload
        return x * self.phase * self.requires_grad + self.parameters_dict["k"]


class CellNamesBelow(nn.Module):
    """The same from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.place = nn.ModuleList([CellNames(), CellNames()])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.place:
            x = block(x) + block.shard(x) * block.phase
        return x


class PackageNames(nn.Module):
    """Local variables under the names of MindSpore's packages."""

    def __init__(self) -> None:
        super().__init__()
        ops = [4, 4]
        self.linear = nn.Linear(ops[0], ops[1])

    def forward(self, x: Tensor) -> Tensor:
        ms = self.linear(x)
        ops = torch.relu(ms)
        np = torch.softmax(ops, -1)
        return np + ms


class Parameters(nn.Module):
    """A ParameterList over plain tensors, one that is filled later, a ParameterDict, and what reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.scales = nn.ParameterList([torch.ones(4) * i for i in range(1, 3)])
        self.offsets = nn.ParameterList()
        for i in range(2):
            self.offsets.append(nn.Parameter(torch.zeros(4) + i))
        self.named = nn.ParameterDict({"gain": nn.Parameter(torch.ones(4))})

    def forward(self, x: Tensor) -> Tensor:
        for i, scale in enumerate(self.scales):
            x = x * scale + self.offsets[i]
        for a, b in zip(self.scales, [*self.offsets]):
            x = x + a * b
        return x * self.named["gain"] * len(self.scales)


class Doubles(nn.Module):
    """Layers of another float type."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4).double()
        self.second = nn.Linear(4, 4).to(torch.float64)
        self.third = nn.Linear(4, 4, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(self.first(x.double())))


class Empty(nn.Module):
    """A parameter without elements."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("extra", torch.zeros(0, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


x4 = image(3, 4)


class ComputedNames(nn.Module):
    """Children under names that a loop computes; a bias that a variable fills."""

    def __init__(self, start: float = 0.25) -> None:
        super().__init__()
        for name, width in zip([f"stage{i}" for i in (2, 3)], (4, 4)):
            setattr(self, name, nn.Sequential(*[nn.Linear(4, width), nn.ReLU()]))
        self.head = nn.Linear(4, 2)
        self.fill(start)

    def fill(self, start: float) -> None:
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.constant_(m.bias, start)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.stage3(self.stage2(x)))


class FilledBuffers(nn.Module):
    """Buffers that torch does not save are made empty and filled later."""

    def __init__(self, size: int = 4) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("bias", torch.empty(8), persistent=False)
        self.register_buffer("index", torch.empty((size,), dtype=torch.long), persistent=False)
        self.register_buffer("kept", torch.ones(8))
        self.line = nn.Linear(8, 8)
        self.reset()

    def reset(self) -> None:
        self.bias.zero_()
        self.bias.add_(0.5)
        self.index.copy_(torch.arange(self.size) * 2)
        nn.init.constant_(self.kept, 3.0)
        self.kept.mul_(2.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.line(x)[:, self.index] * self.kept[self.index] + self.bias[self.index]


class _Equalized(nn.Module):
    """A start computed from a draw: the shape is the source's, the values come with the weights."""

    def __init__(self, n: int, m: int, start: float = 0.0, rate: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(m, n).div_(rate))
        self.bias = nn.Parameter(torch.zeros(m).fill_(start))
        self.gate = nn.Parameter(-abs(self.weight.new_ones(m, 1).uniform_(0, 1) * 2))
        self.scale = rate / n

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight * self.gate * self.scale, self.bias)


class ScaledStarts(nn.Module):
    def __init__(self, count: int = 2) -> None:
        super().__init__()
        layers = []
        for _ in range(count):
            layers.append(_Equalized(4, 4, rate=0.5))
        self.style = nn.Sequential(*layers)
        self.last = _Equalized(4, 3, start=1.0)
        self.noises = nn.Module()
        self.noises.lin = nn.Linear(4, 3)
        for i in range(count):
            self.noises.register_buffer(f"noise_{i}", torch.randn(1, 3))

    def forward(self, x: Tensor) -> Tensor:
        on = (x > 0) + (x < -1)
        return self.last(self.style(x) * on) + self.noises.lin(x) * self.noises.noise_1


class ByMode(nn.Module):
    """A function that is chosen anew in each call, another one in training."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        choose = {False: lambda t: t[:1], True: lambda t: t.mean(0)}[self.training]
        return choose(self.lin(x))


class SomeFeatures(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, 2)
        self.norm = nn.BatchNorm2d(4)

    def length(self, size):
        return self.forward(torch.zeros(1, 3, size, size)).shape[1]

    def forward(self, x: Tensor):
        return self.norm(self.conv(x)).flatten(1)


class Measured(nn.Module):
    """Sizes are found by running a layer while the model is built."""

    def __init__(self, size=9):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2))
        with torch.no_grad():
            flat = self.conv(torch.zeros(1, 3, size, size)).view(1, -1).size(1)
        self.fc = nn.Linear(flat, 5)
        self.features = SomeFeatures()
        self.other = nn.Linear(self.features.length(size), 5)

    def forward(self, x: Tensor):
        return self.fc(self.conv(x).flatten(1)) + self.other(self.features(x))


class FlatSize(nn.Module):
    """The same by methods of one's own."""

    def __init__(self, shape=(3, 9, 9)):
        super().__init__()
        self.conv1, self.conv2, self.pool = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3), nn.MaxPool2d(2, 2)
        x = torch.randn(*shape).view(-1, *shape)
        self._to_linear = None
        self.convs(x)
        self.fc = nn.Linear(self._to_linear, 5)
        n = self._get_conv_output(shape)
        self.fc2 = nn.Linear(n, 5)

    def _get_conv_output(self, shape):
        o = self.conv1(torch.zeros(1, *shape))
        o = self.conv2(torch.relu(o))
        return int(torch.prod(torch.tensor(o.size())))

    def convs(self, x):
        x = self.pool(torch.relu(self.conv1(x)))
        if self._to_linear is None:
            self._to_linear = x[0].shape[0] * x[0].shape[1] * x[0].shape[2]
        return x

    def forward(self, x: Tensor):
        y = self.convs(x)
        return self.fc(y.view(-1, self._to_linear)) + self.fc2(self.conv2(torch.relu(self.conv1(x))).flatten(1))


class HeadBase(nn.Module):
    """A constructor that only its subclasses run."""

    def __init__(self, body: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.body, self.head = body, head

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


class GivenHead(HeadBase):
    pass


class MidHead(HeadBase):
    pass


class BuiltHead(MidHead):
    pass


GIVEN = GivenHead(nn.Linear(4, 3), nn.Linear(3, 2))


class GivenAndBuilt(nn.Module):
    """One subclass arrives built, another, a level below, is built by the source: one constructor above both."""

    def __init__(self, given: nn.Module) -> None:
        super().__init__()
        self.given = given
        self.built = BuiltHead(nn.Linear(4, 3), nn.Linear(3, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.given(x) + self.built(x)


CASES = {
    "given and built": (lambda: GivenAndBuilt(GIVEN), (torch.randn(2, 4),)),
    "scaled starts": (ScaledStarts, (x4,)),
    "by mode": (ByMode, (x4,)),
    "measured": (Measured, (image(2, 3, 9, 9),)),
    "flat size": (FlatSize, (image(2, 3, 9, 9),)),
    "filled buffers": (FilledBuffers, (torch.ones(2, 8),)),
    "computed names": (ComputedNames, (x4,)),
    "class attributes": (ClassAttributes, (x4,)),
    "mixed in": (MixedIn, (x4,)),
    "aliases": (Aliases, (x4,)),
    "inner alias": (InnerAlias, (x4,)),
    "cell names": (CellNames, (x4,)),
    "cell names below": (CellNamesBelow, (x4,)),
    "package names": (PackageNames, (x4,)),
    "parameters": (Parameters, (x4,)),
    "doubles": (Doubles, (x4,)),
    "empty": (Empty, (x4,)),
}
EXPECTED = {"by mode": {"MSP103"}}
