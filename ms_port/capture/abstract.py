"""Live objects become IR values: what may be said about them without holding them."""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import torch
from torch.overrides import resolve_name

from ms_port.capture.closures import global_name
from ms_port.capture.names import canonical_name
from ms_port.capture.normed import normed_class
from ms_port.capture.recording import Recording
from ms_port.ir import values as ir

_LARGE = 512
"""Containers longer than this are registries: nothing is said about their items."""
_EXACT_LITERALS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))


def module_class(module: torch.nn.Module) -> str:
    """The name of a module's class, of that under weight_norm for layers whose weight is normed."""
    return normed_class(module) or canonical_class(type(module))


def canonical_class(cls: type) -> str:
    """``torch.nn.Linear`` for ``torch.nn.modules.linear.Linear``; other classes by module and qualified name."""
    if cls.__module__.startswith("torch.nn.") and getattr(torch.nn, cls.__name__, None) is cls:
        return f"torch.nn.{cls.__name__}"
    if cls.__module__ == "torch" or getattr(torch, cls.__name__, None) is cls:
        return f"torch.{cls.__name__}"
    return f"{cls.__module__}.{cls.__qualname__}"


def is_torch_module(name: str | None) -> bool:
    """Whether a ``__module__`` belongs to torch itself (not to torchvision)."""
    return name is not None and (name == "torch" or name.startswith("torch."))


def function_key(function: types.FunctionType) -> str:
    """The key of a user function: ``module:qualname``; its global name where a call at import made it."""
    return f"{function.__module__}:{global_name(function) or function.__qualname__}"


def api_name(func: Any) -> str | None:
    """Canonical name of a torch function or method, None where it is none."""
    if isinstance(func, types.BuiltinMethodType | types.MethodType) and isinstance(
        getattr(func, "__self__", None), torch.Tensor
    ):
        return f"torch.Tensor.{func.__name__}"
    if isinstance(func, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return canonical_name(func)
    try:
        name = resolve_name(func)
    except TypeError:  # a callable that can't be hashed (numpy's poly1d)
        return None
    if isinstance(name, str):
        name = name.replace("torch._C._nn.", "torch.nn.functional.").replace("torch._VariableFunctions", "torch")
        return name.replace("torch.functional.", "torch.")
    module, own = getattr(func, "__module__", None) or "", getattr(func, "__name__", None)
    if own is None:
        return None
    owner = getattr(func, "__objclass__", None)
    if owner is not None and issubclass(owner, torch._C.TensorBase):
        return f"torch.Tensor.{own}"
    if isinstance(func, types.BuiltinFunctionType):
        if getattr(torch, own, None) is func:
            return f"torch.{own}"
        if getattr(torch._C._nn, own, None) is func:
            return f"torch.nn.functional.{own}"
    if module.startswith("torch.nn.functional"):
        return f"torch.nn.functional.{own}"
    if is_torch_module(module):
        return f"{module}.{getattr(func, '__qualname__', own)}"
    return None


class Abstractor:
    """Turns live values into IR values, each object once."""

    def __init__(self, recording: Recording) -> None:
        self._paths: dict[int, str] = {}
        for path, module in recording.model.named_modules():
            self._paths.setdefault(id(module), path)
        self._tensors = dict(recording.fake_of)
        for name, tensor in [*recording.model.named_parameters(), *recording.model.named_buffers()]:
            self._tensors.setdefault(id(tensor), name)
        self._memo: dict[int, ir.Value] = {}
        self._alive: list[Any] = []
        self.config_classes: dict[str, type] = {}
        """Classes of the config objects met."""

    def path(self, module: torch.nn.Module) -> str | None:
        """Dotted name of a module of the model; None for others."""
        return self._paths.get(id(module))

    def __call__(self, value: Any) -> ir.Value:
        """The IR value; never compares recorded values, which could run torch."""
        if type(value) in _EXACT_LITERALS:
            return ir.Literal(value)
        if (memo := self._memo.get(id(value))) is not None:
            return memo
        result = self._make(value)
        if not isinstance(value, list | dict | set):
            self._memo[id(value)] = result
            self._alive.append(value)
        return result

    def _make(self, value: Any) -> ir.Value:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, torch.dtype):
            return ir.DType(str(value).removeprefix("torch."))
        if isinstance(value, torch.nn.Module):
            return ir.ModuleValue(module_class(value), self._paths.get(id(value)))
        if isinstance(value, type):
            return ir.ClassValue(canonical_class(value), issubclass(value, torch.nn.Module))
        if isinstance(value, functools.partial):
            keywords = tuple((k, self(v)) for k, v in value.keywords.items())
            return ir.PartialValue(self(value.func), tuple(map(self, value.args)), keywords)
        if isinstance(value, types.ModuleType):
            return ir.PackageValue(value.__name__)
        if isinstance(value, tuple | list | set | frozenset | range | slice):
            return self._sequence(value)
        if isinstance(value, np.generic):
            return ir.Literal(value.item())
        if isinstance(value, enum.Enum):
            return ir.ObjectValue(canonical_class(type(value)), id(value), "enum", (("name", ir.Literal(value.name)),))
        if isinstance(value, torch.device):
            return ir.ObjectValue("torch.device", id(value), "device")
        if isinstance(
            value, (torch.memory_format, torch.layout)
        ):  # where and how a tensor lies means nothing in the port
            return ir.ObjectValue(f"torch.{type(value).__name__}", id(value), "device")
        if isinstance(value, torch.Generator):
            return ir.ObjectValue("torch.Generator", id(value), "generator")
        if isinstance(value, Mapping) and type(value).__module__ in ("builtins", "collections"):
            return self._mapping(value)
        if callable(value) and (function := self._function(value)) is not None:
            return function
        if isinstance(value, int | float | str) and not isinstance(value, enum.Enum):
            base = next(t for t in (bool, int, float, str) if isinstance(value, t))
            return ir.Literal(base(value))
        return self._object(value)

    def _tensor(self, tensor: torch.Tensor) -> ir.TensorValue:
        try:
            storage = tensor.untyped_storage()._cdata
        except (RuntimeError, NotImplementedError):
            storage = 0
        dtype = str(tensor.dtype).removeprefix("torch.")
        return ir.TensorValue(tuple(map(int, tensor.shape)), dtype, id(tensor), storage, self._tensors.get(id(tensor)))

    def _sequence(self, value: Any) -> ir.Value:
        if not isinstance(value, range | slice) and len(value) > _LARGE:
            return ir.ObjectValue(canonical_class(type(value)), id(value))
        if isinstance(value, range | slice):
            return ir.Literal(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            fields = tuple((name, self(item)) for name, item in zip(value._fields, value, strict=True))
            return ir.ObjectValue(canonical_class(type(value)), id(value), "output", fields)
        kind = "list" if isinstance(value, list) else "set" if isinstance(value, set | frozenset) else "tuple"
        ordered = sorted(value, key=lambda item: (type(item).__name__, repr(item))) if kind == "set" else value
        items = tuple(map(self, ordered))
        if kind != "set" and all(isinstance(item, ir.Literal) for item in items):
            plain = [item.value for item in items]  # type: ignore[union-attr]
            return ir.Literal(plain if kind == "list" else tuple(plain))
        return ir.SequenceValue(kind, items)

    def _mapping(self, value: Mapping[Any, Any]) -> ir.Value:
        if len(value) > _LARGE or not all(type(key) in _EXACT_LITERALS for key in value):
            return ir.ObjectValue(canonical_class(type(value)), id(value))
        items = tuple((key, self(item)) for key, item in value.items())
        if all(isinstance(item, ir.Literal) for _, item in items):
            return ir.Literal({key: item.value for key, item in items})  # type: ignore[union-attr]
        return ir.DictValue(items)

    def _function(self, value: Any) -> ir.Value | None:
        owner = getattr(value, "__self__", None)
        if isinstance(value, np.ufunc | type(np.triu)):
            return ir.FunctionValue(f"numpy.{value.__name__}")
        if isinstance(owner, type) and issubclass(owner, torch.autograd.Function) and value.__name__ == "apply":
            return ir.FunctionValue(f"{canonical_class(owner)}.apply")
        if isinstance(owner, torch.nn.Module) and isinstance(value, types.MethodType):
            inner = value.__func__
            torch_own = is_torch_module(inner.__module__)
            if isinstance(inner, types.FunctionType) and not torch_own:
                name = function_key(inner)
            else:
                name = f"{canonical_class(torch.nn.Module)}.{inner.__name__}"
            module = ir.ModuleValue(canonical_class(type(owner)), self._paths.get(id(owner)))
            return ir.FunctionValue(name, torch_own, module)
        if isinstance(value, types.MethodType) and isinstance(value.__func__, types.FunctionType):
            if isinstance(owner, torch.Tensor) and is_torch_module(value.__func__.__module__):
                return ir.FunctionValue(f"torch.Tensor.{value.__name__}", torch=True)  # split, norm: written in Python
            return ir.FunctionValue(function_key(value.__func__), is_torch_module(value.__func__.__module__))
        if (api := api_name(value)) is not None and not isinstance(value, type):
            return ir.FunctionValue(api, torch=True)
        if isinstance(value, types.FunctionType):
            return ir.FunctionValue(function_key(value))
        if isinstance(value, types.BuiltinFunctionType | types.MethodDescriptorType | types.WrapperDescriptorType):
            prefix = "builtins" if isinstance(owner, types.ModuleType | None) else type(owner).__name__
            prefix = canonical_class(owner) if isinstance(owner, type) else prefix
            module_name = getattr(value, "__module__", None)
            return ir.FunctionValue(f"{module_name or prefix}.{value.__name__}")
        return None

    def _computed(self, value: Any, names: Collection[str]) -> tuple[tuple[str, ir.Value], ...]:
        """The literals of a configuration beside its fields: properties, and what ``__post_init__`` set."""
        held = getattr(value, "__dict__", {}).items()
        found = [(k, ir.Literal(v)) for k, v in held if k not in names and not k.startswith("_") and _is_literal(v)]
        for name in _property_names(type(value)):
            found += [(name, ir.Literal(item)) for item in _read(value, name) if _is_literal(item)]
        return tuple(found)

    def _object(self, value: Any) -> ir.ObjectValue:
        name = canonical_class(type(value))
        held = getattr(value, "__dict__", None)
        if dataclasses.is_dataclass(value) or _is_model_output(value):
            names = list(value) if isinstance(value, Mapping) else [f.name for f in dataclasses.fields(value)]
            fields = tuple((n, self(item)) for n in names for item in _read(value, n))
            if any(ir.holds_tensor(item) for _, item in fields):
                return ir.ObjectValue(name, id(value), "output", fields)
            self.config_classes[name] = type(value)
            return ir.ObjectValue(name, id(value), "config", (*fields, *self._computed(value, names)))
        if isinstance(held, dict) and not is_torch_module(type(value).__module__):
            plain = ((k, v) for k, v in held.items() if isinstance(k, str))
            fields = tuple((k, ir.Literal(v)) for k, v in plain if _is_literal(v))
            self.config_classes[name] = type(value)
            return ir.ObjectValue(name, id(value), "config" if fields else "opaque", fields)
        return ir.ObjectValue(name, id(value))


def _read(value: Any, name: str) -> list[Any]:
    """The attribute; nothing where it isn't there, or refuses to be read (one that does not hold for this object)."""
    try:
        return [getattr(value, name)]
    except Exception:
        return []


def _property_names(cls: type) -> list[str]:
    """Names of the properties that a class defines itself."""
    return [name for name, member in vars(cls).items() if isinstance(member, property)]


def _is_model_output(value: Any) -> bool:
    return isinstance(value, dict) and dataclasses.is_dataclass(value)


def _is_literal(value: Any, depth: int = 0) -> bool:
    if type(value) in _EXACT_LITERALS:
        return True
    if depth < 3 and type(value) in (list, tuple):
        return all(_is_literal(item, depth + 1) for item in value)
    if depth < 3 and type(value) is dict:
        return all(_is_literal(k, 3) and _is_literal(v, depth + 1) for k, v in value.items())
    return False
