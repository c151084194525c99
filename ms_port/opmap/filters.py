"""Functions that templates may call (op_maps/README.md lists them)."""

from __future__ import annotations

import ast
import math

from ms_port.opmap.errors import UnknownValue
from ms_port.opmap.slot import Slot, Unknown


def value(argument: object) -> object:
    """The literal value of a parameter."""
    return argument.value() if isinstance(argument, Slot) else argument


def literal(argument: object) -> str:
    """Python source of a value: strings quoted, ``float("inf")`` spelt out, lists, tuples and dicts through."""
    return source_of(value(argument))


def source_of(item: object) -> str:
    """Source text that evaluates to a plain value. Raises UnknownValue for what has none."""
    if isinstance(item, float) and not math.isfinite(item):
        return f'float("{item}")'
    if isinstance(item, (tuple, list)):
        inner = ", ".join(map(source_of, item))
        if isinstance(item, list):
            return f"[{inner}]"
        return f"({inner},)" if len(item) == 1 else f"({inner})"
    if isinstance(item, dict):
        return "{" + ", ".join(f"{source_of(key)}: {source_of(held)}" for key, held in item.items()) + "}"
    if item is None or isinstance(item, (bool, int, float, str, complex)) or item is Ellipsis:
        return repr(item)
    raise UnknownValue(f"{type(item).__name__} is no literal")


def complement(argument: object) -> str:
    """``1 - x``: a literal where x is one, otherwise symbolic."""
    if isinstance(argument, Slot) and not argument.constant:
        return f"1 - {argument}"
    number = value(argument)
    if isinstance(number, (int, float)):
        return repr(round(1 - number, 12))
    raise UnknownValue("complement of no number")


def tuple_(argument: Slot) -> str:
    """``(x,)`` where the argument's value is one number, otherwise the argument as it is."""
    if argument.runs is None:
        raise UnknownValue(f"whether {argument.name!r} is a number or a tuple is not known")
    scalar = {isinstance(item, (int, float)) for item in argument.runs}
    if len(scalar) != 1:
        raise UnknownValue(f"{argument.name!r} is a number in some runs and a tuple in others")
    return f"({argument},)" if scalar.pop() else str(argument)


def kind(argument: Slot) -> str:
    """The type that the argument has in all runs (``int``, ``str``, ``tuple`` ...), ``mixed`` where it has several."""
    if argument.runs is None:
        raise UnknownValue(f"the kind of {argument.name!r} is not known")
    kinds = {type(item).__name__ for item in argument.runs}
    return kinds.pop() if len(kinds) == 1 else "mixed"


def repeat(argument: Slot, times: int) -> str:
    """``(x,) * times`` as a literal tuple where the value is known, for a scalar that stands for all dimensions."""
    item = argument.value() if argument.constant else None
    if isinstance(item, (int, float)):
        return source_of((item,) * times)
    if item is not None:
        return source_of(item)
    known = tuple_(argument)
    return f"({', '.join([str(argument)] * times)})" if known != str(argument) else known


def _is_mixed(argument: Slot) -> bool:
    """Whether the argument is a number in some runs and a sequence in the others."""
    return len({isinstance(item, (int, float)) for item in argument.runs or ()}) == 2


def each_twice(argument: Slot) -> str:
    """MindSpore's ``(top, bottom, left, right)`` for torch's ``(height, width)``; a number as it is.

    Where it is either, ``both_sides`` of op_maps/functions decides when the layer is made.
    """
    if argument.constant:
        item = argument.value()
        return source_of(tuple(p for p in item for _ in "ab") if isinstance(item, (tuple, list)) else item)
    node = argument.nodes[0] if len(argument.nodes) == 1 else None
    if isinstance(node, (ast.Tuple, ast.List)):
        return "(" + ", ".join(ast.unparse(item) for item in node.elts for _ in "ab") + ",)"
    if _is_mixed(argument):
        return f"both_sides({argument})"
    if tuple_(argument) != str(argument):
        return str(argument)
    sizes = {len(item) for item in argument.runs or () if isinstance(item, (tuple, list))}
    if len(sizes) != 1:
        raise UnknownValue(f"how many numbers {argument.name!r} holds is not known")
    return "(" + ", ".join(f"{argument}[{index}]" for index in range(sizes.pop()) for _ in "ab") + ",)"


def single(argument: Slot) -> str:
    """The number of a 1-d setting, which torch also takes as ``(x,)``."""
    if argument.constant:
        item = argument.value()
        return source_of(item[0] if isinstance(item, (tuple, list)) else item)
    return f"{argument}[0]" if tuple_(argument) == str(argument) else str(argument)


def as_list(argument: Slot) -> str:
    """The argument as a list: a generator becomes a comprehension, another iterable is wrapped."""
    node = argument.nodes[0] if len(argument.nodes) == 1 else None
    if isinstance(node, ast.GeneratorExp):
        return ast.unparse(ast.ListComp(node.elt, node.generators))
    kinds = {type(item).__name__ for item in argument.runs or ()}
    if isinstance(node, (ast.List, ast.ListComp)) or argument.list_valued or kinds == {"list"}:
        return str(argument)
    return f"list({argument})"


def no_list(argument: Slot) -> str:
    """The argument as a tuple where it is a list, which MindSpore's layers refuse."""
    kinds = {type(item).__name__ for item in argument.runs or ()}
    if "list" not in kinds:
        return str(argument)
    node = argument.nodes[0] if len(argument.nodes) == 1 else None
    if isinstance(node, ast.List):
        return ast.unparse(ast.Tuple(node.elts, ast.Load()))
    if isinstance(node, ast.ListComp):
        made = ast.Call(ast.Name("tuple", ast.Load()), [ast.GeneratorExp(node.elt, node.generators)], [])
        return ast.unparse(made)
    text = f"tuple({argument})"
    return text if kinds == {"list"} else f"{text} if isinstance({argument}, list) else {argument}"


def name(function: object) -> str:
    """The name of a function that a layer holds."""
    return str(getattr(function, "__name__", ""))


def isinstance_of(item: object, *names: str) -> bool:
    """``isinstance_of(dim, 'int')``: whether a value's type has one of the names (a bool is no int)."""
    if isinstance(item, Unknown):
        raise UnknownValue(f"the value of {item._name!r} is not known")
    return type(item).__name__ in names
