"""Where a container takes up a value: ``c.append(x)``, ``c[k] = x``, ``c = [x]``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ms_port.ir.values import DictValue, ObjectValue, SequenceValue, TensorValue, Value

_ADDING = frozenset({"append", "appendleft", "extend", "insert", "update", "setdefault", "add"})


@dataclass(frozen=True, slots=True, eq=False)
class Put:
    """A container takes up values."""

    root: str
    """The name of the container, or ``self.name``."""
    values: tuple[ast.expr, ...]
    statement: ast.stmt
    call: ast.Call | None = None
    whole: bool = False
    """The value becomes the container: only what lies inside it is held."""


def puts(statement: ast.stmt) -> Iterator[Put]:
    """The containers that a plain statement fills."""
    if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
        for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
            root = root_of(target)
            if root is not None and not isinstance(target, ast.Tuple | ast.List):
                yield Put(root, (statement.value,), statement, whole=isinstance(target, ast.Name))
    elif isinstance(statement, ast.AugAssign) and (root := root_of(statement.target)) is not None:
        yield Put(root, (statement.value,), statement, whole=True)
    for call in ast.walk(statement):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _ADDING:
            root = root_of(call.func.value)
            if root is not None:
                yield Put(root, (*call.args, *(k.value for k in call.keywords)), statement, call)


def root_of(node: ast.expr) -> str | None:
    """``c`` for ``c["a"][0]``, ``self.c`` for ``self.c[0]``; None where it is no name."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return f"self.{node.attr}"
        node = node.value
    return node.id if isinstance(node, ast.Name) and node.id != "self" else None


def tensors_in(value: Value, inside: bool = False) -> Iterator[TensorValue]:
    """The tensors of a value; ``inside``: not the value itself."""
    match value:
        case TensorValue() if not inside:
            yield value
        case SequenceValue(items=items):
            for item in items:
                yield from tensors_in(item)
        case DictValue(items=pairs):
            for _, item in pairs:
                yield from tensors_in(item)
        case ObjectValue(fields=fields):
            for _, item in fields:
                yield from tensors_in(item)


def meet(held: Sequence[frozenset[int]], written: Sequence[frozenset[int]]) -> bool:
    """Whether a write meets what is held; both by evaluation, which are the same runs where they are as many."""
    if len(held) == len(written):
        return any(a & b for a, b in zip(held, written, strict=True))
    return bool(frozenset().union(*held) & frozenset().union(*written))


def only_holds(statement: ast.stmt, name: str) -> bool:
    """Whether a plain statement uses the name for nothing but to put it into a container."""
    allowed: set[int] = set()

    def allow(node: ast.expr) -> None:
        match node:
            case ast.Name():
                allowed.add(id(node))
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    allow(part)
            case ast.Dict(values=parts):
                for part in parts:
                    allow(part)

    match statement:
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()], value=value):
            allow(value)
        case ast.Assign(targets=[ast.Name()], value=ast.Tuple() | ast.List() | ast.Dict() as value):
            allow(value)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=attr), args=args, keywords=[])) if attr in _ADDING:
            for argument in args:
                allow(argument)
        case ast.AugAssign(value=ast.Tuple() | ast.List() as value):
            allow(value)
    uses = [n for n in ast.walk(statement) if isinstance(n, ast.Name) and n.id == name]
    return bool(uses) and all(id(n) in allowed for n in uses)
