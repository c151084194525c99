"""Habits of model libraries: caches, keyword dicts, output classes, shared mixins. ``CASES``: name -> (factory, inputs)."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def image(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


class Store:
    """State of one call: keys by layer."""

    def __init__(self) -> None:
        self.layers = {}
        self.filled = {}

    def length(self, index: int) -> int:
        return self.layers[index].shape[1] if index in self.layers else 0


class Attention(nn.Module):
    """Asks a store about itself and marks it; the encoder's gets none."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index
        self.key, self.query = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor, store: Optional[Store] = None, mask: Optional[Tensor] = None) -> Tensor:
        past = store.length(self.index) if store is not None else 0
        seen = False
        if isinstance(store, Store):
            seen = store.filled.get(self.index)
        if store is not None and not seen:
            store.filled[self.index] = True
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        if mask is not None:
            scores = scores + mask
        return x + scores.softmax(-1) @ x * (1 + past)


class WithStore(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.ModuleList(Attention(i) for i in range(2))
        self.second = nn.ModuleList(Attention(i) for i in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.first:
            x = block(x)
        store = Store()
        settings = {"store": store, "mask": None}
        for block in self.second:
            x = block(x, **settings)
        return x


@dataclass
class Settings:
    width: int = 6
    causal: bool = False


class Side(nn.Module):
    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings
        self.linear = nn.Linear(settings.width, settings.width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        return y.tril() if self.settings.causal else y


class CopiedSettings(nn.Module):
    """Two parts with copies of one configuration that differ in a field."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        left = copy.deepcopy(settings)
        left.causal = False
        self.left = Side(left)
        right = copy.deepcopy(settings)
        right.causal = True
        self.right = Side(right)

    def forward(self, x: Tensor) -> Tensor:
        return self.right(self.left(x))


class Bound(nn.Module):
    """``:=`` in a condition that is always true, and in a value."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        if not isinstance(y := self.linear(x), dict):
            y = y * 2
        if (size := y.shape[1]) > 1 and x.ndim == 3:
            y = y / size
        return (z := y + x) * z


@dataclass
class Output:
    hidden: Tensor
    pooled: Optional[Tensor] = None
    extra: Optional[Tensor] = None


def named(method):
    @functools.wraps(method)
    def wrapper(self, *args, **kwargs):
        result = method(self, *args, **kwargs)
        return result

    return wrapper


class Filled(nn.Module):
    """A field of an output is set afterwards; another output takes all fields of the first; one decorator for both."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, 6), nn.Linear(6, 4)

    @named
    def features(self, x: Tensor) -> Output:
        out = Output(hidden=self.body(x), pooled=x.mean(1))
        out.pooled = self.head(out.pooled)
        return out

    @named
    def forward(self, x: Tensor) -> tuple:
        out = self.features(x)
        return out.hidden, out.pooled


class Reader:
    """A mixin whose method reads what only some of its classes have."""

    def table(self) -> Tensor:
        return self.embedding.weight


class Words(Reader, nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.table()


class Wrapped(Reader, nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = Words()

    def forward(self, x: Tensor) -> Tensor:
        return self.words(x) + self.words.table().sum()


def scale(x: Tensor, factor: float = 2.0, **kwargs) -> Tensor:
    return x * factor


def shift(x: Tensor, factor: float = 2.0, amount: float = 1.0, **kwargs) -> Tensor:
    return x * factor + amount


class Keywords(nn.Module):
    """Keywords handed on; one is given in some calls only and nothing reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def scaled(self, x: Tensor, **kwargs) -> Tensor:
        return scale(self.linear(x), **kwargs)

    def forward(self, x: Tensor) -> Tensor:
        given = {"factor": 0.5}
        return shift(self.scaled(x, unused=True), **given) + self.scaled(x)


def cached(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    inner = functools.lru_cache(maxsize=32)(function)

    @functools.wraps(function)
    def wrapper(*args: object, **kwargs: object) -> Tensor:
        return inner(*args, **kwargs)

    return wrapper


@functools.lru_cache(maxsize=None)
def steps(n: int) -> Tensor:
    return torch.arange(n, dtype=torch.float32)


class Cached(nn.Module):
    """Functions under ``lru_cache``, one of them inside a decorator."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    @cached
    def table(self, n: int, d: int) -> Tensor:
        return torch.arange(n * d, dtype=torch.float32).reshape(n, d) / 10

    def forward(self, x: Tensor) -> Tensor:
        x = self.linear(x) + self.table(x.shape[0], x.shape[1])
        return x * steps(x.shape[1]) + self.table(x.shape[0], x.shape[1])


class Log:
    """An object of Python that a library hands round."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def note(self, x: object) -> None:
        self.calls.append(x)


class Handing(nn.Module):
    """A tuple holds an object that nothing in the graph reads; a dict of settings has keys in some runs only."""

    def __init__(self) -> None:
        super().__init__()
        rows = [{"in_features": 6, "out_features": 6}, {"in_features": 6, "out_features": 4, "bias": False}]
        self.layers = nn.ModuleList([nn.Linear(**row) for row in rows])

    def part(self, x: Tensor, log: Log) -> tuple[Tensor, Tensor, Log]:
        outputs = (self.layers[0](x), x)
        outputs += (log,)
        return outputs

    def forward(self, x: Tensor) -> Tensor:
        log = Log()
        h, x, log = self.part(x, log)
        return self.layers[1](h * x)


@dataclass
class Result:
    hidden: Tensor
    extra: Tensor | None = None


class ByMode(nn.Module):
    """Another field of the output holds a tensor in training."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Result:
        h = self.linear(x)
        extra = None
        if self.training:
            extra = h * 2
        return Result(hidden=h.tanh(), extra=extra)


@dataclass
class Scores:
    before: Tensor | None = None
    after: Tensor | None = None
    values: Tensor | None = None
    kind: str | None = None


class Attends(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.softmax = functools.partial(F.softmax, dim=-1)

    def forward(self, q: Tensor, v: Tensor) -> tuple[Tensor, Scores]:
        scores = q @ q.transpose(-1, -2)
        made = self.softmax(scores)
        return made @ v, Scores(before=scores, after=made)


class SetLater(nn.Module):
    """A field of an output object is set after it was made."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.attend = Attends()

    def forward(self, x: Tensor) -> Tensor:
        v = self.linear(x)
        out, scores = self.attend(x, v)
        scores.values = v
        return out + scores.values * 2 + scores.before.sum(-1, keepdim=True)


class AttendTo(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)

    def forward(self, x, context=None):
        context = x if context is None else torch.cat((x, context), 0)
        return (self.q(x) @ self.k(context).t()).softmax(-1) @ context


class FeedForward(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, dim), nn.Tanh())

    def forward(self, x: Tensor):
        return self.net(x)


class Scaling(nn.Module):
    """Keywords go on to a layer that takes them, or to one that takes none."""

    def __init__(self, dim, fn):
        super().__init__()
        self.fn = fn
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x, **kwargs):
        return self.fn(x, **kwargs) * self.scale


class Passing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            [nn.ModuleList([Scaling(4, AttendTo(4)), Scaling(4, FeedForward(4))]) for _ in range(2)]
        )

    def forward(self, x, y):
        for attn, ff in self.layers:
            x = attn(x, context=y) + x
            x = ff(x) + x
        for attn, ff in self.layers:
            x = attn(x) + ff(x)
        return x


class Attending:
    """Attention of a plain object."""

    def __init__(self, scale=0.5):
        self.scale = scale

    def __call__(self, attn, x, context=None):
        context = x if context is None else context
        q, k = attn.q(x), attn.k(context)
        return F.softmax(q @ k.t() * self.scale, dim=-1) @ context


class Doubling:
    def __call__(self, attn, x, context=None):
        return attn.q(x) * 2


class WithProcessor(nn.Module):
    def __init__(self, processor=None):
        super().__init__()
        self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)
        self.set_processor(processor or Attending())

    def set_processor(self, processor):
        self.processor = processor

    def forward(self, x: Tensor, context=None):
        return self.processor(self, x, context=context)


class WithDoubling(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(4, 4)
        self.processor = Doubling()

    def forward(self, x: Tensor):
        return self.processor(self, x)


class Processors(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = WithProcessor(), WithProcessor()
        self.third = WithDoubling()

    def forward(self, x: Tensor, y):
        return self.third(self.second(self.first(x), context=y))


CASES = {
    "processors": (Processors, (image(3, 4), image(2, 4))),
    "keywords_for_some": (Passing, (image(3, 4), image(2, 4))),
    "set_later": (SetLater, (image(5, 6),)),
    "cached": (Cached, (image(5, 6),)),
    "object_in_tuple": (Handing, (image(5, 6),)),
    "output_by_mode": (ByMode, (image(5, 6),)),
    "store": (WithStore, (image(2, 5, 6),)),
    "copied_settings": (functools.partial(CopiedSettings, Settings()), (image(5, 6),)),
    "walrus": (Bound, (image(2, 5, 6),)),
    "output_field": (Filled, (image(2, 5, 6),)),
    "mixin": (Wrapped, (image(2, 5, 6),)),
    "keywords": (Keywords, (image(2, 5, 6),)),
}
