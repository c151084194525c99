"""What the trace knows about a value, kept without the value: no torch object is held by the IR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class DType:
    """A tensor's element type by its common name: ``float32``, ``int64``, ``bool``."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A traced tensor: static shape, element type, identity of the tensor and of its storage in this trace."""

    shape: tuple[int, ...]
    dtype: str
    key: int = 0
    storage: int = 0
    parameter: str | None = None
    """Dotted name where the tensor is a parameter or buffer of the model."""

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class ModuleValue:
    """A module of the model (or one made and dropped while building: then ``path`` is None)."""

    cls: str
    path: str | None = None

    def __str__(self) -> str:
        return f"<{self.cls.rpartition('.')[2]} {self.path if self.path is not None else '(not kept)'}>"


@dataclass(frozen=True, slots=True)
class ClassValue:
    """A class used as a value; ``name`` is its canonical dotted name (``torch.nn.LayerNorm``)."""

    name: str
    is_module: bool = False

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class FunctionValue:
    """A function or method; ``name`` is a torch API (``torch.cat``, ``torch.Tensor.view``) or a user function's key."""

    name: str
    torch: bool = False
    owner: ModuleValue | None = None
    """The module a method is bound to."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class PartialValue:
    """``functools.partial``: what it wraps and the keywords it carries."""

    func: Value
    args: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class PackageValue:
    """An imported module such as ``math``."""

    name: str


@dataclass(frozen=True, slots=True)
class ObjectValue:
    """Anything else. ``fields`` holds the literal fields of config-like objects and the fields of output classes."""

    cls: str
    key: int = 0
    kind: str = "opaque"
    """``opaque``, ``config`` (its literal fields may be read), ``output`` (dataclass, NamedTuple, ModelOutput),
    ``enum``, ``device``, ``generator``."""
    fields: tuple[tuple[str, Value], ...] = ()

    def __str__(self) -> str:
        return f"<{self.cls.rpartition('.')[2]}>"


@dataclass(frozen=True, slots=True)
class SequenceValue:
    """A list, tuple or set that holds something else than literals."""

    kind: str
    items: tuple[Value, ...]

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(map(str, self.items))})"


@dataclass(frozen=True, slots=True)
class DictValue:
    """A dict that holds something else than literals, in its order; keys are literals."""

    items: tuple[tuple[object, Value], ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A Python value that can stand in source text: number, string, None, bool, Ellipsis, slice, or nesting of them."""

    value: object

    def __str__(self) -> str:
        return repr(self.value)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Literal)
            and type(self.value) is type(other.value)
            and repr(self.value) == repr(other.value)
        )

    def __hash__(self) -> int:
        return hash((type(self.value), repr(self.value)))


Value: TypeAlias = (
    Literal
    | DType
    | TensorValue
    | ModuleValue
    | ClassValue
    | FunctionValue
    | PartialValue
    | PackageValue
    | SequenceValue
    | DictValue
    | ObjectValue
)


def holds_tensor(value: Value) -> bool:
    """Whether a tensor stands anywhere in the value."""
    match value:
        case TensorValue():
            return True
        case SequenceValue(items=items):
            return any(map(holds_tensor, items))
        case DictValue(items=pairs):
            return any(holds_tensor(item) for _, item in pairs)
        case ObjectValue(kind="output", fields=fields):
            return any(holds_tensor(item) for _, item in fields)
    return False


def is_whole(value: Value) -> bool:
    """A literal of type int (a bool is none)."""
    return isinstance(value, Literal) and type(value.value) is int


def items_of(value: Value | None) -> tuple[Value, ...]:
    """The items of a tuple or list that was seen, as the values of ``*args``."""
    match value:
        case Literal(value=tuple(items)):
            return tuple(map(Literal, items))
        case SequenceValue(items=items):
            return items
    return ()


def entries_of(value: Value | None) -> dict[str, Value]:
    """The entries of a dict that was seen, as the values of ``**kwargs``."""
    match value:
        case Literal(value=dict(entries)):
            return {str(key): Literal(item) for key, item in entries.items()}
        case DictValue(items=pairs):
            return {str(key): item for key, item in pairs}
    return {}
