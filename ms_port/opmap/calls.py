"""A torch call as passes hand it over, and its MindSpore form."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ms_port.ir.values import Value
from ms_port.opmap.rows import Row

RANDOM_NAME = "__rand__"
"""The name that stands in a lowered expression for the calling cell's random cell (``Lowering.random``)."""

RESULT = "result"
"""The name under which conditions see what the call gave."""


@dataclass(frozen=True)
class Argument:
    """An argument: its source (already MindSpore source) and its values, one per run (None: unknown).

    The expression may be an ``ast.Starred``; its values are then those of the starred sequence.
    """

    expression: ast.expr
    values: tuple[Value, ...] | None = None


@dataclass(frozen=True)
class Call:
    """A call of a torch API. ``receiver`` is the ``x`` of ``x.view(...)``, ``result`` what it gave, one value a run."""

    api: str
    args: tuple[Argument, ...] = ()
    keywords: tuple[tuple[str, Argument], ...] = ()
    receiver: Argument | None = None
    result: tuple[Value, ...] | None = None


@dataclass(frozen=True)
class Note:
    """Something to report: a rule's code (``MSP501``) and what differs."""

    rule: str
    message: str


@dataclass(frozen=True)
class Lowering:
    """The MindSpore form of a call.

    ``functions`` are names of op_maps/functions that it uses. ``row`` is the row that was used, with the weights and
    attributes of the variant taken. ``random``: class of the cell that ``RANDOM_NAME`` in the expression stands for.
    """

    expression: ast.expr
    functions: frozenset[str]
    row: Row
    notes: tuple[Note, ...] = ()
    random: str | None = None
