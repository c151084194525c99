"""The torch calls that one module's own code makes, and the module run again with one of them changed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, resolve_name

from ms_port.ir.flags import Place
from ms_port.verify.torch_side import tensors

OUTSIDE = -1
Change: TypeAlias = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Called with function, args and kwargs instead of the function."""
_NOT_SOURCE = (str(Path(torch.__file__).parent), str(Path(__file__).resolve().parents[1]))


@dataclass(frozen=True, eq=False)
class TorchCall:
    """One torch call, or one call of a child module (then ``child`` names it and ``func`` is None)."""

    name: str
    func: Callable[..., Any] | None
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    results: tuple[Tensor, ...]
    made_by: tuple[int, ...]
    """Numbers of the calls whose results go in; OUTSIDE for what the module was given or owns."""
    place: Place | None
    child: str = ""


class Finished(Exception):
    """The module that was watched has ended; the rest of the model need not run."""


@dataclass
class Watch:
    """What one call of one module did. Tensors are copies, in the order in which things happened."""

    path: str
    call: int
    change: Mapping[int, Change] = field(default_factory=dict)
    """By number of the call: what is done instead."""
    stop: bool = True
    """Raise ``Finished`` when the module has ended."""
    calls: list[TorchCall] = field(default_factory=list)
    arguments: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    output_from: set[int] = field(default_factory=set)
    """Numbers of the calls that made the outputs."""
    buffers: dict[str, Tensor] = field(default_factory=dict)
    """The module's own after the call."""
    done: bool = False
    _started: int = 0
    _depth: int = -1
    _count: int = 0
    _makers: dict[int, int] = field(default_factory=dict)
    _alive: list[Any] = field(default_factory=list)

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """Watch while the block runs, until the module ends: then ``Finished`` is raised (and swallowed here)."""
        target = model.get_submodule(self.path)
        with ExitStack() as stack:

            def hook(handle: Any) -> None:
                stack.callback(handle.remove)

            hook(target.register_forward_pre_hook(self._begin, with_kwargs=True))
            for name, child in target.named_modules():
                if child is not target:
                    hook(child.register_forward_pre_hook(self._enter))
                    hook(child.register_forward_hook(partial(self._leave, name), with_kwargs=True))
            hook(target.register_forward_hook(self._end))
            stack.enter_context(_CallMode(self))
            yield

    @property
    def active(self) -> bool:
        """Whether the module's own code runs now."""
        return self._depth == 0 and not self.done

    def _begin(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if self._started == self.call and not self.done:
            self.arguments = [t.detach().clone() for t in tensors((args, kwargs))]
            self._depth = 0  # from here on, for these copies are no calls of the module's
        self._started += 1

    def _end(self, module: nn.Module, args: Any, out: Any) -> None:
        if self._depth != 0 or self.done:
            return
        self.done = True
        self.outputs = [t.detach().clone() for t in tensors(out)]
        self.output_from = {self._makers.get(id(t), OUTSIDE) for t in tensors(out)}
        self.buffers = {name: t.detach().clone() for name, t in module.named_buffers(recurse=False)}
        if self.stop:
            raise Finished

    def _enter(self, module: nn.Module, args: Any) -> None:
        if self._depth >= 0 and not self.done:
            self._depth += 1

    def _leave(self, name: str, module: nn.Module, args: Any, kwargs: Any, out: Any) -> None:
        if self._depth > 0 and not self.done:
            if self._depth == 1:
                self._count += 1
                self.note(self._count - 1, name, None, copied((args, kwargs)), out, self._made_by(args, kwargs), name)
            self._depth -= 1

    def called(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one torch call of the module's own code, or what it was changed to, and note it."""
        number = self._count
        self._count += 1
        before, made_by = copied((args, kwargs)), self._made_by(args, kwargs)
        out = self.change[number](func, args, kwargs) if number in self.change else func(*args, **kwargs)
        name = str(resolve_name(func) or getattr(func, "__name__", ""))
        short = name.rpartition(".")[2]
        written = (short.endswith("_") and not short.endswith("__")) or short in _WRITES
        self.note(number, name, func, before, args[0] if written else out, made_by)
        return out

    def note(
        self, number: int, name: str, func: Any, given: Any, out: Any, made_by: tuple[int, ...], child: str = ""
    ) -> None:
        """Keep what a call gave, and who made what went in."""
        found = tensors(out)
        for tensor in found:
            self._makers[id(tensor)] = number
        self._alive.append(found)  # so that no id is used again
        kept = tuple(t.detach().clone() for t in found)
        args, kwargs = given
        place = None if child else source_place()
        self.calls.append(TorchCall(name, func, args, kwargs, kept, made_by, place, child))

    def _made_by(self, args: Any, kwargs: Any) -> tuple[int, ...]:
        return tuple(self._makers.get(id(t), OUTSIDE) for t in tensors((args, dict(kwargs))))


_WRITES = ("__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__ifloordiv__", "__iand__", "__ior__")


_NO_CALLS = ("__get__", "__set__", "__delete__", "size", "dim", "stride", "is_contiguous")


class _CallMode(TorchFunctionMode):
    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not self.watch.active or getattr(func, "__name__", "") in _NO_CALLS:
            return func(*args, **kwargs)
        return self.watch.called(func, args, kwargs)


def is_source(file: str) -> bool:
    """Whether a file is neither torch's nor ours."""
    return bool(file) and not file.startswith(_NOT_SOURCE) and not file.startswith("<")


def source_place() -> Place | None:
    """The nearest line on the stack that is neither torch's nor ours."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if is_source(file):
            return Place(file, frame.f_lineno)
        frame = frame.f_back
    return None


def copied(value: Any) -> Any:
    """The same nesting with copies of all tensors."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if type(value) in (tuple, list):
        return type(value)(map(copied, value))
    if type(value) is dict:
        return {k: copied(v) for k, v in value.items()}
    return value


def frontier(calls: list[TorchCall], right: Mapping[int, bool], ends: set[int]) -> int | None:
    """The first call that went wrong, though what goes into it is right, on the way to a wrong output.

    Args:
        right: by number, whether the port has this value too. What the port computes in one step with the next call
            it does not have; such a call is not at fault where a later one is right again.
        ends: calls that made the outputs.
    """
    wrong: set[int] = set()
    todo = [n for n in ends if n != OUTSIDE]
    while todo:
        number = todo.pop()
        if number in wrong or right.get(number, True):
            continue
        wrong.add(number)
        todo += [n for n in calls[number].made_by if n != OUTSIDE and n < number]
    first = [n for n in wrong if all(m == OUTSIDE or m not in wrong for m in calls[n].made_by)]
    return min(first, default=None)
