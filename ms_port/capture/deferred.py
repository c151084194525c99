"""A cheap build: random fills of parameters wait until something looks at the values, which mostly never happens.

The warm-up builds the model only to learn which code runs. Filling its parameters is most of the time of building, so
in-place fills are put off, and made up for, in order, before any call that could see or disturb their outcome.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import init
from torch.overrides import TorchFunctionMode, handle_torch_function

from ms_port.capture.inputs import tensors_in

_FILLS = frozenset(
    {"normal_", "uniform_", "bernoulli_", "exponential_", "cauchy_", "log_normal_", "geometric_", "random_"}
)
_DRAWS = ("rand", "normal", "uniform", "bernoulli", "multinomial", "poisson", "dropout", "gumbel", "seed")
"""Parts of the names of functions that draw from the random generator: fills put off before them come first."""

_BLIND = frozenset(
    {"__get__", "size", "dim", "numel", "stride", "is_contiguous", "detach", "requires_grad_", "__len__"}
)
_VIEWS = frozenset({"__getitem__", "view", "select", "narrow", "chunk", "split", "unbind", "t", "transpose", "flatten"})
"""Calls that look at no value; the second kind gives views (``__getitem__`` where an index holds only numbers)."""


class DeferredFills(TorchFunctionMode):
    """Puts off in-place calls without other tensors (``w.normal_(0, 1)``, then ``w.mul_(2)``)."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], bool]] = []
        self._storages: set[int] = set()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        is_init = getattr(func, "__module__", "") == init.__name__
        is_fill = is_init or name in _FILLS
        if name in _BLIND or not (self._storages or is_fill) or (name in _VIEWS and _is_basic(args[1:])):
            return func(*args, **kwargs)
        subject = args[0] if args else kwargs.get("tensor")  # torch.nn.init passes it by keyword
        if (
            isinstance(subject, torch.Tensor)
            and (is_init or not _tracked(subject))
            and self._can_wait(func, subject, is_fill, (args[1:], kwargs))
        ):
            self._waiting.append((func, args, kwargs, torch.is_grad_enabled()))
            self._storages.add(_storage(subject))
            return subject
        touched = (_storage(tensor) for tensor in tensors_in((args, kwargs)))
        if any(draw in name for draw in _DRAWS) or not self._storages.isdisjoint(touched):
            self.make_up()
        return func(*args, **kwargs)

    def _can_wait(self, func: Callable[..., Any], subject: torch.Tensor, is_fill: bool, others: Any) -> bool:
        """True for a write in place that no other tensor has a part in, to a tensor whose values are awaited anyway."""
        name = getattr(func, "__name__", "")
        if not name.endswith("_") or name.startswith("_"):
            return False
        if not is_fill and _storage(subject) not in self._storages:
            return False
        return all(tensor is subject for tensor in tensors_in(others))

    def make_up(self) -> None:
        """Make all fills that were put off."""
        waiting, self._waiting = self._waiting, []
        self._storages.clear()
        with torch._C.DisableTorchFunction():
            for func, args, kwargs, grad in waiting:
                with torch.set_grad_enabled(grad):
                    func(*args, **kwargs)


@contextmanager
def deferred_fills() -> Iterator[DeferredFills]:
    """Put fills off inside the block, those by functions of ``torch.nn.init`` that no mode sees included."""
    originals = {name: item for name, item in vars(init).items() if name.endswith("_") and not name.startswith("_")}
    try:
        for name, item in originals.items():
            setattr(init, name, _visible(item))
        with DeferredFills() as mode:
            yield mode
    finally:
        for name, item in originals.items():
            setattr(init, name, item)


def _visible(fill: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of ``torch.nn.init``, but as one call for the mode."""

    @functools.wraps(fill)
    def call(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not torch._C._is_torch_function_mode_enabled():
            return fill(tensor, *args, **kwargs)
        return handle_torch_function(fill, (tensor,), tensor, *args, **kwargs)

    return call


def _is_basic(index: Any) -> bool:
    """True where an index holds numbers, slices and None only: indexing gives a view then."""
    if type(index) is tuple:
        return all(map(_is_basic, index))
    return index is None or index is Ellipsis or type(index) in (int, slice)


def _tracked(tensor: torch.Tensor) -> bool:
    """True where autograd (or torch's own error) must see a write; ``torch.nn.init`` turns gradients off itself."""
    return torch.is_grad_enabled() and tensor.requires_grad


def _storage(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError, ValueError):  # ValueError: a lazy layer's parameter has none yet
        return id(tensor)
