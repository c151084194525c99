"""Gradients at the boundaries of the port's cells: parameters of zeros are added to what goes in and out.

The gradient by such a probe is that of the tensor it is added to. Nothing else changes: adding zero is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MethodType
from typing import Any

import numpy as np
from mindspore import Parameter, Tensor, nn, ops

USED: set[int] = set()
"""Serial numbers of the probes that were added to something while a graph was compiled."""


@ops.constexpr  # type: ignore[untyped-decorator]
def note(number: int) -> int:
    """Runs on the host while the graph is compiled."""
    USED.add(number)
    return 0


def _probed(value: Any, probes: Any) -> Any:
    """A tensor plus the probe of its shape."""
    if isinstance(value, Tensor):
        for number, shape, probe in probes:
            if value.shape == shape and value.dtype == probe.dtype:
                note(number)
                return value + probe
    return value


def _one(value: Any) -> Any:
    return (value,)


def _probed_construct(self: Any, *args: Any, **kwargs: Any) -> Any:
    """What a cell with probes runs instead of ``construct``."""
    given = ()
    for value in args:
        given = given + _one(_probed(value, self.probes_in))
    named = {}
    for key in kwargs:
        named[key] = _probed(kwargs[key], self.probes_in)
    out = self.unprobed_construct(*given, **named)
    if isinstance(out, tuple):
        found = ()
        for value in out:
            found = found + _one(_probed(value, self.probes_out))
        return found
    return _probed(out, self.probes_out)


@contextmanager
def probing(root: nn.Cell, wanted: Mapping[str, Mapping[str, Sequence[Sequence[int]]]]) -> Iterator[list[str]]:
    """Probes in the cells named in ``wanted`` (``in`` and ``out``: the shapes), as parameters of the root.

    Yields the names of those that were used, filled when the block has ended. Names: ``probe.in.CELL.2x3``.
    """
    cells = dict(root.cells_and_names())
    names: dict[int, str] = {}
    placed: list[nn.Cell] = []
    used: list[str] = []
    USED.clear()
    try:
        for name, sides in wanted.items():
            if name not in cells:
                continue
            tables: dict[str, Any] = {}
            for side in ("in", "out"):
                rows = []
                for shape in sides[side]:
                    number = len(names)
                    names[number] = probe_name(side, name, shape)
                    probe = Parameter(Tensor(np.zeros(tuple(shape), np.float32)), name=names[number])
                    root.insert_param_to_cell(f"probe_{number}", probe)
                    rows.append((number, tuple(shape), probe))
                tables[f"probes_{side}"] = tuple(rows)
            cell = cells[name]
            construct = MethodType(_probed_construct, cell)
            cell.__dict__.update(tables, unprobed_construct=cell.construct, construct=construct)
            placed.append(cell)
        yield used
    finally:
        used += [names[number] for number in sorted(USED)]
        for cell in placed:
            for key in ("probes_in", "probes_out", "unprobed_construct", "construct"):
                cell.__dict__.pop(key, None)


def probe_name(side: str, cell: str, shape: Sequence[int]) -> str:
    """The name of the parameter for tensors of one shape that go into a cell or come out of it."""
    return f"probe.{side}.{cell}.{'x'.join(map(str, shape))}"
