"""A model whose methods use every kind of Python statement and expression; the numbers are checked by the tests."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass

import torch
from torch import nn


def doubling(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return wrapper


@contextlib.contextmanager
def quiet():
    yield 1


@dataclass
class Point:
    x: int
    y: int = 0


class Base(nn.Module):
    def __init__(self, width, *, bias=True):
        super().__init__()
        self.linear = nn.Linear(width, width, bias=bias)
        self.__secret = 3

    def forward(self, x):
        return self.linear(x)

    def secret(self):
        return self.__secret

    @property
    def width(self):
        return self.linear.in_features

    @staticmethod
    def scale(x, by=2):
        return x * by

    @classmethod
    def name_of(cls):
        return cls.__name__


class Constructs(Base):
    __table = (1, 2)

    def __init__(self, width=4, depth=2):
        width = width * 1
        super().__init__(width, bias=False)
        self.layers = nn.ModuleList()
        for index in range(depth):
            self.layers.append(nn.Linear(width, width))
        for name, size in {"a": 1, "b": 2}.items():
            self.register_buffer(name, torch.full((size,), 1.0))
        self._make_more(width)
        self.plain = [1, 2]

    def _make_more(self, width):
        self.more = nn.Sequential(*(nn.Linear(width, width) for _ in range(2)))

    def loops(self, n):
        total = 0
        for index, item in enumerate(range(n)):
            if index == 1:
                continue
            if index > 5:
                break
            total += item
        else:
            total += 100
        while total > 1000:
            total //= 2
        return total

    def comprehensions(self, items):
        squares = [item * item for item in items if item > 1]
        table = {item: str(item) for item in items}
        unique = {abs(item) for item in items}
        lazy = sum(abs(item) + self.width for item in items)
        nested = [[a * b for a in items] for b in items]
        return squares, table, unique, lazy, nested

    def strings(self, value):
        width = 7
        return f"{value!r:>{width}} {value + 1:0{width}.2f} {'x' if value else 'y'} {{}} {self.width=}"

    def walrus(self, items):
        if (count := len(items)) > 2:
            return count
        return [last := item for item in items] and last

    def handlers(self, value):
        seen = []
        try:
            try:
                seen.append(1 / value)
            except ZeroDivisionError as error:
                seen.append(type(error).__name__)
                raise ValueError("bad") from error
            else:
                seen.append("else")
            finally:
                seen.append("finally")
        except (ValueError, KeyError):
            seen.append("outer")
        with quiet() as one, contextlib.suppress(KeyError):
            seen.append(one)
            raise KeyError
        return seen

    def matching(self, value):
        match value:
            case {"kind": "a", **rest}:
                return rest
            case [first, *others] if len(others) > 1:
                return first + sum(others)
            case Point(x=0, y=y):
                return y
            case int() | float():
                return -value
            case _:
                return None

    def closures(self, x):
        factor = 3
        by = lambda value, extra=factor: value * factor + extra  # noqa: E731

        def twice(value):
            nonlocal factor
            factor = 2
            return by(by(value))

        @doubling
        def decorated(value):
            return value + self.width

        class Local:
            def __init__(self, value):
                super().__init__()
                self.value = value

            @property
            def shifted(self):
                return self.value + factor

        return by(x), twice(x), decorated(x), Local(x).shifted, [f(1) for f in (lambda v: v + 1, lambda v: v - 1)]

    def starred(self, *args, key=1, **kwargs):
        first, *rest = args
        merged = {**kwargs, "key": key}
        return self._gather(first, *rest, **merged), (*args, *rest), [*args]

    @staticmethod
    def _gather(*args, **kwargs):
        return args, sorted(kwargs)

    def frames(self, a, b=2):
        c = a + b
        names = sorted(locals())
        return names, "Constructs" in globals(), eval("a + c"), sorted(vars(Point(1)))

    def private(self):
        __local = 5
        return self.__table, self.secret(), __local, self.__hidden(1)

    def __hidden(self, __x):
        return __x + 1

    def generator(self, n):
        yield from range(n)

    def catches(self, values):
        risky = lambda v: 1 / v  # noqa: E731
        out = []
        for value in values:
            try:
                out.append(risky(value))
            except ZeroDivisionError:
                out.append(None)
        return out

    def annotated(self, x: int) -> int:
        y: "NotDefined" = x  # noqa: F821, UP037
        z: int
        z = y
        assert z == y, f"{z} {y}"
        del y
        items = [1, 2, 3]
        items[1:] = [z]
        items[0] += z if z > 0 else -z
        a = b = not (1 < z <= 10 < 20)
        return items, a, b, -(z**2), items[::-1], ...

    @doubling
    def wrapped(self, value):
        return value + 1

    def all_results(self):
        """Everything once."""
        return {
            "loops": self.loops(9),
            "comprehensions": self.comprehensions([1, -2, 3]),
            "strings": self.strings(2.5),
            "walrus": (self.walrus([1]), self.walrus([1, 2, 3])),
            "handlers": (self.handlers(0), self.handlers(2)),
            "matching": [self.matching(v) for v in ({"kind": "a", "b": 1}, [1, 2, 3], Point(0, 5), 4, "s")],
            "closures": self.closures(4),
            "starred": self.starred(1, 2, 3, key=4, other=5),
            "frames": self.frames(1),
            "private": self.private(),
            "generator": list(self.generator(3)),
            "catches": self.catches([1, 0, 2]),
            "annotated": self.annotated(3),
            "wrapped": self.wrapped(1),
            "class": (self.name_of(), self.scale(2), self.scale(2, by=5)),
        }

    def forward(self, x):
        self.results = self.all_results()
        for layer in self.layers:
            x = layer(x)
        y = super().forward(x)
        return self.more(y) if self.training else y
