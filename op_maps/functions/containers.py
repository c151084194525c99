"""Containers: what MindSpore's have not."""

from collections.abc import Sequence

from mindspore import Tensor, nn


def add_cell(container: nn.Cell, name: str, cell: nn.Cell, prefix: str = "") -> None:
    """torch's ``container.add_module(name, cell)``: the child runs, and its parameters get its name.

    ``prefix`` is where the container already stands in the cell that builds it (``"features."``).
    """
    cell.update_parameters_name(f"{prefix}{name}.")
    container.insert_child_to_cell(name, cell)
    if isinstance(container, nn.SequentialCell):
        container.cell_list = list(container.name_cells().values())


def in_turn(cells: Sequence[nn.Cell], x: Tensor) -> Tensor:
    """The cells, one after the other: a part of a Sequential."""
    for cell in cells:
        x = cell(x)
    return x
