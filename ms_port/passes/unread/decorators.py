"""Decorators whose wrapper gave or got something else than the method itself (MSP310)."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any

import torch

from ms_port.capture.abstract import canonical_class
from ms_port.capture.recording import Activation, FunctionRecord, Recording
from ms_port.ir.flags import Flag, Place
from ms_port.ir.program import Program
from ms_port.passes.filtered_outputs import output_items
from ms_port.passes.rewrite import all_functions, parameters
from ms_port.passes.wrapped_methods import WrappedMethod, wrapped_methods


def decorators(program: Program, recording: Recording) -> Iterator[Flag]:
    """Decorated methods of the port whose wrapper gave or got something else than the method itself."""
    emitted: dict[str, set[str]] = {}
    for function in all_functions(program):
        emitted.setdefault(function.key.partition("#")[0], set()).update(parameters(function))
    for method in wrapped_methods(recording):
        if method.key not in emitted:
            continue
        changed = _changed(method, recording, program, emitted[method.key])
        if changed is not None:
            yield Flag(
                rule="MSP310",
                severity="error",
                message=f"the decorator {_described_code(method.outer.__code__)} of {method.cls.__name__}."
                f"{method.name} {changed}; the port has the method without it",
                module=canonical_class(method.cls),
                source=Place(method.inner.file, method.inner.line),
                advice="Write in the method what the decorator does.",
            )


def _described_code(code: types.CodeType) -> str:
    return f"`{code.co_qualname}`, {code.co_filename}:{code.co_firstlineno},"


def _changed(wrapped: WrappedMethod, recording: Recording, program: Program, kept: Set[str]) -> str | None:
    """In which way the wrapper differs from the method in a call that was seen; None where it does not.

    Args:
        kept: the parameters that the method has in the port.
    """
    if not wrapped.wrappers and any(c is wrapped.outer.__code__ for c in recording.uninstrumented):
        return "could not be read"
    for wrapper, method in wrapped.runs():
        calls = set(range(wrapper.call.start, wrapper.call.stop)) if wrapper.call is not None else set()
        if calls and calls <= program.claimed:
            continue  # a flat function stands for the whole call, decorator included
        if method is None:
            if any(v is wrapped.inner.function for v in wrapper.closure.values()):
                return "does not always call it"
        elif not wrapper.raised and not _same_result(wrapper, method, program.filtered.get(wrapped.key, frozenset())):
            return "changes its result"
        elif not _same_arguments(wrapper, method, wrapped.inner, kept):
            return "changes its arguments"
    return None


def _same_result(wrapper: Activation, method: Activation, filtered: Set[str]) -> bool:
    """``filtered``: fields that the port's method does not return either."""
    result = method.result
    if filtered:
        result = {name: item for name, item in output_items(result).items() if name not in filtered}
    return _same(leaves(wrapper.result), leaves(result))


def leaves(value: Any) -> list[Any]:
    """Tensors and plain values of a result in order: a tuple made of the same tensors is the same result."""
    if fields := output_items(value):
        value = tuple(fields.values())
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in leaves(item)]
    return [] if value is None else [value]


def _same(left: Sequence[Any], right: Sequence[Any]) -> bool:
    if len(left) != len(right):
        return False
    return all(
        a is b or (not isinstance(a, torch.Tensor) and _plain_equal(a, b)) for a, b in zip(left, right, strict=True)
    )


def _plain_equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and (not isinstance(a, int | float | str) or a == b)


def _same_arguments(wrapper: Activation, method: Activation, inner: FunctionRecord, kept: Set[str]) -> bool:
    """Whether the method got the tensors and numbers that its wrapper got. Flags of a library are not compared.

    What is no parameter in the port stands there as what the method itself got.
    """
    args, kwargs = _given(wrapper)
    function = inner.function
    assert function is not None
    try:
        bound = inspect.signature(_unwrapped(function)).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return True
    bound.apply_defaults()
    for name, value in bound.arguments.items():
        got = method.arguments.get(name, value)
        kinds = (torch.Tensor, int, float)
        if name not in kept or isinstance(value, bool) or isinstance(got, bool) or not isinstance(got, kinds):
            continue
        if got is not value and (isinstance(got, torch.Tensor) or not _plain_equal(got, value)):
            return False
    return True


def _unwrapped(function: types.FunctionType) -> Callable[..., Any]:
    """A copy of the function for its own signature: ``__wrapped__`` is not followed."""
    return types.FunctionType(function.__code__, {}, None, function.__defaults__, function.__closure__)


def _given(wrapper: Activation) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a run, positional and by keyword, as they were passed."""
    code = wrapper.function.code
    names = code.co_varnames
    positional = names[: code.co_argcount]
    keywords = names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    rest = names[code.co_argcount + code.co_kwonlyargcount :]
    args = [wrapper.arguments[n] for n in positional if n in wrapper.arguments]
    kwargs = {n: wrapper.arguments[n] for n in keywords if n in wrapper.arguments}
    if code.co_flags & inspect.CO_VARARGS:
        args += list(wrapper.arguments.get(rest[0], ()))
        rest = rest[1:]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kwargs |= dict(wrapper.arguments.get(rest[0], {}))
    return args, kwargs
