"""What templates and conditions see of an argument: a placeholder for its source, and its values."""

from __future__ import annotations

import ast
import math
from typing import Any

from ms_port.ir.values import DType, Literal, SequenceValue, TensorValue, Value
from ms_port.opmap.errors import UnknownValue


class Unknown:
    """The value of an argument whose value is not known: whatever looks at it raises UnknownValue."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _raise(self, *_: object) -> Any:
        raise UnknownValue(f"the value of {self._name!r} is not known")

    __bool__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __len__ = __iter__ = __contains__ = _raise
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __getitem__ = __str__ = __neg__ = _raise
    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._raise()


class Shaped:
    """A tensor's value as conditions see it: ``shape``, ``ndim``, ``dtype`` (by name), ``numel``."""

    def __init__(self, tensor: TensorValue) -> None:
        self.shape, self.ndim, self.dtype = tensor.shape, tensor.ndim, tensor.dtype
        self.numel = math.prod(tensor.shape)
        self.is_float = tensor.dtype.startswith(("float", "bfloat"))
        self.is_complex = tensor.dtype.startswith("complex")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shaped) and (self.shape, self.dtype) == (other.shape, other.dtype)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))


def plain(value: Value) -> object:
    """A value as conditions and templates see it."""
    match value:
        case Literal(value=inner):
            return inner
        case DType(name=name):
            return name
        case TensorValue():
            return Shaped(value)
        case SequenceValue(items=items):
            return tuple(map(plain, items))
    return value


class Slot:
    """A parameter inside a template: prints as an atomic placeholder, and knows the argument's values.

    ``runs`` are its plain values, one per run (None: unknown).
    """

    def __init__(self, name: str, given: bool, nodes: tuple[ast.expr, ...], runs: tuple[object, ...] | None) -> None:
        self.name, self.given, self.nodes, self.runs = name, given, nodes, runs
        self.list_valued = False
        """Whether the value is a list in every run (``runs`` holds tuples for what holds no literals)."""

    def __str__(self) -> str:
        return f"__slot_{self.name}__"

    @property
    def computed(self) -> bool:
        """Whether the source gives more than a literal: what was one value here may be another elsewhere."""
        return any(not isinstance(node, ast.Constant) for node in self.nodes)

    def at(self, run: int) -> object:
        """The value in one run, or Unknown."""
        if self.runs is None:
            return Unknown(self.name)
        return self.runs[run] if len(self.runs) > 1 else self.runs[0]

    def value(self) -> object:
        """The one value of all runs; raises UnknownValue."""
        if not self.runs:
            raise UnknownValue(f"the value of {self.name!r} is not known")
        first = self.runs[0]
        if any(type(other) is not type(first) or repr_key(other) != repr_key(first) for other in self.runs[1:]):
            raise UnknownValue(f"{self.name!r} differs between the runs of this call")
        return first

    @property
    def constant(self) -> bool:
        """Whether the argument is written as a literal (a default is one)."""
        if len(self.nodes) != 1:
            return False
        try:
            ast.literal_eval(self.nodes[0])
        except (ValueError, TypeError, SyntaxError):
            return False
        return True


class StarSlot(Slot):
    """``*sizes``: one expression (``whole``; None where it can't be told), or starred what the source wrote."""

    def __init__(
        self, name: str, spliced: tuple[ast.expr, ...], runs: tuple[object, ...] | None, whole: ast.expr | None
    ) -> None:
        super().__init__(name, bool(spliced), () if whole is None else (whole,), runs)
        self.spliced = spliced


def repr_key(value: object) -> object:
    """What equality of values means between runs."""
    return value if isinstance(value, Shaped) else repr(value)
