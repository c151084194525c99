"""What a configuration computes from its other fields, as far as the port has these fields."""

from __future__ import annotations

import ast
from collections.abc import Container, Mapping
from dataclasses import replace
from types import SimpleNamespace

from ms_port.capture.derived_fields import CALLED
from ms_port.ir.program import ConfigClass, Program
from ms_port.ir.values import Literal, Value
from ms_port.passes.decided import config_objects


def with_derived_fields(program: Program) -> dict[str, ConfigClass]:
    """The configuration classes, each with what it computes for fields of the port that are None by default."""
    none = {(o.cls, name) for o in config_objects(program) for name, v in o.fields if v == Literal(None)}
    return {
        name: _kept(known, program.configs.get(name, {}), {field for cls, field in none if cls == name})
        for name, known in program.config_classes.items()
    }


def _kept(known: ConfigClass, fields: Mapping[str, Value], none: Container[str]) -> ConfigClass:
    """``none``: fields that were None in some object all the same."""
    fitting = [
        (name, text)
        for name, text in known.derived
        if fields.get(name) == Literal(None)
        and name not in none
        and {n.attr for n in _attributes(text)} <= fields.keys()
    ]
    return replace(known, derived=tuple(fitting))


def _attributes(text: str) -> list[ast.Attribute]:
    return [n for n in ast.walk(ast.parse(text, mode="eval")) if isinstance(n, ast.Attribute)]


def computed_fields(
    known: ConfigClass | None, defaults: Mapping[str, Value], given: Mapping[str, Value]
) -> dict[str, Value]:
    """What the port's class computes itself for an object with the ``given`` fields."""
    found: dict[str, Value] = {}
    if known is None or not known.derived:
        return found
    fields = {name: given.get(name, default) for name, default in defaults.items()}
    plain = SimpleNamespace(**{name: v.value for name, v in fields.items() if isinstance(v, Literal)})
    for name, _ in known.derived:
        setattr(plain, name, None)
    for name, text in known.derived:
        try:
            value = eval(text, {"__builtins__": {}, **CALLED}, {"self": plain})
        except (ArithmeticError, TypeError, ValueError, AttributeError):
            continue
        if Literal(value) == fields.get(name):
            found[name] = Literal(value)
        own = fields.get(name)
        setattr(plain, name, own.value if isinstance(own, Literal) else value)
    return found
