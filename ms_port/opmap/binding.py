"""From the bound arguments of a call to the slots that templates render."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace

from ms_port.ir.values import Literal, SequenceValue
from ms_port.opmap.calls import RESULT, Argument, Call
from ms_port.opmap.errors import UnknownValue
from ms_port.opmap.filters import source_of
from ms_port.opmap.signature import MISSING, Bound, Parameter, argument_values
from ms_port.opmap.slot import Slot, StarSlot, plain

REFUSE_INT = frozenset({"eps", "alpha", "init"})
"""Parameters for which MindSpore 2.10 refuses an int in a cell or operator (measured: norms, ELU, CELU, PReLU)."""


def make_slots(signature: tuple[Parameter, ...], bound: Mapping[str, Bound], call: Call) -> dict[str, Slot]:
    """One slot a parameter (``self``: the receiver; ``result``: what the call gave, without source).

    An omitted one holds its default, if it has one.
    """
    runs = None if not call.result else tuple(map(plain, call.result))
    slots: dict[str, Slot] = {RESULT: Slot(RESULT, False, (), runs)}
    if call.receiver is not None:
        slots["self"] = _given("self", call.receiver)
    for parameter in signature:
        got = bound.get(parameter.name)
        if parameter.kind == "var":
            slots[parameter.name] = _starred(parameter.name, got)
        elif parameter.kind == "keywords":
            slots[parameter.name] = _rest(parameter.name, got)
        elif got is not None:
            slots[parameter.name] = _given(parameter.name, _as_default(parameter, got.arguments[0]))
        elif parameter.default is not MISSING:
            slots[parameter.name] = Slot(parameter.name, False, (default_node(parameter),), (parameter.default,))
        else:
            slots[parameter.name] = Slot(parameter.name, False, (), None)
    return slots


def default_node(parameter: Parameter) -> ast.expr:
    """A default as source."""
    return ast.parse(source_of(parameter.default), mode="eval").body


def _as_default(parameter: Parameter, argument: Argument) -> Argument:
    """Whole numbers in the type of torch's default, float or bool: MindSpore refuses an int there.

    A truth value is a number too: ``nn.LeakyReLU(True)`` has a slope of 1.
    """
    values = argument_values(argument)
    kind = type(parameter.default)
    plain = [v.value for v in values or () if isinstance(v, Literal)]
    numbers = [v for v in plain if isinstance(v, int) and (kind is float or not isinstance(v, bool))]
    if kind not in (float, bool) or not numbers or len(numbers) != len(values or ()):
        return argument
    as_default = tuple(Literal(kind(number)) for number in numbers)
    if isinstance(argument.expression, ast.Constant):
        return replace(argument, expression=ast.Constant(kind(numbers[0])), values=as_default)
    if kind is float and parameter.name not in REFUSE_INT:
        return argument
    call = ast.Call(ast.Name(kind.__name__, ast.Load()), [argument.expression], [])
    return replace(argument, expression=call, values=as_default)


def _given(name: str, argument: Argument) -> Slot:
    values = argument_values(argument)
    slot = Slot(name, True, (argument.expression,), None if values is None else tuple(map(plain, values)))
    slot.list_valued = bool(values) and all(isinstance(v, SequenceValue) and v.kind == "list" for v in values or ())
    return slot


def _rest(name: str, got: Bound | None) -> Slot:
    """``**rest`` as one dict."""
    names, values = (got.names, got.arguments) if got is not None else ((), ())
    made = ast.Dict([ast.Constant(n) for n in names], [a.expression for a in values])
    return Slot(name, got is not None, (made,), None)


def _starred(name: str, got: Bound | None) -> StarSlot:
    """``*sizes`` takes numbers, or one sequence of them (by position, starred or by keyword)."""
    if got is None:
        return StarSlot(name, (), ((),), ast.Tuple([], ast.Load()))
    nodes = tuple(argument.expression for argument in got.arguments)
    runs = _star_runs(got.arguments)
    if len(nodes) != 1:
        return StarSlot(name, nodes, runs, ast.Tuple(list(nodes), ast.Load()))
    only, values = nodes[0], argument_values(got.arguments[0])
    if isinstance(only, ast.Starred):
        return StarSlot(name, nodes, runs, only.value)
    if values is None:
        known = isinstance(only, (ast.Tuple, ast.List))
        return StarSlot(name, nodes, None, only if known else None)
    sequence = all(_is_sequence(plain(value)) for value in values)
    return StarSlot(name, nodes, runs, only if sequence else ast.Tuple([only], ast.Load()))


def _star_runs(arguments: tuple[Argument, ...]) -> tuple[object, ...] | None:
    """The values of ``*sizes`` as one tuple a run."""
    columns = [argument_values(argument) for argument in arguments]
    if any(column is None for column in columns):
        return None
    length = max(len(column) for column in columns if column)
    runs = []
    for run in range(length):
        items: list[object] = []
        for argument, column in zip(arguments, columns, strict=True):
            assert column is not None
            item = plain(column[run if len(column) > 1 else 0])
            if isinstance(argument.expression, ast.Starred) or (len(arguments) == 1 and _is_sequence(item)):
                if not isinstance(item, (tuple, list)):
                    return None  # a generator, or a container of modules
                items.extend(item)
            else:
                items.append(item)
        runs.append(tuple(items))
    return tuple(runs)


def _is_sequence(item: object) -> bool:
    return isinstance(item, (tuple, list))


def run_count(slots: Mapping[str, Slot]) -> int:
    """In how many runs the call was seen. Raises UnknownValue if the arguments disagree."""
    counts = {len(s.runs) for s in slots.values() if (s.given or s.name == RESULT) and s.runs is not None} - {1}
    if len(counts) > 1:
        raise UnknownValue("arguments with different numbers of runs")
    return counts.pop() if counts else 1


def same_literal(one: object, other: object) -> bool:
    """Whether two defaults are the same value: lists and tuples alike, a bool is no number."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same_literal, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other
