"""Parameters and buffers under torch's names, by which training scripts filter, print and save them."""

from collections import OrderedDict

from mindspore import nn

STATISTICS = ("moving_mean", "moving_variance")
TORCH_NAMES = {
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
    "embedding_table": "weight",
}


def _is_layer(cell):
    """Whether a cell is, or is derived from, a layer of MindSpore or of this file: its parameters are no names of the script's."""
    places = [kind.__module__ for kind in type(cell).__mro__ if kind is not nn.Cell]
    return any(p == __name__ or (p.startswith("mindspore.nn.layer.") and not p.endswith("container")) for p in places)


def torch_names(cell):
    """torch's name of each parameter and buffer whose name differs, by MindSpore's."""
    found = {}
    for path, inner in cell.cells_and_names():
        if not _is_layer(inner):
            continue
        place = path.removesuffix(".bn2d").removesuffix("bn2d") if isinstance(inner, nn.BatchNorm2d) else path
        for name in (*inner._params, *getattr(inner, "_buffers", ())):
            ours = f"{path}.{name}" if path else name
            torchs = TORCH_NAMES.get(name, name)
            torchs = f"{place}.{torchs}" if place else torchs
            if torchs != ours:
                found[ours] = torchs
    return found


def named_parameters(cell, prefix="", recurse=True, remove_duplicate=True):
    """(torch's name, parameter), without running statistics; without ``recurse`` the cell's own."""
    names = torch_names(cell)
    dot = f"{prefix}." if prefix else ""
    found = [(n, p) for n, p in cell.parameters_and_names(expand=recurse) if not n.endswith(STATISTICS)]
    for _, parameter in found:
        if not hasattr(parameter, "grad"):
            parameter.grad = None
    return iter([(dot + names.get(n, n), p) for n, p in found])


def named_buffers(cell, prefix="", recurse=True, remove_duplicate=True):
    """(torch's name, tensor): running statistics, which MindSpore keeps as parameters, and registered buffers."""
    names = torch_names(cell)
    dot = f"{prefix}." if prefix else ""
    found = [(n, p) for n, p in cell.parameters_and_names(expand=recurse) if n.endswith(STATISTICS)]
    for path, inner in cell.cells_and_names() if recurse else [("", cell)]:
        held = getattr(inner, "_buffers", {})
        found += [(f"{path}.{n}" if path else n, b) for n, b in held.items() if b is not None]
    return iter([(dot + names.get(n, n), b) for n, b in found])


def buffers(cell):
    return iter([b for _, b in named_buffers(cell)])


def state_of(holder):
    """``state_dict()`` of a cell with torch's names, or of whatever else has one."""
    if not isinstance(holder, nn.Cell):
        return holder.state_dict()
    names, layers = torch_names(holder), {}
    for name, value in holder.state_dict().items():
        layers.setdefault(name.rpartition(".")[0], []).append((name, value))
    ordered = [pair for held in layers.values() for pair in sorted(held, key=lambda pair: pair[0].endswith(STATISTICS))]
    return OrderedDict((names.get(name, name), value) for name, value in ordered)


def sequential_as_torch():
    """A SequentialCell runs cells that are added later as well (``add_module``, ``self.fc = ...``): its own list of them is kept up."""
    insert = nn.SequentialCell.insert_child_to_cell

    def insert_child_to_cell(self, child_name, child_cell):
        insert(self, child_name, child_cell)
        self.cell_list = list(self._cells.values())

    nn.SequentialCell.insert_child_to_cell = insert_child_to_cell
