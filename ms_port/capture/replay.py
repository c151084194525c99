"""Value reads: the calls that produced a value are run again on real inputs, writes in order."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily

from ms_port.capture.inputs import map_tensors, tensors_in
from ms_port.capture.recording import TorchCall

_RANDOM = re.compile(
    r"rand|bernoulli|multinomial|normal|uniform|dropout|exponential|poisson|cauchy|geometric|rrelu|gumbel"
)
"""In the names of calls that draw."""


@dataclass(frozen=True, slots=True)
class Read:
    """The real result of a call that fake tensors can't answer, and the ids of the stand-ins that it depends on."""

    value: Any
    sources: frozenset[int]
    fixed: bool = False
    """Whether no input, parameter or buffer and no random draw stands behind it: the same in every call."""


class Replay:
    """Runs slices of the recorded calls on real values.

    Each read replays, in the recorded order, the calls that its arguments depend on: their producers, and every earlier
    write to the storages involved. Results are kept between reads; where a call is needed that lies before a write
    that has already been replayed, the whole slice is run again from the beginning.
    """

    def __init__(
        self, fake_mode: FakeTensorMode, real_of: Mapping[int, torch.Tensor], prepare: Callable[[], None] | None = None
    ) -> None:
        """``real_of``: id of a fake input, parameter or buffer -> the real one; ``prepare`` is called before reads."""
        self._prepare = prepare
        self._fake_mode = fake_mode
        self._real_of = real_of
        self.calls: list[TorchCall] = []
        """All recorded calls, each at the place of its index."""
        self._producer: dict[int, int] = {}
        self._writers: dict[int, list[int]] = defaultdict(list)
        self._values: dict[int, Any] = {}
        self._done: set[int] = set()
        self._last_write = -1
        self.differentiating = False
        """While a backward runs: gradients and saved tensors come from autograd, and any values stand for them."""

    def add(self, call: TorchCall) -> None:
        """Note who produced and who wrote each tensor."""
        self.calls.append(call)
        for tensor in tensors_in(call.result):
            self._producer.setdefault(id(tensor), call.index)
        for tensor in call.writes:
            self._writers[id(tensor)].append(call.index)

    def rewind(self, count: int) -> None:
        """Forget the calls from ``count`` on, and all replayed values."""
        del self.calls[count:]
        self._producer = {key: index for key, index in self._producer.items() if index < count}
        for indices in self._writers.values():
            indices[:] = [index for index in indices if index < count]
        self._values.clear()
        self._done.clear()
        self._last_write = -1

    def read(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Read]:
        """The result of a call on real values: as the trace goes on with it (tensors fake again), and as it is.

        What the call itself raises on real values is the user's own error and goes through.
        """
        with unset_fake_temporarily(), torch.no_grad():
            if self._prepare is not None:
                self._prepare()
            needed, sources = self._slice((args, kwargs), len(self.calls))
            fixed = self._is_fixed(func, args, kwargs)
            fresh = needed - self._done
            if fresh and min(fresh) < self._last_write:
                self._values.clear()
                needed |= self._done
                self._done.clear()
                fresh = needed
            for index in sorted(fresh):
                self._run(self.calls[index])
            value = func(*map_tensors(self._real, args), **map_tensors(self._real, kwargs))
        if not any(True for _ in tensors_in(value)):
            return value, Read(value, sources, fixed)
        fake = map_tensors(self._fake_mode.from_tensor, value)
        self._bind(fake, value)
        return fake, Read(value, sources, fixed)

    def _is_fixed(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether the answer (of an index: its size) is the same in every call."""
        name = getattr(func, "__name__", "")
        asked = args[1:] if name in ("__getitem__", "masked_select") else args
        needed, sources = self._slice((asked, kwargs), len(self.calls))
        return not sources and not any(_RANDOM.search(self.calls[index].name) for index in needed)

    def _slice(self, value: Any, before: int) -> tuple[set[int], frozenset[int]]:
        """The calls that must have run for ``value`` to be right just before call ``before``, and their stand-ins."""
        found: set[int] = set()
        pending = [(tensor, before) for tensor in tensors_in(value)]
        seen: dict[int, int] = {}
        while pending:
            tensor, limit = pending.pop()
            if seen.get(id(tensor), -1) >= limit:
                continue
            seen[id(tensor)] = limit
            indices = [index for index in self._writers.get(id(tensor), ()) if index < limit]
            if id(tensor) in self._producer and id(tensor) not in self._real_of:
                indices.append(self._producer[id(tensor)])
            for index in indices:
                if index not in found:
                    found.add(index)
                    call = self.calls[index]
                    pending.extend((item, index) for item in tensors_in((call.args, call.kwargs)))
        return found, frozenset(seen.keys() & self._real_of.keys())

    def _run(self, call: TorchCall) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(call.index)  # a random call gives the same values however often it is replayed
            result = call.func(*map_tensors(self._real, call.args), **map_tensors(self._real, call.kwargs))
        self._bind(call.result, result)
        self._done.add(call.index)
        if call.writes:
            self._last_write = max(self._last_write, call.index)

    def _real(self, tensor: torch.Tensor) -> torch.Tensor:
        key = id(tensor)
        if key not in self._values:
            base = self._real_of.get(key, tensor)
            if isinstance(base, FakeTensor) and self.differentiating:
                base = _any_values(base)
            elif isinstance(base, FakeTensor):
                raise RuntimeError("a tensor's value is read that was made where it can't be seen (a ScriptModule?)")
            self._values[key] = base.detach().clone()  # writes must not reach the user's tensors
        value: torch.Tensor = self._values[key]
        return value

    def _bind(self, fake: Any, real: Any) -> None:
        for stand_in, tensor in zip(tensors_in(fake), tensors_in(real), strict=False):
            self._values.setdefault(id(stand_in), tensor)


def _any_values(fake: torch.Tensor) -> torch.Tensor:
    """A real tensor of the same shape and type."""
    generator = torch.Generator().manual_seed(fake.numel())
    return torch.randn(tuple(fake.shape), generator=generator).to(fake.dtype)
