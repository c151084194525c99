"""Rows of an op map, as parsed: plain frozen data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ms_port.opmap.signature import MISSING, Parameter

TargetKind = Literal["function", "method", "cell", "expression", "initializer", "drop"]


@dataclass(frozen=True)
class RowText:
    """A row not yet parsed."""

    api: str
    file: Path
    line: int
    text: str


@dataclass(frozen=True)
class Entry:
    """One MindSpore argument of a form: its name and where it comes from.

    ``parameter`` names the torch parameter passed through; else ``template`` is rendered. ``mentions`` are the torch
    parameters used (none: a constant, always written). ``default`` is MindSpore's default or MISSING. ``positional``:
    always written by position (``*name`` in YAML); ``keyword``: always by keyword.
    """

    name: str
    template: str
    parameter: str | None
    mentions: frozenset[str]
    default: object = MISSING
    positional: bool = False
    keyword: bool = False


@dataclass(frozen=True)
class WeightRule:
    """How a tensor of a layer is carried over: torch name (patterns allowed), MindSpore name (None: dropped), rule."""

    torch: str
    mindspore: str | None
    rule: str = "same"


@dataclass(frozen=True)
class Form:
    """One MindSpore form of a call: the base form or a variant with its condition ``when``."""

    kind: TargetKind
    target: str
    args: tuple[Entry, ...]
    mentions: frozenset[str]
    when: str | None = None
    general: bool = False
    random: str | None = None
    host: str | None = None
    differs: str | None = None
    flag: str | None = None
    weights: tuple[WeightRule, ...] | None = None
    attributes: Mapping[str, str] | None = None
    forward: str | None = None
    ignored: frozenset[str] = frozenset()
    """Parameters that mean nothing where a variant's condition holds."""


@dataclass(frozen=True)
class Overload:
    """One signature with its forms, in the order in which they are tried."""

    text: str
    signature: tuple[Parameter, ...]
    forms: tuple[Form, ...]
    when: str | None = None
    considered: frozenset[str] = frozenset()
    """Parameters that some condition looks at, or that are ignored on purpose."""


@dataclass(frozen=True)
class Example:
    """A torch expression, the MindSpore text expected, and what the test needs to run both."""

    torch: str
    mindspore: str
    inputs: Mapping[str, str]
    call: str | None = None
    train: bool = False
    gradient: bool = True
    check: str = "values"
    """``values``, or for random draws ``shape``, or ``distribution`` (a Kolmogorov-Smirnov test)."""
    untested: str | None = None
    """Why the values can't be run (the text still is compared)."""


@dataclass(frozen=True)
class Row:
    """What the op map says about one torch API."""

    api: str
    file: Path
    line: int
    overloads: tuple[Overload, ...]
    same_as: str | None = None
    weights: tuple[WeightRule, ...] = ()
    attributes: Mapping[str, str] | None = None
    instance: Mapping[str, str] | None = None
    """Constructor parameter -> expression over a layer's attributes, where they are not of the same name."""
    forward: str | None = None
    batch_ndim: int | None = None
    """Dimensions of the layer's input where it has a batch, if its MindSpore form can't do without one."""
    batch_call: str | None = None
    """Function of the layer and its inputs that adds the batch and takes it away (else done in place)."""
    items: str | None = None
    """Attribute through which construct indexes and iterates the cell (``self.weights.values[0]``)."""
    host: str | None = None
    value: str | None = None
    """What stands for the function where it is used as a value."""
    differs: str | None = None
    flag: str | None = None
    why: str | None = None
    untested: str | None = None
    text: RowText | None = field(default=None, repr=False, compare=False)

    @property
    def examples(self) -> tuple[Example, ...]:
        """Its examples, parsed now. Raises OpMapError."""
        from ms_port.opmap.source import parse_examples  # which builds rows

        return () if self.text is None else parse_examples(self.text)

    def weight(self, name: str) -> WeightRule:
        """The rule for one torch tensor, patterns filled in: the first that fits. Raises KeyError."""
        for rule in self.weights:
            found = re.fullmatch(re.escape(rule.torch).replace(r"\*", "(.*)"), name)
            if found:
                target = rule.mindspore
                for part in found.groups():
                    target = target if target is None else target.replace("*", part, 1)
                return WeightRule(name, target, rule.rule)
        raise KeyError(name)

    @property
    def targets(self) -> tuple[str, ...]:
        """MindSpore functions or classes that its forms name, the base form's first."""
        forms = [form for overload in self.overloads for form in reversed(overload.forms)]
        return tuple(dict.fromkeys(form.target for form in forms if form.kind in ("cell", "function")))

    @property
    def cell(self) -> str | None:
        """The class of the base form of a layer."""
        bases = [overload.forms[-1] for overload in self.overloads]
        return next((form.target for form in bases if form.kind == "cell"), None)
