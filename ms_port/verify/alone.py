"""Run some cells of a port alone, one after the other, on the inputs that torch gave them. MindSpore alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mindspore as ms
from mindspore import Tensor, nn

from ms_port.verify.device import bind, leaves, to_numpy


class _Sum(nn.Cell):  # type: ignore[misc]
    def __init__(self, cell: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.cell = cell

    def construct(self, *inputs: Any) -> Tensor:
        loss = 0.0
        for out in leaves(self.cell(*inputs)):
            if out.dtype in (ms.float32, ms.float16, ms.bfloat16, ms.float64):
                loss = loss + out.sum()
        return loss


def run_alone(
    root: nn.Cell, cells: Sequence[Mapping[str, Any]], train: bool, gradient: bool, begin: Callable[[str], None]
) -> dict[str, str]:
    """Run each cell; returns what the failing ones raised, by name.

    Args:
        cells: ``{cell, inputs}``.
        begin: told the name of each cell before it runs, for those that end the process.
    """
    named = dict(root.cells_and_names())
    errors: dict[str, str] = {}
    for entry in cells:
        name = entry["cell"]
        if name not in named:
            continue
        begin(name)
        cell = named[name]
        try:
            arguments = bind(cell, entry["inputs"])
            if gradient:
                loss = _Sum(cell)
                loss.set_train(train)
                weights = list(cell.trainable_params())
                if weights:
                    ms.value_and_grad(loss, None, weights=weights)(*arguments)
            else:
                cell.set_train(train)
                for out in leaves(cell(*arguments)):
                    to_numpy(out)
        except Exception as error:
            errors[name] = f"{type(error).__name__}: {error}"
            break
    return errors
