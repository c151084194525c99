"""When two tensors count as equal: the one rule of verification, in numpy alone (OUT/verify.py holds a copy)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

ULP = 2.0**-23
"""Distance of neighbouring float32 numbers near 1."""
MULTIPLE, FLOOR = 4.0, 16.0
"""The port may err by 4 times what torch's own float32 errs, plus 16 ulp of the tensor's largest value."""
HUGE = 1e30
"""Larger values (a mask's -inf or finfo.min) must be equal in place and sign, and are not measured."""
ZERO, SMALL = 1e-9, 1e-5
"""A gradient below ZERO of the largest one is zero in exact arithmetic; the port's must then be below SMALL of it."""

SHRINK = 0.5
"""By which gradients shrink from one compared update to the next: while they stay the same, dampened momentum looks
like none, and Adam's averages are the same for every beta."""


@dataclass(frozen=True)
class Truth:
    """What a tensor should be, with what torch's float32 makes of it.

    ``values`` is the float64 result (kept in float32 where a few ulp more do not matter), ``error`` the largest
    deviation of torch's float32 result from it, ``scale`` its largest value. Integers and booleans have error 0.
    """

    values: Array
    error: float
    scale: float

    @property
    def allowed(self) -> float:
        """The largest deviation that is still rounding."""
        return MULTIPLE * self.error + FLOOR * ULP * self.scale

    @property
    def exact(self) -> bool:
        """Whether the values are integers or booleans, which do not round."""
        return self.values.dtype.kind in "iub"


@dataclass(frozen=True)
class Comparison:
    """One tensor of the port against its truth; errors are relative to ``scale``, and absolute where that is 0."""

    name: str
    error: float
    truth_error: float
    scale: float
    equal: bool
    note: str = ""
    allowed: float | None = None
    """The largest error that counts as rounding, where it isn't the usual one (an update's)."""
    share: float = 1.0
    """Of the elements that differ; 1 where it was not counted."""

    @property
    def limit(self) -> float:
        """The largest relative error that counts as rounding."""
        if self.allowed is not None:
            return self.allowed
        return MULTIPLE * self.truth_error + (FLOOR * ULP if self.scale else 0.0)

    @property
    def zero(self) -> bool:
        """The truth is exactly zero: equality shows nothing."""
        return self.scale == 0.0


def make_truth(double: Array, single: Array) -> Truth:
    """The truth of one tensor from torch's float64 and float32 results of one shape."""
    if double.dtype.kind in "iub":
        wrong = np.count_nonzero(double != single)
        return Truth(double, float(wrong), float(np.abs(double.astype(np.int64)).max(initial=0)))
    usual = np.abs(double) < HUGE
    values, near = (double, single) if bool(usual.all()) else (double[usual], single[usual])
    error = np.abs(values - near)
    largest = float(error.max(initial=0.0))
    if not np.isfinite(largest):  # what float32 can't hold says nothing of what may be off elsewhere
        largest = float(error[np.isfinite(error)].max(initial=0.0))
    return Truth(double, largest, float(np.abs(values).max(initial=0.0)))


def compare(name: str, got: Array | None, truth: Truth, tolerance: float = 1.0) -> Comparison:
    """Compare what the port gave (None: nothing of this shape) with the truth, by the rule of the module.

    ``tolerance`` multiplies what is allowed (devices that multiply matrices in less than float32).
    """
    scale = truth.scale or 1.0
    if got is None or got.shape != truth.values.shape:
        found = "nothing" if got is None else str(list(got.shape))
        note = f"shape {list(truth.values.shape)} expected, {found} found"
        return Comparison(name, float("inf"), truth.error / scale, truth.scale, False, note)
    if truth.exact:
        wrong = int(np.count_nonzero(got != truth.values))
        # Torch's two precisions may disagree on integers too (an argmax of near ties).
        equal = wrong <= MULTIPLE * truth.error
        note, share = "" if equal else f"{wrong} of {got.size} integers differ", wrong / max(got.size, 1)
        return Comparison(name, share, truth.error / max(got.size, 1), truth.scale, equal, note, share=share)
    with np.errstate(invalid="ignore", over="ignore"):
        error, note = _largest(got, truth.values)
    equal = bool(error <= truth.allowed * tolerance) and not note
    share = 1.0 if equal or note else _share(got, truth, tolerance)
    return Comparison(name, error / scale, truth.error / scale, truth.scale, equal, note, share=share)


def _share(got: Array, truth: Truth, tolerance: float) -> float:
    with np.errstate(invalid="ignore", over="ignore"):
        return float((np.abs(got - truth.values) > truth.allowed * tolerance).mean())


def _largest(got: Array, want: Array) -> tuple[float, str]:
    """The largest deviation among usual values, and a note where huge values or NaN do not coincide."""
    error = np.abs(got - want)
    largest = float(error.max(initial=0.0))
    if largest < HUGE and np.isfinite(largest):  # NaN anywhere gives NaN here
        return largest, ""
    usual, same = np.abs(want) < HUGE, np.abs(got) < HUGE
    odd = ~usual
    if np.any(usual != same) or np.any(np.isnan(want[odd]) != np.isnan(got[odd])):
        where = np.argwhere(np.logical_or(usual != same, np.isnan(want) != np.isnan(got)))[0]
        place = tuple(int(i) for i in where)
        return float("inf"), f"{got[tuple(where)]} at {place}, expected {want[tuple(where)]}"
    if np.any(np.sign(want[odd]) * np.sign(got[odd]) < 0):
        return float("inf"), "an infinite value has the wrong sign"
    return float(error[usual].max(initial=0.0)), ""


@dataclass(frozen=True)
class Update:
    """One parameter after one update. ``tolerance`` is by element; ``moved`` the largest change of an element."""

    values: Array
    tolerance: Array
    error: float
    """Of torch's own float32, where it is defined."""
    moved: float
    bound: float
    """An element with a larger tolerance is undefined: its update is made of rounding alone."""

    @property
    def defined(self) -> Any:
        """Which elements say something."""
        return self.tolerance <= self.bound


def compare_update(name: str, got: Array | None, truth: Update) -> Comparison:
    """The element that is nearest to its tolerance or beyond it; errors are relative to the largest change."""
    scale = truth.moved or 1.0
    if got is None or got.shape != truth.values.shape:
        found = "nothing" if got is None else str(list(got.shape))
        note = f"shape {list(truth.values.shape)} expected, {found} found"
        return Comparison(name, float("inf"), truth.error / scale, truth.moved, False, note)
    if not got.size:
        return Comparison(name, 0.0, 0.0, 0.0, True)
    with np.errstate(invalid="ignore"):
        error = np.abs(got.astype(np.float64) - truth.values)
        ratio = np.where(np.isfinite(error), error / np.maximum(truth.tolerance, 1e-300), np.inf)
    equal = bool(ratio.max() <= 1)
    if equal:  # what is undefined has no error worth telling
        ratio = np.where(truth.defined, ratio, -1.0)
    worst = int(ratio.argmax())
    if ratio.flat[worst] < 0:
        return Comparison(name, 0.0, 0.0, truth.moved, True)
    allowed = float(truth.tolerance.flat[worst]) / scale
    return Comparison(name, float(error.flat[worst]) / scale, truth.error / scale, truth.moved, equal, allowed=allowed)
