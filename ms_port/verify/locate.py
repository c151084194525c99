"""From the first wrong output to the cell whose own code is at fault."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ms_port.verify.forward import Findings
from ms_port.verify.judge import Truth, compare
from ms_port.verify.port import CellPair
from ms_port.verify.session import Mode, Session, shapes_of
from ms_port.verify.torch_side import CallKey
from ms_port.verify.verdict import Divergence


def locate(session: Session, mode: Mode, findings: Findings, folder: Path, timeout: float) -> Divergence | None:
    """The deepest cell around the first wrong output that was given right inputs.

    A cell that was given wrong inputs only shows a fault of the code around it. So the port runs once more, with taps
    on the arguments of that cell and of the cells that hold it.
    """
    wrong = findings.first_wrong()
    pairs = {pair.path: pair for pair in reversed(session.port.cells)}
    if wrong is None:
        return _wrong_statistic(mode, findings, pairs)
    key, _, comparison = wrong
    parts = key[0].split(".") if key[0] else []
    around = [p for i in range(len(parts), 0, -1) if (p := ".".join(parts[:i])) in pairs]
    right = _with_right_arguments(session, mode, around, key, folder, timeout) if around else {}
    guilty = next((path for path in around if right.get(path, True)), "")
    pair = pairs[guilty]
    if guilty == key[0]:
        why = (
            "its inputs agree and its output does not" if right.get(guilty) else "its output is the first that differs"
        )
    else:
        given = next(path for path in reversed(around) if path.startswith(guilty) and not right.get(path, True))
        why = f"its inputs agree, and what it gives to {given} does not"
    name = pair.cls or type(session.model).__name__
    errors = comparison.error, comparison.truth_error
    return Divergence(mode.name, guilty, pair.cell, name, key[0], key[1], *errors, why)


def _wrong_statistic(mode: Mode, findings: Findings, pairs: Mapping[str, CellPair]) -> Divergence | None:
    """All outputs agree, but what a normalisation remembers does not."""
    wrong = next((c for c in findings.statistics if not c.equal), None)
    if wrong is None:
        return None
    path, _, buffer = wrong.name.partition(" ")[0].rpartition(".")
    pair = pairs.get(path, CellPair(path, path, ""))
    why = f"its output agrees, and its {buffer} after a step of training does not (momentum?)"
    return Divergence(mode.name, path, pair.cell, pair.cls, path, 0, wrong.error, wrong.truth_error, why)


def _with_right_arguments(
    session: Session, mode: Mode, around: list[str], key: CallKey, folder: Path, timeout: float
) -> dict[str, bool]:
    """Whether the arguments of each module agree; modules whose arguments can't be read are left out."""
    single = session.record(mode.train, inputs_of=around)
    truth = session.record(mode.train, double=True, single=single, inputs_of=around)
    pairs = {pair.path: pair.cell for pair in reversed(session.port.cells)}
    wanted: dict[str, Any] = {}
    for path in around:
        calls = [truth.arguments[k] for k in sorted(truth.arguments) if k[0] == path]
        if calls and len(calls) <= 8:
            wanted[pairs[path]] = [shapes_of(call) for call in calls]
    side = session.start(folder, [mode], arguments=wanted)
    outcome = side.finish(timeout)
    if outcome.status != "done":
        return {}
    ran = outcome.result["modes"][mode.name]["cells"]
    right: dict[str, bool] = {}
    for path in around:
        keyed = [(k, truth.arguments[k]) for k in sorted(truth.arguments) if k[0] == path]
        chosen = [(k[1], leaves) for k, leaves in keyed if path != key[0] or k[1] == key[1]]
        if pairs[path] not in ran or any(len(leaves) != ran[pairs[path]] for _, leaves in chosen):
            continue
        right[path] = all(
            _agrees(folder / mode.name / f"cell.{pairs[path]}.{call}.{i}.npy", leaf)
            for call, leaves in chosen
            for i, leaf in enumerate(leaves)
        )
    return right


def _agrees(file: Path, truth: Truth) -> bool:
    return compare("", np.load(file) if file.exists() else None, truth).equal
