"""Decorators whose wrapper gave or got something else than the method itself (MSP310)."""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any

import torch

from ms_port.capture.abstract import canonical_class, is_torch_module
from ms_port.capture.recording import Activation, FunctionRecord, Recording
from ms_port.ir.flags import Flag, Place
from ms_port.ir.program import Program
from ms_port.passes.rewrite import all_functions, parameters
from ms_port.passes.unread.modules import plain_function


def decorators(program: Program, recording: Recording) -> Iterator[Flag]:
    """Decorated methods of the port whose wrapper gave or got something else than the method itself."""
    emitted: dict[str, set[str]] = {}
    for function in all_functions(program):
        emitted.setdefault(function.key.partition("#")[0], set()).update(parameters(function))
    by_code: dict[types.CodeType, list[Activation]] = {}
    for record in recording.functions:
        for activation in record.activations:
            if activation.mode != "init":
                by_code.setdefault(activation.code or record.code, []).append(activation)
    classes = {c for m in recording.model.modules() for c in type(m).__mro__ if not is_torch_module(c.__module__)}
    for cls in sorted(classes, key=canonical_class):
        for name, member in cls.__dict__.items():
            outer = plain_function(member)
            key = f"{cls.__module__}:{cls.__qualname__}.{name}"
            if outer is None or key not in emitted:
                continue
            if outer.__code__.co_qualname == f"{cls.__qualname__}.{name}" or _is_torch_code(outer.__code__):
                continue
            inner = _record(recording, cls, name)
            if inner is None or inner.code is outer.__code__:
                continue
            changed = _changed(outer, inner, by_code, recording, program.claimed, emitted[key])
            if changed is not None:
                yield Flag(
                    rule="MSP310",
                    severity="error",
                    message=f"the decorator {_described_code(outer.__code__)} of {cls.__name__}.{name} {changed}; "
                    "the port has the method without it",
                    module=canonical_class(cls),
                    source=Place(inner.file, inner.line),
                    advice="Write in the method what the decorator does.",
                )


def _described_code(code: types.CodeType) -> str:
    return f"`{code.co_qualname}`, {code.co_filename}:{code.co_firstlineno},"


_TORCH = os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), "")


def _is_torch_code(code: types.CodeType) -> bool:
    """Wrappers of torch (``no_grad``, ``autocast``) and of context managers pass arguments and results on."""
    return code.co_filename.startswith(_TORCH) or os.path.basename(code.co_filename) == "contextlib.py"


def _record(recording: Recording, cls: type, name: str) -> FunctionRecord | None:
    qualname = f"{cls.__qualname__}.{name}"
    for record in recording.functions:
        if record.qualname == qualname and record.function is not None and record.function.__module__ == cls.__module__:
            return record
    return None


def _changed(
    outer: types.FunctionType,
    inner: FunctionRecord,
    by_code: dict[types.CodeType, list[Activation]],
    recording: Recording,
    claimed: frozenset[int],
    kept: Set[str],
) -> str | None:
    """In which way the wrapper differs from the method in a call that was seen; None where it does not.

    Args:
        kept: the parameters that the method has in the port.
    """
    code = outer.__code__
    wrappers = [a for a in by_code.get(code, ()) if a.function.code is code or a.code is code]
    if not wrappers and any(c is code for c in recording.uninstrumented):
        return "could not be read"
    for wrapper in wrappers:
        if (
            wrapper.call is not None
            and (calls := set(range(wrapper.call.start, wrapper.call.stop)))
            and calls <= claimed
        ):
            continue  # a flat function stands for the whole call, decorator included
        if not _leads_to(wrapper, inner.function):
            continue  # the same decorator around another method, which calls this one
        method = _within(wrapper, inner)
        if method is None:
            if any(v is inner.function for v in wrapper.closure.values()):
                return "does not always call it"
        elif not wrapper.raised and not _same(leaves(wrapper.result), leaves(method.result)):
            return "changes its result"
        elif not _same_arguments(wrapper, method, inner, kept):
            return "changes its arguments"
    return None


def _leads_to(wrapper: Activation, method: types.FunctionType | None) -> bool:
    """Whether a run of a decorator's wrapper is one around the method, told by the functions that its closure holds."""
    pending = [v for v in wrapper.closure.values() if isinstance(v, types.FunctionType)]
    if not pending:
        return True
    seen: set[int] = set()
    while pending:
        function = pending.pop()
        if function is method:
            return True
        if id(function) in seen:
            continue
        seen.add(id(function))
        held = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        held.append(getattr(function, "__wrapped__", None))
        pending.extend(v for v in held if isinstance(v, types.FunctionType))
    return False


def _is_filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _within(wrapper: Activation, inner: FunctionRecord) -> Activation | None:
    """The run of the method inside a run of its wrapper, through further wrappers."""
    pending = list(reversed(wrapper.children))
    while pending:
        activation = pending.pop()
        if activation.function is inner:
            return activation
        if activation.self is None or activation.self is wrapper.self or wrapper.self is None:
            pending.extend(reversed(activation.children))
    return None


def leaves(value: Any) -> list[Any]:
    """Tensors and plain values of a result in order: a tuple made of the same tensors is the same result."""
    if isinstance(value, dict):
        value = tuple(value.values())
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
