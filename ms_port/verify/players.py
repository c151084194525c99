"""Cells of the port that draw, given the numbers of torch's draws. MindSpore and numpy alone.

A dropout cell multiplies by the mask of its number; a cell that makes random numbers (``Rand``, ``Randn``) returns
the recorded ones. Which cell belongs to which draw: the cell of the drawing module, or the drawing cells it owns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MethodType
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from ms_port.verify.device import put, serial_numbers
from ms_port.verify.noise import numbers

DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
MAKERS = {"Rand": "uniform", "Randn": "normal"}
"""Class names of the cells that make random numbers -> the kind of draw they answer."""
MOST = 64


def _played_dropout(self: Any, x: Tensor) -> Tensor:
    found = x
    first = True
    for number, shape, mask in self.play_values:
        if shape == x.shape:
            if first:
                found = x * mask.astype(x.dtype)
                first = False
            else:
                found = ops.where(self.play_count[0] == number, x * mask.astype(x.dtype), found)
    ops.assign(self.play_count[0], self.play_count[0] + 1)
    return found


def _played_numbers(self: Any, shape: Any, dtype: Any = ms.float32) -> Tensor:
    found = self.play_values[0][2].astype(dtype)
    first = True
    for number, size, values in self.play_values:
        if size == shape:
            if first:
                found = values.astype(dtype)
                first = False
            else:
                found = ops.where(self.play_count[0] == number, values.astype(dtype), found)
    ops.assign(self.play_count[0], self.play_count[0] + 1)
    return found


def rate(cell: nn.Cell) -> float:
    """The share that a dropout cell drops."""
    if isinstance(cell, nn.Dropout):
        return float(cell.p if cell.p is not None else 1.0 - cell.keep_prob)
    return float(cell.prob) if isinstance(cell, nn.Dropout1d) else 1.0 - float(cell.keep_prob)


def _play(cell: nn.Cell, draws: Sequence[Mapping[str, Any]]) -> None:
    serial = next(serial_numbers)
    values = []
    for i, draw in enumerate(draws):
        array, size = numbers(draw["path"], draw["number"], draw["kind"], draw["shape"]), tuple(draw["shape"])
        if isinstance(cell, DROPOUTS):
            array = (array >= draw["p"]).astype(np.float32) / np.float32(1.0 - draw["p"])
            size = tuple(draw["input_shape"])
        name = f"play{serial}.{i}"
        values.append((i, size, Parameter(Tensor(array), name=name, requires_grad=False)))
    construct = _played_dropout if isinstance(cell, DROPOUTS) else _played_numbers
    vars(cell).update(
        play_values=tuple(values),
        play_count=(Parameter(Tensor(0, ms.int32), name=f"play{serial}.count", requires_grad=False),),
        construct=MethodType(construct, cell),
    )


def restart(root: nn.Cell) -> None:
    """The next draw of every cell that is played is its first."""
    for cell in root.cells():
        restart(cell)
    if "play_count" in vars(root):
        put(root.play_count[0], np.zeros((), np.int32))


def _players(cell: nn.Cell, mapped: set[str], prefix: str) -> list[nn.Cell]:
    """The cells that answer draws of one module: itself, or drawing cells that the port added to it."""
    if isinstance(cell, DROPOUTS) or type(cell).__name__ in MAKERS:
        return [cell]
    own = [(f"{prefix}.{name}".lstrip("."), child) for name, child in cell.name_cells().items()]
    return [c for n, c in own if n not in mapped and (isinstance(c, DROPOUTS) or type(c).__name__ in MAKERS)]


def _assign(
    draws: list[Mapping[str, Any]], players: list[nn.Cell]
) -> list[tuple[nn.Cell, list[Mapping[str, Any]]]] | None:
    """The draws of one module for each of its players, in turns; None where they do not match."""
    if not players or len(draws) % len(players) or len(draws) > MOST:
        return None
    pairs = [(player, draws[i :: len(players)]) for i, player in enumerate(players)]
    for player, part in pairs:
        kind = "dropout" if isinstance(player, DROPOUTS) else MAKERS[type(player).__name__]
        # A written-out dropout asks a cell of uniform numbers.
        if any(draw["kind"] not in (kind, "dropout" if kind == "uniform" else kind) for draw in part):
            return None
    return pairs


@contextmanager
def playing(root: nn.Cell, draws: Sequence[Mapping[str, Any]], mapped: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Replace the drawing cells while the block runs.

    Args:
        draws: ``{cell, path, number, kind, shape, input_shape, p}`` in the order of torch's draws.
        mapped: names of the cells that stand for a torch module.

    Yields ``unanswered``, the cells whose draws nothing in the port answers, and ``rates``, (cell, torch's, the port's)
    where the rates of a dropout differ.
    """
    cells = dict(root.cells_and_names())
    by_cell: dict[str, list[Mapping[str, Any]]] = {}
    for draw in draws:
        by_cell.setdefault(draw["cell"], []).append(draw)
    found: dict[str, Any] = {"unanswered": [], "rates": []}
    played: list[nn.Cell] = []
    for name, own in by_cell.items():
        pairs = _assign(own, _players(cells[name], set(mapped), name)) if name in cells else None
        if pairs is None:
            found["unanswered"].append(name)
        for player, part in pairs or ():
            if isinstance(player, DROPOUTS) and abs(rate(player) - part[0]["p"]) > 1e-9:
                found["rates"].append((name, part[0]["p"], rate(player)))
            _play(player, part)
            played.append(player)
    try:
        yield found
    finally:
        for player in played:
            for key in ("play_values", "play_count", "construct"):
                vars(player).pop(key, None)
