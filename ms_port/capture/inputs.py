"""Example inputs, and how they bind to the parameters of ``forward``."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ms_port.capture.chosen_forward import chosen_method
from ms_port.capture.errors import CaptureError


@dataclass(frozen=True, slots=True)
class Inputs:
    """Example arguments of ``forward``: torch tensors and Python values, in nested lists, tuples and dicts."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """All tensors in nested containers (slices too, as they occur in indexing), in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list, set, frozenset)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, slice):
        yield from tensors_in((value.start, value.stop, value.step))


def map_tensors(function: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """A copy of nested containers with every tensor replaced; other values are kept."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, slice):
        return slice(*(map_tensors(function, item) for item in (value.start, value.stop, value.step)))
    if type(value) in (tuple, list):
        return type(value)(map_tensors(function, item) for item in value)
    if type(value) is dict:
        return {name: map_tensors(function, item) for name, item in value.items()}
    if isinstance(value, (tuple, list, dict)):
        return pytree.tree_map(
            lambda leaf: map_tensors(function, leaf) if isinstance(leaf, (torch.Tensor, slice)) else leaf, value
        )
    return value


def bind(model: nn.Module, inputs: Inputs) -> dict[str, Any]:
    """The inputs by name of ``forward``'s parameters. Raises CaptureError naming the parameter at fault."""
    chosen = chosen_method(model)
    forward = model.forward if chosen is None else types.MethodType(chosen, model)
    try:
        signature = inspect.signature(forward)
    except (TypeError, ValueError):
        return {**{f"arg{index}": item for index, item in enumerate(inputs.args)}, **inputs.kwargs}
    try:
        bound = dict(signature.bind(*inputs.args, **inputs.kwargs).arguments)
        for name, parameter in signature.parameters.items():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD and name in bound:
                bound |= bound.pop(name)  # the port has each entry as a parameter
        return bound
    except TypeError as error:
        plain = inspect.unwrap(forward)
        code = getattr(plain, "__code__", None)
        file, line = (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)
        raise CaptureError(
            f"forward of {type(model).__name__} does not accept the inputs: {error}",
            file,
            line,
            f"its parameters are: {', '.join(map(str, signature.parameters.values()))}",
        ) from error
