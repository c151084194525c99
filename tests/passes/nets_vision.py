"""Torch modules, each with one habit of the vision zoos (torchvision, timm). ``CASES`` as in nets."""

from __future__ import annotations

import copy
import itertools
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Callable, Dict, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def image(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


class NormAct(nn.BatchNorm2d):
    """torch's own forward written out, and an activation."""

    def __init__(self, features: int, apply_act: bool = True) -> None:
        super().__init__(features, eps=1e-3)
        self.act = nn.ReLU() if apply_act else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats:
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
                factor = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        batch = True if self.training else self.running_mean is None and self.running_var is None
        x = F.batch_norm(
            x,
            self.running_mean if not self.training or self.track_running_stats else None,
            self.running_var if not self.training or self.track_running_stats else None,
            self.weight,
            self.bias,
            batch,
            factor,
            self.eps,
        )
        return self.act(x)


class NormActs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.first, self.second = NormAct(4), NormAct(4, apply_act=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(self.conv(x)) + 1)


class ConvNorm(nn.Module):
    """Its padding is a number in some instances and a pair in others."""

    def __init__(self, inputs: int, outputs: int, **kwargs: Union[int, Tuple[int, int]]) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, bias=False, **kwargs)
        self.bn = nn.BatchNorm2d(outputs, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)), inplace=True)


class Factorized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvNorm(3, 4, kernel_size=3, stride=2)
        self.wide = ConvNorm(4, 4, kernel_size=(1, 5), padding=(0, 2))
        self.high = ConvNorm(4, 4, kernel_size=(5, 1), padding=(2, 0))
        self.square = ConvNorm(4, 4, kernel_size=3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        return torch.cat([self.high(self.wide(x)), self.square(x)], 1)


def repeated(n: int) -> Callable[[Any], Tuple[Any, ...]]:
    def parse(x: Any) -> Tuple[Any, ...]:
        if isinstance(x, Iterable) and not isinstance(x, str):
            return tuple(x)
        return tuple(itertools.repeat(x, n))

    return parse


to_pair, to_triple = repeated(2), repeated(3)


def rounded(value: float, divisor: int = 3) -> int:
    return int(value) // divisor * divisor


class Gate(nn.Module):
    def __init__(self, dim: int, act: str = "relu", round_to: Callable[..., int] = rounded) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(dim, round_to(dim), 1)
        self.act = ACTS[act]()
        self.expand = nn.Conv2d(round_to(dim), dim, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.expand(self.act(self.reduce(x))).sigmoid()


ACTS = {"relu": nn.ReLU, "silu": nn.SiLU, "odd": nn.FractionalMaxPool2d, "gate": Gate}
HARD_GATE = partial(Gate, act="silu", round_to=partial(rounded, divisor=4))


class Rounds(nn.Module):
    """Closures that are globals and one that is made on the spot, a table with what MindSpore lacks, partials."""

    def __init__(self, sizes: Tuple[int, int] = (3, 4)) -> None:
        super().__init__()
        (self.kernel, self.step), depth = to_pair(3), to_triple(2)
        widths = repeated(len(depth) - 1)(sizes[1])
        self.conv = nn.Conv2d(*sizes, self.kernel)
        stages = [("gate", Gate(widths[0])), ("hard", HARD_GATE(widths[1]))]
        self.body = nn.Sequential()
        for stage in stages:
            self.body.add_module(*stage)
        self.depth = sum(depth)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self.conv(x)) * self.depth


class Stage(nn.Module):
    """Its forward runs over its own children."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        for i in range(depth):
            self.add_module(f"b{i + 1}", padded_conv(4, 4, kernel_size=3, groups=2 if i else 1))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.children():
            x = block(x) + x
        return x


def padded_conv(inputs: int, outputs: int, kernel_size: int, **kwargs: Any) -> nn.Module:
    """Takes entries out of its keywords, sets defaults and hands the rest on."""
    padding = kwargs.pop("padding", "")
    kwargs.setdefault("bias", False)
    return nn.Conv2d(inputs, outputs, kernel_size, padding=amount(padding, kernel_size, **kwargs), **kwargs)


def amount(padding: Union[str, int], kernel_size: int, dilation: int = 1, **_: Any) -> int:
    return dilation * (kernel_size - 1) // 2 if padding == "" else int(padding)


class Stages(nn.Module):
    def __init__(self, options: Dict[str, Any] = {"stride": 2, "dilation": 1}) -> None:
        super().__init__()
        self.stem = padded_conv(3, 4, 3, **options)
        self.stages = nn.Sequential(Stage(2), Stage(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.stages(self.stem(x))


class Tapped(nn.ModuleDict):
    """Some children's results by new names, in an OrderedDict."""

    def __init__(self, taken: Dict[str, str]) -> None:
        children = [("first", nn.Conv2d(3, 4, 3)), ("act", nn.ReLU(inplace=True)), ("last", nn.Conv2d(4, 5, 1))]
        super().__init__(OrderedDict(children))
        self.taken = taken

    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        out = OrderedDict()
        for name, module in self.items():
            x = module(x)
            if name in self.taken:
                out[self.taken[name]] = x
        return out


class Segmenter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = Tapped({"act": "low", "last": "high"})

    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        size = x.shape[-2:]
        features = self.backbone(x)
        result = OrderedDict()
        result["out"] = F.interpolate(features["high"], size=size, mode="bilinear", align_corners=False)
        if self.training:
            result["aux"] = features["low"] * 2
        return result


@dataclass
class BlockPlan:
    kind: Callable[..., nn.Module]
    width: int = 4
    depth: int = 1
    gated: bool = True

    @staticmethod
    def rounded(width: int) -> int:
        return width // 2 * 2


@dataclass
class Plan:
    blocks: Tuple[BlockPlan, ...]
    act: str = "relu"
    scale: float = 2.0


class Planned(nn.Module):
    """Its plan holds further plans and classes; copies of them are changed while the model is built."""

    def __init__(self, plan: Plan, **overrides: Any) -> None:
        super().__init__()
        plan = replace(plan, **overrides)
        self.scale = plan.scale
        stages, inputs = [], 3
        for block in plan.blocks:
            blocks = []
            for _ in range(block.depth):
                own = copy.copy(block)
                if blocks:
                    own.gated = False
                blocks.append(self.make(plan, own, inputs))
                inputs = own.rounded(own.width)
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.Sequential(*stages)
        if getattr(self.stages[0][0][1], "weight", None) is not None:
            nn.init.constant_(self.stages[0][0][1].weight, 0.5)

    def make(self, plan: Plan, block: BlockPlan, inputs: int) -> nn.Module:
        width = block.rounded(block.width)
        layers = [block.kind(inputs, width, 1), nn.BatchNorm2d(width)]
        if block.gated:
            layers.append(ACTS[plan.act]())
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.stages(x) * self.scale


def planned() -> nn.Module:
    blocks = (BlockPlan(nn.Conv2d, depth=2), BlockPlan(nn.Conv2d, width=7, gated=False))
    return Planned(Plan(blocks), scale=1.5)


class Mixing(nn.Module):
    """The constructor chooses which method is forward."""

    def __init__(self, dim: int, how: str = "split") -> None:
        super().__init__()
        self.taken = dim // 2
        self.conv = nn.Conv2d(self.taken, self.taken, 3, 1, 1)
        if how == "split":
            self.forward = self.forward_split
        elif how == "whole":
            self.forward = self.forward_whole
        else:
            raise NotImplementedError(how)

    def forward_split(self, x: Tensor) -> Tensor:
        first, rest = torch.split(x, [self.taken, x.shape[1] - self.taken], dim=1)
        return torch.cat((self.conv(first), rest), 1)

    def forward_whole(self, x: Tensor) -> Tensor:
        return x + self.conv(x)


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Mixing(3), Mixing(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x)) + x


class Transition(nn.Sequential):
    """A Sequential whose children are set as attributes."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(inputs)
        self.conv = nn.Conv2d(inputs, outputs, kernel_size=1)


def transitions() -> nn.Module:
    return nn.Sequential(Transition(3, 4), Transition(4, 2))


img = image(2, 3, 9, 9)
CASES = {
    "transitions": (transitions, (img,)),
    "chosen forward": (Mixer, (img,)),
    "planned blocks": (planned, (img,)),
    "segmenter": (Segmenter, (img,)),
    "rounds": (Rounds, (img,)),
    "stages": (Stages, (img,)),
    "norm act": (NormActs, (img,)),
    "factorized": (Factorized, (img,)),
}
