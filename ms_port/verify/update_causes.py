"""What gives a port another update from the same gradient: options of torch's optimizers, to be tried."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from ms_port.ir.flags import Place
from ms_port.verify.judge import SHRINK, Array, compare_update
from ms_port.verify.torch_updates import Follower

TORCH: Mapping[str, str] = {"sgd": "torch.optim.SGD", "adamw": "torch.optim.AdamW"}
CAUSES: Mapping[str, tuple[tuple[str, Mapping[str, Any]], ...]] = {
    "sgd": (
        ("no weight decay", {"weight_decay": 0.0}),
        ("Nesterov momentum", {"nesterov": True}),
        ("no momentum", {"momentum": 0.0}),
        ("the gradient is damped by the momentum", {"dampening": 0.9}),
    ),
    "adamw": (
        ("no weight decay", {"weight_decay": 0.0}),
        ("no bias correction", {"first_step": 10**6}),
        ("weight decay is added to the gradient (Adam)", {"optimizer": "adam"}),
    ),
}
"""By optimizer: what the port does, and torch's options that do the same."""


def update_cause(
    spec: Mapping[str, Any],
    start: Tensor,
    gradients: tuple[Tensor, Tensor],
    allowed: float,
    got: Sequence[Array | None],
) -> str:
    """What the port does otherwise, if one change makes torch's updates its own; else empty.

    Args:
        spec: of the optimizer, as ``Follower`` takes it.
        gradients: of the first update, in float64 and in float32.
        allowed: how far the port's gradient may be off.
        got: the port's values after each update, all from ``start``.
    """
    for text, change in CAUSES[spec["optimizer"]]:
        follower = Follower(start, {**spec, **change})
        made = [
            follower.step(start, gradients[0] * less, gradients[1] * less, allowed * less)
            for less in (SHRINK**number for number in range(len(got)))
        ]
        if all(compare_update("", array, update).equal for array, update in zip(got, made, strict=True)):
            return text
    return ""


def optimizer_place(out: Path) -> Place | None:
    """Where the port's training files make the optimizer; None where it has none."""
    for name in ("optimization.py", "train.py"):
        file = out / name
        if not file.is_file():
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name == "make_optimizer":
                return Place(name, node.lineno)
    return None
