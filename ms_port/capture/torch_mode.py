"""The torch-function mode: records every outermost torch call of a forward pass, its writes and its value reads."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.overrides import TorchFunctionMode

from ms_port.capture.inputs import tensors_in
from ms_port.capture.names import canonical_name
from ms_port.capture.recorder import Recorder
from ms_port.capture.recording import TorchCall, ValueRead
from ms_port.capture.replay import Replay
from ms_port.capture.user_code import UserCode

_HIDDEN_WRITES = {
    "torch.nn.functional.batch_norm": ("running_mean", "running_var", 1, 2, "training", 5),
    "torch.batch_norm": ("running_mean", "running_var", 3, 4, "training", 5),
    "torch.nn.functional.instance_norm": ("running_mean", "running_var", 1, 2, "use_input_stats", 5),
}
"""Calls that write running statistics without raising their version: names and positions of those and of the switch."""

ReadKind: TypeAlias = Literal["value", "shape", "unsupported"]
_VALUE: ReadKind = "value"
_IN_PLACE = re.compile(r"[a-z]\w*[a-z0-9]_|__setitem__|__i(add|sub|mul|truediv|floordiv|mod|pow|and|or|xor)__")
_NO_VERSION = -1
_READERS = frozenset({"torch.tensor", "torch.as_tensor", "torch.asarray", "torch.Tensor.new_tensor"})
"""Make a tensor of Python numbers, and so read those tensors that stand among the numbers."""


class TorchTrace(TorchFunctionMode):
    """Records torch calls under fake tensors. Everything traced is kept alive, so that ids are not reused.

    A trace function that is set (``run_observed``) rests while torch works: most Python calls are torch's own there.
    """

    def __init__(self, recorder: Recorder, user: UserCode, replay: Replay, names: Mapping[int, str]) -> None:
        """``names``: id of a stand-in -> dotted name of the parameter or buffer."""
        super().__init__()
        recorder.clock = 0
        self._names = names
        self._recorder = recorder
        self._user = user
        self._replay = replay
        self._of_storage: dict[int, list[torch.Tensor]] = {}
        self._known: set[int] = set()
        self.calls = replay.calls
        self.reads: list[ValueRead] = []
        self.truths: dict[int, bool] = {}
        """id of a tensor that Python asked for its truth -> the answer."""
        self.turned: tuple[str, int] | None = None
        """The place whose next question for a tensor's truth is answered the other way round."""
        self._turned: set[int] = set()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        tracer = sys.gettrace()
        if tracer is None:
            return self._handle(func, args, kwargs or {})
        sys.settrace(None)
        try:
            return self._handle(func, args, kwargs or {})
        finally:
            sys.settrace(tracer)

    def _handle(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        accessor = getattr(func, "__name__", "")
        if accessor == "__get__":
            result = func(*args, **kwargs)
            if not isinstance(result, torch.Tensor) or result is args[0] or canonical_name(func).endswith(".grad"):
                return result
            self._know(args[0])  # .data and its like are aliases
            return self._record(func, args, kwargs, result, ())
        tensors = list(tensors_in(args))
        if kwargs:
            tensors.extend(tensors_in(kwargs))
        for tensor in tensors:
            self._know(tensor)
        versions = [_version(tensor) for tensor in tensors]
        read, kind = None, _VALUE
        try:
            result = func(*args, **kwargs)
        except Exception as error:
            result, read = self._replay.read(func, args, kwargs)
            kind = _kind(error, canonical_name(func), read.value)
        if accessor == "_set_grad_enabled":
            return result
        if accessor == "__bool__" and isinstance(result, bool):
            key = id(tensors[0])
            if self.turned is not None and self.turned == self._user.nearest(sys._getframe()):
                self.turned = None
                self._turned.add(key)  # `if a or b` asks twice
            if key in self._turned:
                result = not result
            self.truths[key] = result
        written = [tensor for tensor, version in zip(tensors, versions, strict=True) if _version(tensor) != version]
        if accessor == "__set__" or (versions[:1] == [_NO_VERSION] and _IN_PLACE.fullmatch(accessor)):
            written.extend(tensors[:1])  # versions don't tell: x.data = y, and inference mode
        result = self._record(func, args, kwargs, result, written)
        if read is not None:
            call = self.calls[-1]
            sources = sorted({self._names.get(key, "<input>") for key in read.sources})
            self.reads.append(ValueRead(call, read.value, call.file, call.line, tuple(sources), kind, read.fixed))
        return result

    def _record(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
        written: Iterable[torch.Tensor],
    ) -> Any:
        name = canonical_name(func)
        for tensor in tensors_in(result):
            self._know(tensor)
        writes: dict[int, torch.Tensor] = {}
        for tensor in (*written, *_hidden_writes(name, args, kwargs)):
            for alias in self._of_storage.get(_storage(tensor), (tensor,)):
                writes[id(alias)] = alias
        file, line = self._user.nearest(sys._getframe())
        stack = self._recorder.stack
        activation = stack[-1] if stack else None
        call = TorchCall(
            len(self.calls), func, name, args, kwargs, result, self._recorder.mode, file, line, activation,
            tuple(writes.values()),
        )  # fmt: skip
        self._replay.add(call)
        self._recorder.clock = len(self.calls)
        return result

    @contextmanager
    def differentiating(self) -> Iterator[None]:
        """A backward runs inside: tensors come from autograd that no call here has made."""
        self._replay.differentiating = True
        try:
            yield
        finally:
            self._replay.differentiating = False

    def rewind(self, count: int) -> None:
        """Drop the calls from ``count`` on."""
        self._replay.rewind(count)
        self.reads[:] = [read for read in self.reads if read.call.index < count]
        self._recorder.clock = count

    def _know(self, tensor: torch.Tensor) -> None:
        if id(tensor) not in self._known:
            self._known.add(id(tensor))
            self._of_storage.setdefault(_storage(tensor), []).append(tensor)


def _kind(error: Exception, name: str, value: Any) -> ReadKind:
    """Why fake tensors could not answer a call."""
    if isinstance(error, DynamicOutputShapeException):
        return "shape"
    if isinstance(error, DataDependentOutputException) or name in _READERS or not isinstance(value, torch.Tensor):
        return "value"
    return "unsupported"


def _hidden_writes(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    row = _HIDDEN_WRITES.get(name)
    if row is None:
        return []
    mean, var, mean_at, var_at, switch, switch_at = row

    def argument(key: str, position: int) -> Any:
        return kwargs.get(key, args[position] if position < len(args) else None)

    if not argument(switch, switch_at):
        return []
    return [item for item in (argument(mean, mean_at), argument(var, var_at)) if isinstance(item, torch.Tensor)]


def _version(tensor: torch.Tensor) -> int:
    try:
        return tensor._version
    except RuntimeError:  # inference tensors keep no version
        return _NO_VERSION


def _storage(tensor: torch.Tensor) -> int:
    """Identity of a tensor's memory; a tensor without one (sparse) stands for itself."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return id(tensor)
