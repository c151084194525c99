"""Jinja templates of rows: sandboxed, rendered with atomic placeholders so that precedence is never their matter."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, StrictUndefined, TemplateError, meta
from jinja2.environment import Template, TemplateExpression
from jinja2.sandbox import SandboxedEnvironment

from ms_port.opmap.calls import RANDOM_NAME
from ms_port.opmap.errors import UnknownValue
from ms_port.opmap.filters import (
    as_list,
    complement,
    each_twice,
    isinstance_of,
    kind,
    literal,
    name,
    no_list,
    repeat,
    single,
    tuple_,
    value,
)
from ms_port.opmap.slot import Slot, StarSlot, Unknown

PLACEHOLDER = re.compile(r"__slot_(\w+?)__\b")


def _environment() -> SandboxedEnvironment:
    environment = SandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
    helpers: tuple[Callable[..., object], ...] = (
        value,
        kind,
        complement,
        tuple_,
        repeat,
        each_twice,
        single,
        as_list,
        no_list,
        name,
    )
    for function in helpers:
        environment.filters[function.__name__] = environment.globals[function.__name__] = function
    environment.filters["repr"] = environment.globals["repr"] = literal
    builtins: tuple[Callable[..., object], ...] = (
        min,
        max,
        len,
        abs,
        tuple,
        list,
        all,
        any,
        sorted,
        int,
        float,
        round,
        sum,
        isinstance_of,
    )
    for function in builtins:
        environment.globals[function.__name__] = function
    tests: dict[str, Any] = environment.tests
    environment.tests = {name: _guarded(test) for name, test in tests.items()}
    return environment


def _guarded(test: Callable[..., Any]) -> Callable[..., Any]:
    """A Jinja test that refuses to look at an unknown value."""
    if getattr(test, "jinja_pass_arg", None) is not None:
        return test

    def guarded(item: object, *args: object) -> Any:
        if isinstance(item, Unknown):
            raise UnknownValue(f"the value of {item._name!r} is not known")
        return test(item, *args)

    return guarded


ENVIRONMENT: Environment = _environment()
_SELF = re.compile(r"\bself\b")


def _rename(text: str) -> str:
    """``self`` means something in Jinja; templates see the receiver under another name."""
    return _SELF.sub("self_", text)


@cache
def compile_template(text: str) -> Template:
    """Compile once. Raises ValueError with the reason."""
    try:
        return ENVIRONMENT.from_string(_rename(text))
    except TemplateError as error:
        raise ValueError(f"template {text!r}: {error}") from None


@cache
def compile_condition(text: str) -> TemplateExpression:
    """Compile a ``when`` once. Raises ValueError with the reason."""
    try:
        return ENVIRONMENT.compile_expression(_rename(text), undefined_to_none=False)
    except TemplateError as error:
        raise ValueError(f"condition {text!r}: {error}") from None


_REGION = re.compile(r"\{[{%](.*?)[%}]\}", re.S)
_GIVEN = re.compile(r"""(?:given|computed)\(\s*['"](\w+)['"]\s*\)""")
_STRING = re.compile(r"""'[^']*'|"[^"]*\"""")
_NAME = re.compile(r"(?<![\w.])(?<!\|)(?<!\| )([A-Za-z_]\w*)")


@cache
def names_in(text: str, condition: bool = False) -> frozenset[str]:
    """Words that a template or condition uses as names (and some that it doesn't); ``given('dim')`` counts as ``dim``.

    Found without parsing, since a row is read whenever it is used; ``undeclared`` is exact.
    """
    if not condition and "{" not in text:
        return frozenset()
    source = text if condition else " ".join(_REGION.findall(text))
    return frozenset(_GIVEN.findall(source)) | frozenset(_NAME.findall(_STRING.sub("''", source)))


def undeclared(text: str, condition: bool = False) -> frozenset[str]:
    """Names that a template or condition needs, by Jinja's own parser. Raises ValueError."""
    source = "{{ " + text + " }}" if condition else text
    try:
        names = meta.find_undeclared_variables(ENVIRONMENT.parse(_rename(source)))
    except TemplateError as error:
        raise ValueError(f"{text!r}: {error}") from None
    own = {"self" if name == "self_" else name for name in names} - set(ENVIRONMENT.globals)
    return frozenset(own | set(_GIVEN.findall(source))) - {"given", "computed", "rand"}


def context(slots: Mapping[str, Slot]) -> dict[str, object]:
    """What a template sees."""
    names: dict[str, object] = {("self_" if name == "self" else name): slot for name, slot in slots.items()}
    return {**names, "given": lambda name: slots[name].given, "rand": RANDOM_NAME}


def render(text: str, slots: Mapping[str, Slot]) -> str:
    """Render a template; parameters are placeholders. Raises UnknownValue, ValueError."""
    if "{" not in text:
        return text
    try:
        return compile_template(text).render(context(slots)).strip()
    except TemplateError as error:
        raise ValueError(f"template {text!r}: {error}") from None


def holds(text: str, slots: Mapping[str, Slot], run: int) -> bool | None:
    """A condition's truth in one run; None where it needs a value that is not known. Raises ValueError."""
    names = {("self_" if name == "self" else name): slot.at(run) for name, slot in slots.items()}
    try:
        asked = {"given": lambda name: slots[name].given, "computed": lambda name: slots[name].computed}
        return bool(compile_condition(text)(**names, **asked))
    except UnknownValue:
        return None
    except (TemplateError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"condition {text!r}: {error}") from None


class _Fill(ast.NodeTransformer):
    """Puts the arguments' trees where their placeholders stand."""

    def __init__(self, slots: Mapping[str, Slot]) -> None:
        self.slots = slots

    def visit_Name(self, node: ast.Name) -> ast.expr:
        found = PLACEHOLDER.fullmatch(node.id)
        if not found:
            return node
        slot = self.slots[found[1]]
        if not slot.nodes:
            raise UnknownValue(f"{slot.name!r} was not given or can't be written as one tuple")
        return copy.deepcopy(slot.nodes[0])

    def visit_Starred(self, node: ast.Starred) -> Any:
        """``*{{ sizes }}``: what the source wrote, spliced."""
        found = PLACEHOLDER.fullmatch(node.value.id) if isinstance(node.value, ast.Name) else None
        if found and isinstance(self.slots[found[1]], StarSlot):
            slot = self.slots[found[1]]
            assert isinstance(slot, StarSlot)
            return copy.deepcopy(list(slot.spliced))
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, str) and PLACEHOLDER.search(node.value):
            raise ValueError("a parameter inside a string literal: use repr(...)")
        return node


def fill(text: str, slots: Mapping[str, Slot]) -> ast.expr:
    """Parse rendered text and substitute the placeholders. Raises ValueError."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"not an expression: {text!r}: {error.msg}") from None
    result = _Fill(slots).visit(tree)
    assert isinstance(result, ast.expr)
    return result
