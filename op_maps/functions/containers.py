"""Containers: what MindSpore's have not."""

from mindspore import nn


def add_cell(container: nn.Cell, name: str, cell: nn.Cell) -> None:
    """torch's ``container.add_module(name, cell)``: the child runs and its parameters are prefixed by its name."""
    cell.update_parameters_name(name + ".")
    container.insert_child_to_cell(name, cell)
    if isinstance(container, nn.SequentialCell):
        container.cell_list = list(container.name_cells().values())
