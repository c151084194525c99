"""Run a port in GRAPH_MODE and read what each cell gives. MindSpore and numpy alone (OUT/verify.py holds a copy).

Hooks are not called in GRAPH_MODE. So a cell is given another ``construct`` for a while, which runs its own and assigns
the results to parameters made for it. Names, attributes and class stay (with a subclass, ``super()`` would recurse: in
GRAPH_MODE it starts from the class of the instance).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from types import MethodType
from typing import Any, TypeAlias

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

EMPTY = {"float32": np.float32(1.2345e33), "int64": np.int64(-(2**62))}
"""What a slot holds until something is assigned to it."""
Calls: TypeAlias = Sequence[Sequence[tuple[Sequence[int], str]]]
serial_numbers = count()


def _no_leaves(value: Any) -> tuple[Tensor, ...]:
    return ()


def _one_level_more(inner: Any) -> Any:
    def leaves(value: Any) -> Any:
        if isinstance(value, Tensor):
            return (value,)
        found = ()
        if isinstance(value, dict):
            for item in value.values():
                found = found + inner(item)
        elif isinstance(value, (tuple, list)):
            for item in value:
                found = found + inner(item)
        return found

    return leaves


leaves = _one_level_more(_one_level_more(_one_level_more(_one_level_more(_one_level_more(_no_leaves)))))
"""All tensors in a nesting of tuples, lists and dicts, in order. GRAPH_MODE compiles it, but no recursion."""


def _tap_once(self: Any, *args: Any, **kwargs: Any) -> Any:
    """What a tapped cell runs instead of ``construct`` if it gives one tensor once (as little code as possible)."""
    out = self.untapped_construct(*args, **kwargs)
    if not isinstance(out, Tensor):
        found = leaves(out)
    else:
        found = (out,)
    if len(found) == 1:
        slot = self.tap_slots[0]
        if found[0].shape == self.tap_shape and found[0].dtype == slot.dtype:
            self.tap_assign(slot, found[0])
        else:
            self.tap_assign(self.tap_found[0], self.tap_one)
    else:
        self.tap_assign(self.tap_found[0], self.tap_two)
    return out


def _tap_calls(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The same if it gives one tensor each time it is called: rows of one parameter for each shape."""
    out = self.untapped_construct(*args, **kwargs)
    if not isinstance(out, Tensor):
        found = leaves(out)
    else:
        found = (out,)
    if len(found) == 1:
        for shape, rows, row in self.tap_rows:
            if found[0].shape == shape and found[0].dtype == rows.dtype:
                self.tap_write(rows, row, found[0].expand_dims(0))
                self.tap_next(row, self.tap_row)
    else:
        self.tap_assign(self.tap_found[0], self.tap_two)
    return out


def _tap_any(self: Any, *args: Any, **kwargs: Any) -> Any:
    """What other cells run: each tensor has slots, one for each call, of which the one for this call is written."""
    out = self.untapped_construct(*args, **kwargs)
    if self.tap_inputs:
        found = leaves((args, kwargs))
    elif isinstance(out, Tensor):
        found = (out,)
    else:
        found = leaves(out)
    ops.assign(self.tap_found[0], len(found))
    if len(found) == len(self.tap_slots):
        for i, slots in enumerate(self.tap_slots):
            value = found[i]
            if self.tap_stride > 1:
                value = value.reshape((-1,))[:: self.tap_stride]
            for call, slot in slots:
                if slot.shape == value.shape:
                    kept = value.astype(slot.dtype)
                    if call >= 0:
                        kept = ops.where(self.tap_count[0] == call, kept, slot)
                    ops.assign(slot, kept)
    ops.assign(self.tap_count[0], self.tap_count[0] + 1)
    return out


class Tap:
    """What one cell gives (or, with ``inputs``, what it is given), call by call, while the tap is in.

    Args:
        cell: the cell; its ``construct`` is replaced until ``remove``.
        calls: for each call the (shape, "float32" or "int64") of each tensor, in the order of ``leaves``. If only one
            call is described, it is the last one that is kept.
        stride: only every so-manieth element of the flattened tensor is kept; the shapes are those after it.
        cast: the cell may give another type than the described one.
    """

    def __init__(self, cell: nn.Cell, calls: Calls, stride: int = 1, inputs: bool = False, cast: bool = False) -> None:
        self.cell, self._name = cell, f"tap{next(serial_numbers)}"
        self._before = vars(cell).get("construct")
        self._found = self._new(np.zeros((), np.int32))
        self._places: list[tuple[int, int, Parameter, int | None]] = []
        """(call, leaf, parameter, row of the parameter or None)."""
        plain = stride == 1 and not inputs and not cast and all(len(c) == 1 and c[0][1] == "float32" for c in calls)
        self._once = plain and len(calls) == 1
        added = {"tap_found": (self._found,), "untapped_construct": cell.construct, "tap_assign": ops.Assign()}
        if self._once:
            construct, more = _tap_once, self._place_once(calls[0][0][0])
        elif plain:
            construct, more = _tap_calls, self._place_calls([c[0][0] for c in calls])
        else:
            construct, more = _tap_any, {**self._place_any(calls), "tap_stride": stride, "tap_inputs": inputs}
        vars(cell).update(added, **more, construct=MethodType(construct, cell))

    def _new(self, array: np.ndarray[Any, Any]) -> Parameter:
        """A parameter that is none of the cell's (it stands inside a tuple there)."""
        self._made = getattr(self, "_made", 0) + 1
        return Parameter(Tensor(array), name=f"{self._name}.{self._made}", requires_grad=False)

    def _empty(self, shape: Sequence[int], dtype: str = "float32") -> Parameter:
        return self._new(np.full(tuple(shape), EMPTY[dtype], dtype))

    def _place_once(self, shape: Sequence[int]) -> dict[str, Any]:
        slot = self._empty(shape)
        self._places.append((0, 0, slot, None))
        one, two = Tensor(1, ms.int32), Tensor(2, ms.int32)
        return {"tap_slots": (slot,), "tap_shape": tuple(shape), "tap_one": one, "tap_two": two}

    def _place_calls(self, shapes: Sequence[Sequence[int]]) -> dict[str, Any]:
        rows = []
        for shape in dict.fromkeys(map(tuple, shapes)):
            calls = [i for i, other in enumerate(shapes) if tuple(other) == shape]
            slot = self._empty((len(calls), *shape))
            rows.append((shape, slot, self._new(np.zeros(1, np.int32))))
            self._places += [(call, 0, slot, row) for row, call in enumerate(calls)]
        writer = {"tap_write": ops.ScatterUpdate(), "tap_next": ops.AssignAdd()}
        return {"tap_rows": tuple(rows), **writer, "tap_row": Tensor([1], ms.int32), "tap_two": Tensor(2, ms.int32)}

    def _place_any(self, calls: Calls) -> dict[str, Any]:
        slots: list[list[tuple[int, Parameter]]] = [[] for _ in calls[0]]
        for number, call in enumerate(calls):
            for leaf, (shape, dtype) in enumerate(call[: len(slots)]):
                slot = self._empty(shape, dtype)
                slots[leaf].append((number if len(calls) > 1 else -1, slot))
                self._places.append((number, leaf, slot, None))
        return {"tap_slots": tuple(map(tuple, slots)), "tap_count": (self._new(np.zeros((), np.int32)),)}

    def read(self) -> Iterator[tuple[int, int, np.ndarray[Any, Any]]]:
        """(call, leaf, array) for all that was assigned."""
        for call, leaf, slot, row in self._places:
            array = slot.asnumpy() if row is None else slot.asnumpy()[row]
            if array.size == 0 or array.flat[0] != EMPTY[str(array.dtype)] or (array != array.flat[0]).any():
                yield call, leaf, array

    def tensors(self) -> int:
        """How many tensors the cell gave at its last call; 0 if it did not run."""
        found = int(self._found.asnumpy())
        return found or min(1, sum(1 for _ in self.read()))

    def remove(self) -> None:
        """Give the cell its own ``construct`` back."""
        for name in [n for n in vars(self.cell) if n.startswith("tap_") or n in ("construct", "untapped_construct")]:
            del vars(self.cell)[name]
        if self._before is not None:
            vars(self.cell)["construct"] = self._before


@contextmanager
def taps(cell: nn.Cell, wanted: Mapping[str, Calls], **options: Any) -> Iterator[dict[str, Tap]]:
    """Taps in those of the cells named in ``wanted`` that the port has; they are out again afterwards."""
    cells = dict(cell.cells_and_names())
    placed: dict[str, Tap] = {}
    try:
        for name, calls in wanted.items():
            if name in cells and calls:
                placed[name] = Tap(cells[name], calls, **options)
        yield placed
    finally:
        for tap in reversed(placed.values()):
            tap.remove()


def bind(cell: nn.Cell, inputs: Mapping[str, Any]) -> list[Any]:
    """The inputs as positional arguments of ``construct``: by name, defaults in gaps; by order for other names."""
    parameters = [p for p in inspect.signature(type(cell).construct).parameters.values() if p.name != "self"]
    if not all(any(p.name == name for p in parameters) for name in inputs):
        return list(inputs.values())
    given = [i for i, p in enumerate(parameters) if p.name in inputs]
    return [inputs.get(p.name, p.default) for p in parameters[: max(given, default=-1) + 1]]


def put(parameter: Parameter, array: np.ndarray[Any, Any]) -> None:
    """Write values into a parameter. A graph that ran keeps its storage and would not see those of ``set_data``."""
    ops.assign(parameter, Tensor(np.array(array), parameter.dtype))


def to_numpy(value: Any) -> np.ndarray[Any, Any]:
    """A tensor of the port as float32, int64 or bool (bfloat16 has no numpy type)."""
    kept = (ms.float32, ms.float64, ms.int32, ms.int64, ms.bool_, ms.uint8, ms.int8, ms.int16)
    array: np.ndarray[Any, Any] = (value if value.dtype in kept else value.astype(ms.float32)).asnumpy()
    return array


class ProjectedLoss(nn.Cell):  # type: ignore[misc]
    """The sum of all float outputs, each times a fixed tensor: no direction of the outputs is left out.

    Args:
        cell: the port's root cell.
        huge: for each float output whether it holds infinite values (a mask's), which are then left out.
    """

    def __init__(self, cell: nn.Cell, huge: Sequence[bool]) -> None:
        super().__init__(auto_prefix=False)  # otherwise the parameters of `cell` get another name
        self.cell = cell
        self.huge, self.outputs = tuple(huge), len(huge)

    def construct(self, *values: Any) -> Tensor:
        """The projections, then the inputs."""
        projections = values[: self.outputs]
        loss = 0.0
        i = 0
        for out in leaves(self.cell(*values[self.outputs :])):
            if out.dtype in (ms.float32, ms.float16, ms.bfloat16, ms.float64):
                value = out.astype(ms.float32)
                if self.huge[i]:
                    value = ops.where(ops.abs(value) < 1e30, value, ops.zeros_like(value))
                loss = loss + (value * projections[i]).sum()
                i = i + 1
        return loss
