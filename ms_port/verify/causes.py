"""What a port may do instead of one torch call: changes from a table, to be tried by running torch with each."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from ms_port.verify.cause_table import ANY, ROWS, Bound, Other, Row
from ms_port.verify.torch_calls import Change, TorchCall


@dataclass(frozen=True)
class Cause:
    """One change of a call, and how it is told: ``approximate='tanh' instead of 'none'``."""

    text: str
    change: Change


def causes(call: TorchCall) -> Iterator[Cause]:
    """All changes that the table knows for a call, the special ones first."""
    short = call.name.rpartition(".")[2]
    for row in ROWS:
        if short in row.calls.split():
            yield from _of_row(row, call)
    for text, after in ANY.items():
        yield Cause(text, partial(_after, after))


def _of_row(row: Row, call: TorchCall) -> Iterator[Cause]:
    names, defaults = _parameters(row.signature)
    bound = _bind(names, defaults, call.args, call.kwargs)
    for name, others in row.options.items():
        value = bound.get(name)
        for other in others:
            if isinstance(other, Other):
                if other.when(value):
                    yield Cause(other.text.format(name=name), partial(_with, names, defaults, name, other.make))
            elif not _same(other, value):
                text = f"{name}={other!r} instead of {value!r}"
                yield Cause(text, partial(_with, names, defaults, name, partial(_always, other)))
    for text, change in row.whole.items():
        if change(dict(bound)) is not None:
            yield Cause(text, partial(_all, names, defaults, change))
    for text, function in row.instead.items():
        yield Cause(text, partial(_instead, function))


def _always(value: Any, old: Any) -> Any:
    return value


def _same(a: Any, b: Any) -> bool:
    plain = tuple(b) if isinstance(b, list) else b
    return type(a) is type(plain) and bool(a == plain)


@cache
def _parameters(signature: str) -> tuple[list[str], Bound]:
    """Names in order, and the defaults of those that have one."""
    function: Any = ast.parse(f"def f({signature}): pass").body[0]
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    given = dict(zip(names[len(names) - len(arguments.defaults) :], arguments.defaults, strict=True))
    given |= {a.arg: v for a, v in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)}
    names += [a.arg for a in arguments.kwonlyargs]
    return names, {name: ast.literal_eval(value) for name, value in given.items()}


def _bind(names: Sequence[str], defaults: Bound, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound:
    return {**defaults, **dict(zip(names, args, strict=False)), **kwargs}


def _with(
    names: Sequence[str], defaults: Bound, name: str, make: Any, func: Any, args: tuple[Any, ...], kwargs: Any
) -> Any:
    """Call with one argument changed; the others stay as they were passed."""
    place = names.index(name)
    if place < len(args):
        return func(*args[:place], make(args[place]), *args[place + 1 :], **kwargs)
    return func(*args, **{**kwargs, name: make(kwargs.get(name, defaults.get(name)))})


def _all(names: Sequence[str], defaults: Bound, change: Any, func: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    bound = change(_bind(names, defaults, args, kwargs))
    given = names[: len(args)]
    more = {n: v for n, v in bound.items() if n not in given and (n in kwargs or v is not defaults.get(n))}
    return func(*(bound[n] for n in given), *args[len(given) :], **more)


def _instead(function: Any, func: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _after(change: Any, func: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    """Run the call, and change its result."""
    return change(args, func(*args, **kwargs))
