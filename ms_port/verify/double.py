"""Run torch code in float64, whatever precision it asks for: the truth of verification."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name

LOW = (torch.float32, torch.float16, torch.bfloat16)
_CASTS = {torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16}


class DoubleMode(TorchFunctionMode):
    """Every lower float type that code names, and every stray constant, becomes float64.

    An op without a float64 kernel runs in float32; ``single`` collects the names of such ops.
    """

    def __init__(self) -> None:
        super().__init__()
        self.single: set[str] = set()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in ("__get__", "__set__", "__delete__"):
            return func(*args, **kwargs)
        if func in _CASTS:
            return args[0].double()
        in_place = name.endswith("_") and not name.endswith("__")
        raised = tuple(a if in_place and i == 0 else _raise(a) for i, a in enumerate(args))
        named = {k: v if k == "out" else _raise(v) for k, v in kwargs.items()}
        try:
            return func(*raised, **named)
        except (RuntimeError, NotImplementedError) as error:
            if in_place or not _lacks_double(error):
                raise
            self.single.add(resolve_name(func) or name)
            return _raise(func(*map(_lower, raised), **{k: _lower(v) for k, v in named.items()}))


@contextmanager
def double_precision() -> Iterator[DoubleMode]:
    """The mode, with float64 as torch's default type; the former default comes back afterwards."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with DoubleMode() as mode:
            yield mode
    finally:
        torch.set_default_dtype(default)


def _lacks_double(error: BaseException) -> bool:
    text = str(error)
    if "not implemented for 'Double'" in text or "got Double" in text:
        return True
    return ("float64" in text or "Double" in text) and "support" in text


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Apply ``change`` to what stands in tuples, lists and dicts; other objects stay."""
    if type(value) in (tuple, list):
        return type(value)(_mapped(v, change) for v in value)
    if type(value) is dict:
        return {k: _mapped(v, change) for k, v in value.items()}
    return change(value)


def _raise(value: Any) -> Any:
    def change(v: Any) -> Any:
        if isinstance(v, torch.Tensor):
            return v.double() if v.dtype in LOW else v
        return torch.float64 if isinstance(v, torch.dtype) and v in LOW else v

    return _mapped(value, change)


def _lower(value: Any) -> Any:
    def change(v: Any) -> Any:
        if isinstance(v, torch.Tensor):
            return v.float() if v.dtype == torch.float64 else v
        return torch.float32 if v is torch.float64 else v

    return _mapped(value, change)
