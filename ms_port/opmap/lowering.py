"""One call to its MindSpore form: pick the overload and the form, write the target."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal as OneOf

from ms_port.opmap.binding import make_slots, run_count, same_literal
from ms_port.opmap.calls import Argument, Call
from ms_port.opmap.errors import BindError, NoLowering, UnknownValue
from ms_port.opmap.rows import Entry, Form, Overload, Row
from ms_port.opmap.signature import MISSING, Bound, Parameter, bind, matches
from ms_port.opmap.slot import Slot
from ms_port.opmap.templates import fill, holds, render

IGNORED = frozenset({"inplace", "device", "memory_format", "non_blocking", "pin_memory", "layout", "generator"})
"""Parameters that mean nothing in the output: they may be given and stand in no target."""

Mode = OneOf["call", "value", "factory"]


@dataclass(frozen=True)
class Chosen:
    """The form taken for a call, and its arguments."""

    overload: Overload
    form: Form
    bound: Mapping[str, Bound]
    slots: Mapping[str, Slot]

    @property
    def parameters(self) -> dict[str, Parameter]:
        return {parameter.name: parameter for parameter in self.overload.signature}


def choose(row: Row, call: Call, partial: bool = False) -> Chosen:
    """The overload whose signature and type hints fit, then the form whose condition holds. Raises NoLowering."""
    candidates: list[tuple[Overload, dict[str, Bound], bool | None]] = []
    reasons: list[str] = []
    for overload in row.overloads:
        try:
            bound = bind(overload.signature, call, partial)
        except BindError as error:
            reasons.append(str(error))
            continue
        fits = matches(overload.signature, bound)
        if fits is not False and overload.when:
            truth = _truth(row, overload.when, make_slots(overload.signature, bound, call))
            fits = False if truth is False else (fits if truth else None)
        if fits is False:
            reasons.append(f"the arguments don't fit ({overload.text})")
            continue
        candidates.append((overload, bound, fits))
    if not candidates:
        raise NoLowering(row.api, "; ".join(dict.fromkeys(reasons)))
    overload, bound, fits = candidates[0]
    if fits is None and len(candidates) > 1:
        raise NoLowering(row.api, "which signature is meant depends on values that are not known")
    slots = make_slots(overload.signature, bound, call)
    return Chosen(overload, _form(row, overload, slots), bound, slots)


def _truth(row: Row, when: str, slots: Mapping[str, Slot]) -> bool | None:
    """A condition over all runs: true in all, false in all, or None (unknown, or runs disagree)."""
    try:
        seen = {holds(when, slots, run) for run in range(run_count(slots))}
    except UnknownValue:
        return None
    except ValueError as error:
        raise NoLowering(row.api, str(error)) from None
    return seen.pop() if len(seen) == 1 else None


def _form(row: Row, overload: Overload, slots: Mapping[str, Slot]) -> Form:
    for form in overload.forms:
        truth = True if form.when is None else _truth(row, form.when, slots)
        if truth:
            return form
        if truth is None:
            for other in overload.forms:
                if other.general:
                    return other
            raise NoLowering(row.api, f"whether {form.when!r} holds is not known or differs between runs")
    raise NoLowering(row.api, "no form fits these arguments")


def check_used(row: Row, chosen: Chosen) -> None:
    """Nothing that the source gives may be dropped silently. Raises NoLowering."""
    for parameter in chosen.overload.signature:
        name = parameter.name
        form = chosen.form
        used = name in form.mentions | form.ignored | chosen.overload.considered | IGNORED
        if name not in chosen.bound or used:
            continue
        slot = chosen.slots[name]
        runs = slot.runs
        default = parameter.default
        if runs is not None and default is not MISSING and all(same_literal(item, default) for item in runs):
            continue
        raise NoLowering(row.api, f"argument {name!r} has no MindSpore form")


def write(
    row: Row,
    chosen: Chosen,
    mode: Mode = "call",
    callee: ast.expr | None = None,
    carried: Mapping[str, str] | None = None,
) -> ast.expr:
    """The target's tree. ``callee`` replaces the class of a cell; ``carried``: what its value holds already."""
    form, slots = chosen.form, chosen.slots
    try:
        if form.kind == "drop":
            return copy.deepcopy(_first(chosen))
        if form.kind == "expression":
            return fill(render(form.target, slots), slots)
        if form.kind == "initializer":
            return _set_data(chosen)
        args, keywords = write_arguments(chosen, mode, carried or {})
        head: ast.expr
        if callee is not None:
            head = callee
        elif form.kind == "method":
            head = ast.Attribute(copy.deepcopy(_first(chosen)), form.target, ast.Load())
        else:
            head = fill(render(form.target, slots), slots)
        return ast.Call(head, args, keywords)
    except UnknownValue as error:
        raise NoLowering(row.api, str(error)) from None
    except ValueError as error:
        raise NoLowering(row.api, f"bad row: {error}") from None


def _first(chosen: Chosen) -> ast.expr:
    """The receiver, or the first argument."""
    if "self" in chosen.slots:
        return chosen.slots["self"].nodes[0]
    return chosen.slots[chosen.overload.signature[0].name].nodes[0]


def _set_data(chosen: Chosen) -> ast.expr:
    """``t.set_data(initializer(<it>, t.shape, t.dtype))``."""
    tensor = ast.unparse(_first(chosen))
    what = fill(render(chosen.form.target, chosen.slots), chosen.slots)
    if chosen.form.target.isidentifier():  # a class, with or without arguments
        assert isinstance(what, ast.Name)
        what = ast.Call(what, *write_arguments(chosen, "call", {}))
    tree = ast.parse(f"({tensor}).set_data(initializer(None, ({tensor}).shape, ({tensor}).dtype))", mode="eval").body
    assert isinstance(tree, ast.Call) and isinstance(tree.args[0], ast.Call)
    tree.args[0].args[0] = what
    return tree


def write_arguments(chosen: Chosen, mode: Mode, carried: Mapping[str, str]) -> tuple[list[ast.expr], list[ast.keyword]]:
    """Arguments in MindSpore's order. What the source gives is written; what it omits only where defaults differ."""
    args: list[ast.expr] = []
    keywords: list[ast.keyword] = []
    open_ = mode != "value"
    for entry in chosen.form.args:
        tree, positional = _entry(chosen, entry, mode)
        if tree is None or (not entry.mentions and carried.get(entry.name) == ast.unparse(tree)):
            open_ = False
        elif entry.positional:
            # A constant in front is carried by the class's value already.
            args += _splice(chosen, entry, tree) if entry.mentions or mode != "factory" else []
        elif open_ and positional and not entry.keyword:
            args.append(tree)
        else:
            open_ = False
            keywords.append(ast.keyword(entry.name, tree))
    return args, keywords


def _splice(chosen: Chosen, entry: Entry, tree: ast.expr) -> list[ast.expr]:
    """The trees of a ``*name`` entry: ``*sizes`` as the source wrote them."""
    if entry.parameter and _is_star(chosen, entry):
        filled = fill(f"f(*{chosen.slots[entry.parameter]})", chosen.slots)
        assert isinstance(filled, ast.Call)
        return filled.args
    return [tree]


def _entry(chosen: Chosen, entry: Entry, mode: Mode) -> tuple[ast.expr | None, bool]:
    """The tree of one argument (None: left out), and whether it may be positional."""
    slots, bound = chosen.slots, chosen.bound
    mentioned = [slots[name] for name in entry.mentions]
    given = not mentioned or any(slot.given for slot in mentioned)
    if not given:
        if mode == "factory" or any(not slot.nodes for slot in mentioned):
            return None, False
        if entry.parameter and same_default(slots[entry.parameter], entry.default):
            return None, False
    elif mode == "value" and mentioned and any(not slot.nodes for slot in mentioned):
        raise UnknownValue(f"{entry.name!r} depends on an argument that is not given here")
    text = str(slots[entry.parameter]) if entry.parameter else render(entry.template, slots)
    if not text:
        return None, False
    if _is_star(chosen, entry) and entry.positional:
        return ast.Constant(None), True
    tree = fill(text, slots)
    if not given and entry.default is not MISSING and _is_literal(tree, entry.default):
        return None, False
    positional = bool(mentioned) and all(
        name in bound and bound[name].positional for name in entry.mentions if name != "self"
    )
    return tree, given and positional


def _is_star(chosen: Chosen, entry: Entry) -> bool:
    parameter = chosen.parameters.get(entry.parameter or "")
    return parameter is not None and parameter.kind == "var"


def same_default(slot: Slot, default: object) -> bool:
    return default is not MISSING and slot.runs is not None and same_literal(slot.runs[0], default)


def _is_literal(tree: ast.expr, default: object) -> bool:
    """Whether a rendered tree is a literal equal to MindSpore's default."""
    try:
        return same_literal(ast.literal_eval(tree), default)
    except (ValueError, TypeError, SyntaxError):
        return False


def as_first_argument(call: Call, api: str) -> Call:
    """A method call as a function call."""
    assert call.receiver is not None
    return Call(api, (call.receiver, *call.args), call.keywords)


def as_receiver(call: Call, api: str) -> Call:
    """A function call as a method call: the first argument, or ``input``, is the receiver."""
    if call.args:
        return Call(api, call.args[1:], call.keywords, call.args[0])
    keywords = dict(call.keywords)
    receiver: Argument | None = keywords.pop("input", None)
    if receiver is None:
        raise NoLowering(call.api, "argument 'input' is missing")
    return Call(api, (), tuple(keywords.items()), receiver)
