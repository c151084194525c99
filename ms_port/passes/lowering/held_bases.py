"""The base of a class whose constructor is written from what its instances hold."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Set
from dataclasses import replace

from ms_port.ir.program import CellDef
from ms_port.ir.tree import statement


def past_base_constructors(cells: Mapping[str, CellDef], held: Set[str]) -> dict[str, CellDef]:
    """``nn.Cell.__init__(self)`` in a held constructor where a base keeps one of its own.

    The held constructor sets all that the instance holds. A base that another class builds by the source asks for
    arguments, and would set the same children once more.
    """
    return {key: _past_base(cells, cell) if key in held else cell for key, cell in cells.items()}


def _past_base(cells: Mapping[str, CellDef], cell: CellDef) -> CellDef:
    if _of_layer(cells, cell) or not any(_constructs(cells, base) for base in cell.bases):
        return cell
    return replace(
        cell,
        methods=tuple(
            replace(m, body=(statement("nn.Cell.__init__(self)"), *m.body[1:]))
            if m.name == "__init__" and m.body and ast.unparse(m.body[0]) == "super().__init__()"
            else m
            for m in cell.methods
        ),
    )


def _constructs(cells: Mapping[str, CellDef], cls: str) -> bool:
    cell = cells.get(cls)
    return cell is not None and (
        any(m.name == "__init__" for m in cell.methods) or any(_constructs(cells, base) for base in cell.bases)
    )


def _of_layer(cells: Mapping[str, CellDef], cell: CellDef) -> bool:
    """Whether it derives from a torch layer or container, which needs more than what a plain cell sets up."""
    return any(
        _of_layer(cells, cells[base]) if base in cells else base.startswith("torch.nn.") and base != "torch.nn.Module"
        for base in cell.bases
    )
