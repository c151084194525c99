"""Where, and with what, modules or cells are made: read from their constructors' frames. Standard library alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any


@dataclass(frozen=True)
class Built:
    """How one object was made: the line, and its constructor's arguments as far as they are plain data."""

    file: str
    line: int
    arguments: dict[str, Any] = field(default_factory=dict)
    plain: bool = True
    """Whether ``arguments`` holds all of them."""


@contextmanager
def constructions(base: Any, own: Callable[[str], bool]) -> Iterator[dict[int, tuple[Any, Built]]]:
    """Fill a table, by id, of all objects of ``base`` that are made while the block runs, with each of them.

    Args:
        own: whether a file is one of those whose lines count. A frame of another file is passed over.
    """
    original = base.__init__
    table: dict[int, tuple[Any, Built]] = {}

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if id(self) not in table and (built := _built(self, sys._getframe(1), own)):
            table[id(self)] = self, built
        original(self, *args, **kwargs)

    base.__init__ = init
    try:
        yield table
    finally:
        base.__init__ = original


def _built(made: Any, frame: FrameType | None, own: Callable[[str], bool]) -> Built | None:
    outermost: dict[str, Any] = {}
    while frame is not None:
        code = frame.f_code
        first = code.co_varnames[0] if code.co_argcount else ""
        if code.co_name == "__init__" and frame.f_locals.get(first) is made:
            count = code.co_argcount + code.co_kwonlyargcount
            outermost = {name: frame.f_locals.get(name) for name in code.co_varnames[1:count]}
        elif own(code.co_filename):
            kept = {name: value for name, value in outermost.items() if is_plain(value)}
            return Built(code.co_filename, frame.f_lineno, kept, len(kept) == len(outermost))
        frame = frame.f_back
    return None


def is_plain(value: Any) -> bool:
    """Whether ``repr`` gives it back: numbers, strings, None, and tuples and lists of them."""
    if isinstance(value, (tuple, list)):
        return type(value) in (tuple, list) and all(map(is_plain, value))
    return value is None or type(value) in (int, float, bool, str)
