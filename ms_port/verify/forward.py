"""The forward level: every output, every cell and every running statistic, in eval and in train mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ms_port.verify.judge import Array, Comparison, Truth, compare, make_truth
from ms_port.verify.process import Outcome
from ms_port.verify.session import Mode, Session
from ms_port.verify.torch_side import CallKey, as_array, tensors
from ms_port.verify.verdict import Worst


@dataclass
class Findings:
    """What was compared in one mode, in forward order."""

    mode: str
    outputs: list[Comparison] = field(default_factory=list)
    cells: list[tuple[CallKey, str, Comparison]] = field(default_factory=list)
    """Call of a torch module, name of the cell, and how one of its tensors compares."""
    statistics: list[Comparison] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """Modules whose cell did not run or gave another number of tensors."""

    def all(self) -> list[Comparison]:
        """Everything that was compared."""
        return [*self.outputs, *(c for _, _, c in self.cells), *self.statistics]

    def first_wrong(self) -> tuple[CallKey, str, Comparison] | None:
        """The first call, in forward order, that gave something wrong; the model itself ends last."""
        ended: list[tuple[CallKey, str, Comparison]] = [*self.cells, *((("", 0), "", c) for c in self.outputs)]
        return next((found for found in ended if not found[2].equal), None)

    def worst(self, count: int = 5) -> list[Worst]:
        """The tensors nearest to their limit or beyond it, the worst first."""
        cells = {id(c): cell for _, cell, c in self.cells}

        def ratio(c: Comparison) -> float:
            return c.error / max(c.limit, 1e-300)

        chosen = sorted(self.all(), key=lambda c: (c.equal, -ratio(c)))[:count]
        return [
            Worst(c.name, self.mode, c.error, c.truth_error, c.limit, c.equal, cells.get(id(c), ""), c.note)
            for c in chosen
        ]


def find(session: Session, mode: Mode, folder: Path, outcome: Outcome) -> Findings:
    """Compare what the port left in ``folder`` with the truth of the mode."""
    findings = Findings(mode.name)
    result = outcome.result["modes"][mode.name]
    truths = output_truths(mode)
    got = [_load(folder / f"output..0.{i}.npy") for i in range(result["outputs"])]
    if len(got) != len(truths):
        note = f"{len(truths)} tensors expected, {len(got)} found"
        findings.outputs.append(Comparison("outputs", float("inf"), 0.0, 1.0, False, note))
    findings.outputs += [compare(f"output {i}", a, t) for i, (a, t) in enumerate(zip(got, truths, strict=False))]
    pairs = {pair.path: pair.cell for pair in reversed(session.port.cells)}
    rates = {cell: (torch_rate, own) for cell, torch_rate, own in result["rates"]}
    for key in mode.truth.order:
        cell, call = pairs[key[0]], key[1] - mode.calls.get(pairs[key[0]], 0)
        if cell in rates:
            want, own = rates.pop(cell)
            note = f"drops {own:g} of the elements, torch drops {want:g}"
            findings.cells.append((key, cell, Comparison(key[0], abs(own - want), 0.0, 1.0, False, note)))
        wanted = mode.truth.values[key]
        if call < 0 or not wanted:
            continue
        if result["cells"].get(cell, 0) != len(wanted):
            findings.unread.append(key[0])
            continue
        for leaf, truth in enumerate(wanted):
            name = call_name(key, leaf, len(wanted))
            array = _load(folder / f"cell.{cell}.{call}.{leaf}.npy")
            findings.cells.append((key, cell, compare(name, array, truth)))
    if mode.train:
        findings.statistics = _statistics(session, mode, folder)
    return findings


def output_truths(mode: Mode) -> list[Truth]:
    """The truth of each of the model's outputs."""
    pairs = zip(mode.truth.outputs, mode.single.outputs, strict=True)
    return [make_truth(as_array(double), as_array(single)) for double, single in pairs]


def _statistics(session: Session, mode: Mode, folder: Path) -> list[Comparison]:
    """Float buffers after one forward pass in train mode."""
    found = []
    for row in session.port.rows:
        array = _load(folder / f"statistic.{row.mindspore}.0.0.npy")
        if array is not None and row.torch in mode.truth.buffers and row.rule == "same":
            truth = make_truth(mode.truth.buffers[row.torch], mode.single.buffers[row.torch])
            found.append(compare(f"{row.torch} after a step", array, truth))
    return found


def call_name(key: CallKey, leaf: int, leaves: int) -> str:
    """How a tensor is called in reports: ``layer1.0.relu (call 2)``, ``attn [1]`` for the second of several."""
    path, call = key
    name = path + (f" (call {call + 1})" if call else "")
    return f"{name} [{leaf}]" if leaves > 1 else name


def _load(file: Path) -> Array | None:
    return np.load(file, mmap_mode="r") if file.exists() else None


def ignored_inputs(session: Session, outputs: Sequence[Tensor]) -> list[str]:
    """Inputs on which torch's outputs do not depend here: a port that ignores them would seem right.

    Args:
        outputs: of the float32 run in eval mode.
    """
    found = session.inputs.tensors()
    if len(found) == 1 and _differ_by_sample(found[0], outputs):
        return []  # saves a run of the model
    names = [name for name, value in session.inputs.named(session.model).items() for _ in tensors(value)]
    ignored = []
    for i, tensor in enumerate(found):
        changed = _changed(tensor)
        if changed is None:
            continue
        other = replace(session, inputs=session.inputs.with_tensor(i, changed))
        try:
            others = other.record(False, watched=False).outputs
        except Exception:  # the model refuses such values, so it does look at them
            continue
        if all(a.shape == b.shape and bool((a == b).all()) for a, b in zip(outputs, others, strict=False)):
            ignored.append(names[i] if i < len(names) else f"input {i}")
    return ignored


def _differ_by_sample(tensor: Tensor, outputs: Sequence[Tensor]) -> bool:
    """Whether the first two samples of a batch differ in the input and in an output."""
    batch = tensor.shape[0] if tensor.ndim > 1 else 1
    if batch < 2 or bool((tensor[0] == tensor[1]).all()):
        return False
    return any(out.ndim and out.shape[0] == batch and not bool((out[0] == out[1]).all()) for out in outputs)


def _changed(tensor: Tensor) -> Tensor | None:
    """Other values of the same range; None where there are none."""
    if tensor.is_floating_point() or tensor.is_complex():
        return tensor * 0.5 + 0.25
    for axis in range(tensor.ndim - 1, -1, -1):
        flipped = tensor.flip(axis)
        if not bool((flipped == tensor).all()):
            return flipped
    return None


def merged(findings: Mapping[str, Findings]) -> list[Worst]:
    """The worst tensors of all modes together."""
    rows = [w for f in findings.values() for w in f.worst()]
    return sorted(rows, key=lambda w: (w.equal, -(w.error / max(w.allowed, 1e-300))))[:5]


def largest(comparisons: list[Comparison], attribute: str) -> float:
    """The largest finite error."""
    values: list[Any] = [getattr(c, attribute) for c in comparisons]
    return float(max((v for v in values if np.isfinite(v)), default=0.0))
