"""How an instance was built, found by building it again: its constructors can then be recorded like those of a class.

Nothing is guessed: what the class builds from the arguments that the instance kept (``self.config``, ``self.dim``) and
from defaults must be the instance in every module, setting and shape. Else it counts as built in an unknown way.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ms_port.capture.abstract import is_torch_module
from ms_port.capture.random_state import RandomState

_REGISTRIES = frozenset({"_parameters", "_buffers", "_modules", "training"})
"""Compared by name and shape; their values are the instance's."""


def constructor_arguments(instance: nn.Module) -> dict[str, Any] | None:
    """Arguments from which the instance's class builds the same again; None where none were found.

    The class's constructor is called once; the random generators are left as they were.
    """
    cls = type(instance)
    if is_torch_module(cls.__module__) or isinstance(instance, torch.jit.ScriptModule | torch.fx.GraphModule):
        return None
    before = RandomState.now()
    try:
        arguments = _kept(instance)
        if arguments is None or not _Twins(instance, cls(**arguments)).alike:
            return None
    except Exception:  # whatever a constructor raises: these were not its arguments
        return None
    finally:
        before.restore()
    return arguments


def take_state(twin: nn.Module, instance: nn.Module) -> None:
    """Give a model that was built again the instance's values (as copies) and modes."""
    theirs = dict(_tensors(instance))
    with torch.no_grad():
        for name, tensor in _tensors(twin):
            tensor.copy_(theirs[name])
    modules = dict(instance.named_modules(remove_duplicate=False))
    for name, module in twin.named_modules(remove_duplicate=False):
        module.training = modules[name].training


def _kept(instance: nn.Module) -> dict[str, Any] | None:
    """The constructor's arguments, as far as the instance keeps them; None where one without a default is missing."""
    found: dict[str, Any] = {}
    for name, parameter in inspect.signature(type(instance)).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        attribute = next((a for a in (name, f"_{name}") if a in instance.__dict__), None)
        if attribute is not None and parameter.kind is not parameter.POSITIONAL_ONLY:
            found[name] = instance.__dict__[attribute]
        elif parameter.default is parameter.empty:
            return None
    return found


def _tensors(model: nn.Module) -> list[tuple[str, Tensor]]:
    return [
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    ]


class _Twins:
    """An instance beside a model that its class built again."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        self.first, self.second = first, second
        self.twin: dict[int, nn.Module] = {}
        """Id of a module of the first -> the module in its place."""
        self.seen: set[tuple[int, int]] = set()

    @property
    def alike(self) -> bool:
        """Whether they differ in values of parameters and buffers only."""
        ours, theirs = _modules(self.first), _modules(self.second)
        if [(name, type(m)) for name, m in ours] != [(name, type(m)) for name, m in theirs]:
            return False
        self.twin = {id(a): b for (_, a), (_, b) in zip(ours, theirs, strict=True)}
        return (
            _ties(ours) == _ties(theirs)
            and _shapes(self.first) == _shapes(self.second)
            and _ties(_tensors(self.first)) == _ties(_tensors(self.second))
            and all(self._settings(a, self.twin[id(a)]) for _, a in ours)
        )

    def _settings(self, a: nn.Module, b: nn.Module) -> bool:
        """Every attribute but the registries' tensors."""
        if a._non_persistent_buffers_set != b._non_persistent_buffers_set:
            return False
        ours, theirs = ({k: v for k, v in m.__dict__.items() if k not in _REGISTRIES} for m in (a, b))
        return ours.keys() == theirs.keys() and all(self._same(value, theirs[key]) for key, value in ours.items())

    def _same(self, a: Any, b: Any) -> bool:
        if a is b:
            return True
        if type(a) is not type(b):
            return False
        if isinstance(a, nn.Module):
            return self.twin.get(id(a)) is b
        if isinstance(a, Tensor):
            return a.shape == b.shape and a.dtype == b.dtype and bool(torch.equal(a, b))
        if isinstance(a, np.ndarray):
            return a.dtype == b.dtype and bool(np.array_equal(a, b))
        if isinstance(a, Mapping):
            return list(a) == list(b) and all(self._same(a[key], b[key]) for key in a)
        if isinstance(a, tuple | list):
            return len(a) == len(b) and all(map(self._same, a, b))
        if isinstance(a, functools.partial):
            return self._same((a.func, a.args, a.keywords), (b.func, b.args, b.keywords))
        if isinstance(a, types.MethodType):
            return a.__func__ is b.__func__ and self._same(a.__self__, b.__self__)
        if isinstance(a, types.FunctionType):
            return a.__code__ is b.__code__ and self._same(_cells(a), _cells(b))
        return self._same_object(a, b)

    def _same_object(self, a: Any, b: Any) -> bool:
        """Objects that say that they are equal, or whose attributes are."""
        if (id(a), id(b)) in self.seen:  # it holds itself
            return True
        self.seen.add((id(a), id(b)))
        if any("__eq__" in vars(cls) for cls in type(a).__mro__[:-1]):
            return bool(a == b)
        return hasattr(a, "__dict__") and self._same(vars(a), vars(b))


def _modules(model: nn.Module) -> list[tuple[str, nn.Module]]:
    return list(model.named_modules(remove_duplicate=False))


def _cells(function: types.FunctionType) -> list[Any]:
    """What a function holds besides its code: what it closes over, and its defaults."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return [*cells, function.__defaults__, function.__kwdefaults__]


def _shapes(model: nn.Module) -> list[tuple[Any, ...]]:
    return [(name, type(t), t.shape, t.dtype, t.device, t.requires_grad) for name, t in _tensors(model)]


def _ties(named: list[tuple[str, Any]]) -> list[int]:
    """By entry, the number of the first entry that is the same object."""
    first: dict[int, int] = {}
    return [first.setdefault(id(item), number) for number, (_, item) in enumerate(named)]
