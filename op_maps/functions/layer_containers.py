"""Containers of parameters."""

from collections.abc import Iterable, Mapping

from mindspore import Parameter, Tensor, nn


class ParameterList(nn.Cell):
    """torch.nn.ParameterList. In construct its ``values`` are read: indexing the cell itself loses the gradient."""

    def __init__(self, values: Iterable[Parameter] = ()) -> None:
        super().__init__()
        self.values = ()
        self.extend(values)

    def append(self, parameter: Parameter) -> "ParameterList":
        if not isinstance(parameter, Parameter):
            parameter = Parameter(Tensor(parameter))
        self.insert_param_to_cell(str(len(self.values)), parameter)
        self.values = tuple(self._params.values())
        return self

    def extend(self, parameters: Iterable[Parameter]) -> "ParameterList":
        for parameter in parameters:
            self.append(parameter)
        return self

    def __len__(self) -> int:
        return len(self.values)


class ParameterDict(nn.Cell):
    """torch.nn.ParameterDict. In construct its ``values`` are read: indexing the cell itself loses the gradient."""

    def __init__(self, values: Mapping[str, Parameter] = {}) -> None:
        super().__init__()
        self.values: dict[str, Parameter] = {}
        for name, parameter in values.items():
            self[name] = parameter

    def __setitem__(self, name: str, parameter: Parameter) -> None:
        if not isinstance(parameter, Parameter):
            parameter = Parameter(Tensor(parameter))
        self.insert_param_to_cell(name, parameter)
        self.values = dict(self._params)

    def __len__(self) -> int:
        return len(self.values)


class LayerDict(nn.CellDict):
    """torch.nn.ModuleDict that holds containers too, and under names that nn.Cell has for itself."""

    def _validate_key(self, key: str) -> None:
        if not isinstance(key, str) or not key or "." in key:
            raise KeyError(f"the key must be a name without a dot, not {key!r}")

    def _validate_cell_type(self, cell: nn.Cell) -> None:
        if not isinstance(cell, nn.Cell):
            raise TypeError(f"the item must be a Cell, not {type(cell).__name__}")


class LayersOrNone(nn.CellList):
    """torch.nn.ModuleList in which None stands where there is no layer."""

    def __init__(self, cells: Iterable[nn.Cell | None] = ()) -> None:
        super().__init__()
        for cell in cells:
            self.append(cell)

    def append(self, cell: nn.Cell | None) -> None:
        name = str(len(self._cells))
        if cell is not None and self._auto_prefix:
            cell.update_parameters_name(f"{name}.")
        self._cells[name] = cell

    def extend(self, cells: Iterable[nn.Cell | None]) -> "LayersOrNone":
        for cell in cells:
            self.append(cell)
        return self

    def set_grad(self, requires_grad: bool = True) -> "LayersOrNone":
        self.requires_grad = requires_grad
        for cell in self.cells():
            cell.set_grad(requires_grad)
        return self
