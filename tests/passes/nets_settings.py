"""Settings on their way through a constructor: dicts filled step by step, tables, classes handed on as values."""

from __future__ import annotations

from functools import partial
from itertools import repeat
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import torch
from torch import Tensor, nn

NORMS: Dict[str, type] = {}


class HardShift(torch.autograd.Function):
    """Never used: a table that names it can't be ported as a whole."""


ACTS: Dict[str, Any] = {"relu": nn.ReLU, "leaky": nn.LeakyReLU, "mystery": HardShift}
EXTRA_ACTS: Dict[str, Any] = {"leaky": nn.LeakyReLU, "mystery": HardShift}


def act_class(name: Any) -> Any:
    if not isinstance(name, str):
        return name
    name = name.lower()
    if name in EXTRA_ACTS:
        return EXTRA_ACTS[name]
    return ACTS[name]


def create_act(name: Any, inplace: Optional[bool] = None) -> nn.Module:
    """In torch ``inplace`` tells the two returns apart, in the port nothing does."""
    act = act_class(name)
    if inplace is None:
        return act()
    return act(inplace=inplace) if act is nn.ReLU else act()


class NormAct(nn.BatchNorm2d):
    def __init__(
        self,
        features: int,
        eps: float = 1e-5,
        act: Any = nn.ReLU,
        act_kwargs: Optional[Dict[str, Any]] = None,
        inplace: bool = True,
        device: Any = None,
    ) -> None:
        super().__init__(features, eps=eps, device=device)
        act_kwargs = act_kwargs or {}
        act_kwargs.setdefault("inplace", inplace)
        self.act = create_act(act, **act_kwargs)

    def forward(self, x: Tensor) -> Tensor:
        return self.act(super().forward(x))


NORMS.update({"batchnorm2d": NormAct})


def norm_act(norm: Any, act: Any) -> Callable[..., nn.Module]:
    settings: Dict[str, Any] = {}
    if isinstance(norm, partial):
        settings.update(norm.keywords)
        norm = norm.func
    made = NORMS.get(norm.__name__.lower(), None)
    assert made is not None
    settings.setdefault("act", act)
    if settings:
        made = partial(made, **settings)
    return made


class Block(nn.Module):
    def __init__(
        self, width: int, out: int, kernel: int = 3, norm: Any = nn.BatchNorm2d, act: Any = nn.ReLU, device: Any = None
    ) -> None:
        dd = {"device": device}
        super().__init__()
        self.conv = nn.Conv2d(width, out, kernel, padding=kernel // 2, **dd)
        self.norm = norm_act(norm, act)(out, **dd)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x))


class Stage(nn.Module):
    def __init__(
        self,
        block: Callable[..., nn.Module],
        width: int,
        out: int,
        depth: int,
        kernel: int,
        act: Any,
        device: Any = None,
    ) -> None:
        super().__init__()
        for i in range(depth):
            self.add_module(f"b{i}", block(width if i == 0 else out, out, kernel, act=act, device=device))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.children():
            x = layer(x)
        return x


def stage_settings(widths: Tuple[int, ...], kernel: int) -> List[Dict[str, Any]]:
    names = ["out", "depth", "kernel"]
    return [dict(zip(names, values)) for values in zip(widths, (1, 2), (kernel, kernel))]


class Staged(nn.Module):
    """Of the dict of each stage only one entry varies: the others are not frozen."""

    def __init__(
        self, widths: Tuple[int, ...] = (4, 6), kernel: int = 3, act: Any = "leaky", device: Any = None
    ) -> None:
        super().__init__()
        self.stem = Block(3, 4, 1, norm=partial(nn.BatchNorm2d), act="ReLU", device=device)
        width, stages = 4, []
        self.info = [{"out": width, "module": "stem"}]
        for settings in stage_settings(widths, kernel):
            stages.append(Stage(Block, width, **settings, act=act, device=device))
            width = settings["out"]
            self.info.append({"out": width, "module": f"stage{len(stages)}"})
        self.info += [{"out": width, "module": "head"}]
        self.stages = nn.Sequential(*stages)

    def forward(self, x: Tensor) -> Tensor:
        return self.stages(self.stem(x))


class Decoder:
    """What it makes can't be followed: the layers are written out."""

    def __init__(self, act: Any) -> None:
        self.act = act

    def __call__(self, words: Tuple[str, ...]) -> Iterator[nn.Module]:
        self.widths: List[int] = []
        for word in words:
            width, out, kernel = (int(part) for part in word.split("-"))
            self.widths.append(out)
            yield Block(width, out, kernel, act=self.act)


class Decoded(nn.Module):
    def __init__(self, words: Tuple[str, ...] = ("3-4-3", "4-4-3", "4-5-3", "5-5-1"), act: Any = nn.LeakyReLU) -> None:
        super().__init__()
        decoder = Decoder(act)
        self.blocks = nn.Sequential(*decoder(words))
        self.head = nn.Conv2d(decoder.widths[-1], 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(x))


def tuple_of(n: int) -> Callable[[Any], Tuple[int, ...]]:
    def parse(x: Any) -> Tuple[int, ...]:
        if isinstance(x, Iterable):
            return tuple(x)
        return tuple(repeat(x, n))  # never runs: it must not be lost

    return parse


class Tupled(nn.Module):
    def __init__(self, kernels: Any = (3, 1), depth: int = 2) -> None:
        super().__init__()
        kernels = tuple_of(depth)(kernels)
        self.convs = nn.Sequential(*(nn.Conv2d(3, 3, k, padding=k // 2) for k in kernels))

    def forward(self, x: Tensor) -> Tensor:
        return self.convs(x)


class OwnLayerNorm(nn.LayerNorm):
    """Only torch's constructor: what a partial carries must not be undone by a default of MindSpore's."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class CarriedSettings(nn.Module):
    def __init__(self, norm: Any = None, width: int = 3) -> None:
        super().__init__()
        if norm is None:
            norm = partial(OwnLayerNorm, eps=0.3)
        self.first = norm(width)
        self.second = norm(normalized_shape=width)
        self.plain = OwnLayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        return self.plain(self.second(self.first(x)))


def repeated() -> nn.Module:
    return Decoded(("3-4-3", "4-4-1", "4-5-1", "5-5-1", "5-6-1", "6-5-1"))


_x = torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(3))

CASES: Dict[str, Tuple[Callable[[], nn.Module], Tuple[Tensor, ...]]] = {
    "staged settings": (Staged, (_x,)),
    "decoded layers": (Decoded, (_x,)),
    "carried settings": (CarriedSettings, (_x,)),
    "tupled": (Tupled, (_x,)),
    "repeated layers": (repeated, (_x,)),
}
