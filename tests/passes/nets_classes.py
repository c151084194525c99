"""Branches by a layer's class, and layers that get something from outside. ``CASES``: name -> (factory, inputs)."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def image(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


class Plain(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)


class Deeper(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.fc(F.elu(x))


class Routed(nn.Module):
    """Returns a pair, and reads a second input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, width)

    def forward(self, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        gate = self.gate(x).sigmoid()
        return x * gate * scale, gate


class Block(nn.Module):
    """A layer asks which class its child has."""

    def __init__(self, width: int, routed: bool) -> None:
        super().__init__()
        self.mlp = Routed(width) if routed else Plain(width)

    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        if isinstance(self.mlp, Routed):
            y, _ = self.mlp(x, scale)
        else:
            y = self.mlp(x)
        return x + y


class ByChild(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(6, i == 1) for i in range(3)])

    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, scale)
        return x


class ByLayer(nn.Module):
    """The loop asks, with several classes at once, one of torch among them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Routed(6), Plain(6), nn.ELU(), Routed(6), nn.ELU(0.5), nn.Tanh()])

    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        for layer in self.layers:
            if not isinstance(layer, (Plain, nn.ELU, nn.Tanh)):
                x = layer(x, scale)[0]
            else:
                x = layer(x)
        return x


class ByBase(nn.Module):
    """Asked for a base class, of which no layer is an instance itself; and for the very class."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Routed(6), Deeper(6), Routed(6)])

    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        for layer in self.layers:
            if isinstance(layer, Plain):
                x = layer(x) * 0.5
            elif type(layer) is Routed:
                x, _ = layer(x, scale)
        return x


def section_scales(width: int) -> Tensor:
    scales = torch.ones(1, 2 * width)
    scales[:, :width] *= 0.5
    scales[:, width:] *= 0.25
    return scales


class Mixer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.up(x) * self.scales) * self.gain + self.index


class GivenFromOutside(nn.Module):
    """The constructor gives its layers a buffer, a number and an attribute by name."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Mixer(width) for _ in range(2)])
        scales = section_scales(width)
        for index, layer in enumerate(self.layers):
            layer.register_buffer("scales", scales.clone(), persistent=False)
            layer.index = index
            setattr(layer, "gain", 0.5)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def with_defaults(method):
    """Arguments that were not given come from the settings."""

    @functools.wraps(method)
    def wrapper(self, *args, **kwargs):
        for name in ("depth", "flip"):
            if kwargs.get(name) is None:
                kwargs[name] = getattr(self, name, None)
        return method(self, *args, **kwargs)

    return wrapper


class DefaultsBySettings(nn.Module):
    """A decorator fills in what the port has no parameter for, being always the same."""

    def __init__(self, depth: int = 2) -> None:
        super().__init__()
        self.depth, self.flip = depth, False
        self.fc = nn.Linear(6, 6)

    @with_defaults
    def forward(self, x: Tensor, depth: int | None = None, flip: bool | None = None) -> Tensor:
        if flip:
            x = x.flip(-1)
        return self.fc(x)


@dataclass
class Features:
    last: Tensor | None = None
    pooled: Tensor | None = None
    states: tuple[Tensor, ...] | None = None


def without_states(method):
    """The states are made for the features alone, and taken out of what is returned."""

    @functools.wraps(method)
    def wrapper(self, *args, **kwargs):
        out = method(self, *args, **kwargs)
        return type(out)(**{f.name: getattr(out, f.name) for f in fields(out) if f.name != "states"})

    return wrapper


def gathering(tie_last: bool):
    """Hooks gather what each layer gives, the first one's input too; with ``tie_last`` the output stands for the last."""

    def decorator(method):
        @functools.wraps(method)
        def wrapper(self, *args, **kwargs):
            found = []

            def hook(layer, args, out):
                if not found:
                    found.append(args[0])
                found.append(out)

            handles = [layer.register_forward_hook(hook) for layer in self.layers]
            out = method(self, *args, **kwargs)
            for handle in handles:
                handle.remove()
            out.states = (*found[:-1], out.last) if tie_last else tuple(found)
            return out

        return wrapper

    return decorator


class Gathered(nn.Module):
    """The loop knows nothing of the states."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Plain(6), Deeper(6), Plain(6)])
        self.norm = nn.LayerNorm(6)

    @gathering(tie_last=False)
    def forward(self, x: Tensor) -> Features:
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return Features(last=x, pooled=x.mean(0))


class Tied(Gathered):
    """The last state is the output itself, which is given by its place."""

    @gathering(tie_last=True)
    def forward(self, x: Tensor) -> Features:
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return Features(x)


class OfStates(nn.Module):
    """Reads the states of a part that gathers them, and lets a decorator take its own out."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    @without_states
    def forward(self, x: Tensor) -> Features:
        out = self.part(x)
        first, *_, last = out.states
        return Features(last=out.last * first, pooled=last.sum(0), states=out.states)


CASES = {
    "states gathered by hooks": (lambda: OfStates(Gathered()), (image(2, 6),)),
    "states with the output": (lambda: OfStates(Tied()), (image(2, 6),)),
    "states of the model itself": (Gathered, (image(2, 6),)),
    "isinstance of a child": (ByChild, (image(2, 6), image(2, 6))),
    "isinstance in a loop": (ByLayer, (image(2, 6), image(2, 6))),
    "isinstance of a base": (ByBase, (image(2, 6), image(2, 6))),
    "given from outside": (GivenFromOutside, (image(2, 6),)),
    "defaults by settings": (DefaultsBySettings, (image(2, 6),)),
}
