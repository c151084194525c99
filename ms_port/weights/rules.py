"""Named, reversible rules by which an array of a torch state dict becomes an array of the port.

A rule moves values and never computes with them: half precisions reach it as their bits (numpy has no bfloat16).
``same``, ``drop`` and ``tied`` are no rules of this table: they move nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class Rule:
    """How one array is carried over: ``backward(forward(a))`` is ``a`` for every array the rule accepts."""

    forward: Callable[[Array], Array]
    backward: Callable[[Array], Array]
    what: str


def _swap_gates(array: Array) -> Array:
    """GRU gates (reset, update, new) <-> (update, reset, new), stacked along the first axis."""
    first, second, last = np.split(array, 3, axis=0)
    return np.concatenate((second, first, last))


RULES: Mapping[str, Rule] = {
    "transpose": Rule(np.transpose, np.transpose, "axes reversed: (in, out) <-> (out, in)"),
    "conv1d_to_2d": Rule(
        lambda a: np.expand_dims(a, -2), lambda a: np.squeeze(a, -2), "(out, in, k) <-> (out, in, 1, k)"
    ),
    "flip_kernel_2d": Rule(
        lambda a: np.flip(a, (-2, -1)), lambda a: np.flip(a, (-2, -1)), "both axes of each kernel reversed"
    ),
    "gru_gates": Rule(_swap_gates, _swap_gates, "gates (reset, update, new) <-> (update, reset, new)"),
    "flatten": Rule(
        lambda a: np.reshape(a, -1) if a.ndim == 0 else a,
        lambda a: np.reshape(a, ()) if a.shape == (1,) else a,
        "a scalar <-> an array of one element",
    ),
}
