"""torch signatures as written in rows, and the binding of a call's arguments to them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING
from typing import Literal as OneOf

from ms_port.ir.values import ClassValue, DType, FunctionValue, Literal, SequenceValue, TensorValue, Value
from ms_port.opmap.errors import BindError

if TYPE_CHECKING:
    from ms_port.opmap.calls import Argument, Call

Kind = OneOf["positional", "keyword", "var", "keywords"]


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()
"""Stands for "no default"."""


@dataclass(frozen=True)
class Parameter:
    """One parameter; ``default`` is a Python value or MISSING; ``hints`` are the names of the allowed types."""

    name: str
    kind: Kind
    default: object = MISSING
    hints: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bound:
    """What a parameter got: one argument, for ``*sizes`` and ``**rest`` any; ``positional``: how it was passed."""

    arguments: tuple[Argument, ...]
    positional: bool
    names: tuple[str, ...] = ()
    """Of ``**rest``: the keyword of each argument."""


@cache
def parse_signature(text: str) -> tuple[Parameter, ...]:
    """Parse ``input, dim: int, *sizes, dtype: DType=None``. Raises ValueError with the reason."""
    try:
        node = ast.parse(f"def f({text}): pass").body[0]
    except SyntaxError as error:
        raise ValueError(f"signature {text!r}: {error.msg}") from None
    assert isinstance(node, ast.FunctionDef)
    spec = node.args
    positional = [*spec.posonlyargs, *spec.args]
    defaults = [None] * (len(positional) - len(spec.defaults)) + list(spec.defaults)
    parameters = [_parameter(a, "positional", d) for a, d in zip(positional, defaults, strict=True)]
    if spec.vararg:
        parameters.append(_parameter(spec.vararg, "var", None))
    parameters += [_parameter(a, "keyword", d) for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True)]
    if spec.kwarg:
        parameters.append(_parameter(spec.kwarg, "keywords", None))
    return tuple(parameters)


def _parameter(argument: ast.arg, kind: Kind, default: ast.expr | None) -> Parameter:
    hints = tuple(part.strip() for part in ast.unparse(argument.annotation).split("|")) if argument.annotation else ()
    for hint in hints:
        if hint not in HINTS:
            raise ValueError(f"unknown type hint {hint!r} of {argument.arg}; known: {', '.join(HINTS)}")
    return Parameter(argument.arg, kind, MISSING if default is None else _default(default), hints)


def _default(node: ast.expr) -> object:
    """A default's value; ``inf`` may be written by name."""
    if isinstance(node, ast.Name) and node.id == "inf":
        return float("inf")
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Name):
        return -float(node.operand.id)
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ValueError(f"default {ast.unparse(node)!r} is no literal") from None


NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}
"""Names by which torch's functions take arguments as well, for the sake of code that was written for numpy."""


def bind(signature: tuple[Parameter, ...], call: Call, partial: bool = False) -> dict[str, Bound]:
    """Arguments by parameter name. With ``partial`` required parameters may be missing. Raises BindError."""
    bound: dict[str, Bound] = {}
    rest = list(call.args)
    for parameter in signature:
        if parameter.kind == "var":
            if rest:
                bound[parameter.name] = Bound(tuple(rest), True)
            rest = []
        elif parameter.kind == "positional" and rest:
            if isinstance(rest[0].expression, ast.Starred):
                raise BindError(f"starred argument at {parameter.name!r}")
            bound[parameter.name] = Bound((rest.pop(0),), True)
    if rest:
        raise BindError(f"{len(rest)} positional arguments too many")
    names = {p.name: p for p in signature}
    for given, argument in call.keywords:
        alias = NUMPY_NAMES.get(given)
        name = alias if alias in names and given not in names else given
        if name in bound:
            raise BindError(f"two values for {name!r}")
        if name not in names or names[name].kind == "keywords":
            rest_name = next((p.name for p in signature if p.kind == "keywords"), None)
            if rest_name is None:
                raise BindError(f"no parameter {name!r}")
            taken = bound.get(rest_name, Bound((), False))
            bound[rest_name] = Bound((*taken.arguments, argument), False, (*taken.names, name))
            continue
        bound[name] = Bound((argument,), False)
    for parameter in signature:
        required = parameter.default is MISSING and parameter.kind in ("positional", "keyword")
        if required and parameter.name not in bound and not partial:
            raise BindError(f"argument {parameter.name!r} is missing")
    return bound


def matches(signature: tuple[Parameter, ...], bound: Mapping[str, Bound]) -> bool | None:
    """Whether all values fit the type hints: yes, no, or None where it depends on a value that is not known."""
    sure: bool | None = True
    for parameter in signature:
        if not parameter.hints or parameter.name not in bound:
            continue
        for argument in bound[parameter.name].arguments:
            values = argument_values(argument)
            if values is None:
                sure = None
            elif not all(any(HINTS[hint](value) for hint in parameter.hints) for value in values):
                return False
    return sure


def argument_values(argument: Argument) -> tuple[Value, ...] | None:
    """The values of an argument; a literal expression has its value even where no run is known."""
    if argument.values is not None:
        return argument.values or None
    try:
        return (Literal(ast.literal_eval(argument.expression)),)
    except (ValueError, TypeError, SyntaxError):
        return None


def _literal(*types: type) -> Callable[[Value], bool]:
    return lambda value: isinstance(value, Literal) and type(value.value) in types


def _ints(value: Value) -> bool:
    return (
        isinstance(value, Literal)
        and isinstance(value.value, (tuple, list))
        and all(type(item) is int for item in value.value)
    )


def _sequence(value: Value) -> bool:
    return isinstance(value, SequenceValue) or (isinstance(value, Literal) and isinstance(value.value, (tuple, list)))


def _tensors(value: Value) -> bool:
    return isinstance(value, SequenceValue) and all(isinstance(item, TensorValue) for item in value.items)


HINTS: dict[str, Callable[[Value], bool]] = {
    "Tensor": lambda value: isinstance(value, TensorValue),
    "int": _literal(int),
    "float": _literal(float),
    "number": _literal(int, float, bool),
    "bool": _literal(bool),
    "str": _literal(str),
    "None": lambda value: isinstance(value, Literal) and value.value is None,
    "DType": lambda value: isinstance(value, DType),
    "ints": _ints,
    "sequence": _sequence,
    "tensors": _tensors,
    "slice": _literal(slice),
    "callable": lambda value: isinstance(value, (FunctionValue, ClassValue)),
}
"""Type hints of signatures: what each accepts. ``int | None`` combines."""
