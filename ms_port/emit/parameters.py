"""Which parameter of the port is which of torch's: names and rules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ms_port.ir.program import ModuleInstance, Program
from ms_port.ir.values import Literal
from ms_port.opmap import NoLowering, OpMap, Row
from ms_port.passes.cell_names import renamed_path


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """One entry of port.json's ``parameters``; ``mindspore`` is None where the tensor is dropped."""

    torch: str
    mindspore: str | None
    shape: tuple[int, ...]
    rule: str
    kind: str = "parameter"
    """``parameter`` or ``buffer``, as torch has it."""


@dataclass(frozen=True, slots=True)
class CellPath:
    """One entry of port.json's ``cells``."""

    path: str
    cell: str
    cls: str


def parameter_rows(program: Program, opmap: OpMap) -> Iterator[ParameterRow]:
    """Every tensor of torch's state, and what torch does not save where the port keeps it as a Parameter."""
    owners: dict[str, str | None] = {}
    variants: dict[str, Row] = {}
    for path, tensor in [*program.parameters.items(), *program.tensor_attributes.items()]:
        name, rule = _mapped(program, opmap, path, variants)
        if tensor.kind not in ("parameter", "buffer") and not _is_loaded(program, path):
            continue
        kind = "parameter" if tensor.kind == "parameter" else "buffer"
        if name is not None and tensor.tied_to is not None:
            yield ParameterRow(path, owners.get(tensor.tied_to, name), tensor.shape, "tied", kind)
            continue
        owners[path] = name
        yield ParameterRow(path, name, tensor.shape, rule, kind)


def _is_loaded(program: Program, path: str) -> bool:
    """A buffer that torch does not save comes with the weights where the port does not compute it."""
    return path in program.loaded_buffers


def _mapped(program: Program, opmap: OpMap, path: str, variants: dict[str, Row]) -> tuple[str | None, str]:
    owner, _, name = path.rpartition(".")
    module = program.modules.get(owner)
    while module is None and owner:  # a parametrization inside a layer: the layer's row knows it by its dotted name
        owner, _, _ = owner.rpartition(".")
        module, name = program.modules.get(owner), path[len(owner) + 1 :] if owner else path
    port_owner, port_path = renamed_path(program, owner), renamed_path(program, path)
    if module is None:
        return port_path, "same"
    row = row_of(program, opmap, module.cls)
    if row is None:
        return port_path, "same"
    try:
        key = f"{module.cls} {sorted(module.attributes, key=lambda pair: pair[0])}"
        if key not in variants:
            variants[key] = _instance_row(opmap, row, module)
        rule = variants[key].weight(name)
    except KeyError:
        return port_path, "same"
    if rule.mindspore is None:
        return None, "drop"
    return f"{port_owner}.{rule.mindspore}" if owner else _name_of_root(opmap, row, module, rule.mindspore), rule.rule


_ROOT_NAMES = {"moving_mean": "mean", "moving_variance": "variance"}
"""What MindSpore calls these tensors of a batch norm that is no child of another cell."""


def _name_of_root(opmap: OpMap, row: Row, module: ModuleInstance, name: str) -> str:
    """The name of a tensor of the root, where that is a layer: nobody has named it by its attribute yet."""
    attributes = {k: v.value for k, v in module.attributes if isinstance(v, Literal)}
    try:
        made = opmap.from_instance(row.api, attributes).expression
    except NoLowering:
        return name
    plain = isinstance(made, ast.Call) and ast.unparse(made.func) in ("nn.BatchNorm1d", "nn.BatchNorm2d")
    return _ROOT_NAMES.get(name, name) if plain else name


def _instance_row(opmap: OpMap, row: Row, module: ModuleInstance) -> Row:
    """The row with the weights of the variant that the instance takes."""
    attributes = {k: v.value for k, v in module.attributes if isinstance(v, Literal)}
    try:
        return opmap.from_instance(row.api, attributes).row
    except NoLowering:
        return row


def row_of(program: Program, opmap: OpMap, cls: str) -> Row | None:
    """The row of a layer class, or of the torch layer that a user class derives from."""
    if cls not in program.cells:
        return opmap.row(cls)
    for base in program.cells[cls].bases:
        if base not in ("torch.nn.Module",) and (row := row_of(program, opmap, base)) is not None:
            return row
    return None


def cell_paths(program: Program) -> Iterator[CellPath]:
    """Torch module path -> cell path, for every module (children keep their names, save those that Cell has)."""
    for path, module in program.modules.items():
        yield CellPath(path, renamed_path(program, path), module.cls)
