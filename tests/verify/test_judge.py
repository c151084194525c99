"""The rule of equality: rounding passes, everything else does not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ms_port.verify.judge import FLOOR, MULTIPLE, ULP, compare, make_truth

RNG = np.random.default_rng(0)


@given(st.integers(0, 2**31), st.floats(1e-6, 1e6), st.floats(0, 40))
@settings(max_examples=100, deadline=None)
def test_it_agrees_with_brute_force(seed: int, scale: float, ulps: float) -> None:
    rng = np.random.default_rng(seed)
    double = rng.standard_normal((3, 4)) * scale
    single = double.astype(np.float32)
    got = (double + ulps * ULP * np.abs(double).max() * rng.choice([-1, 1], double.shape)).astype(np.float32)
    limit = MULTIPLE * max(abs(double - single).flat) + FLOOR * ULP * max(abs(double).flat)
    want = all(abs(float(g) - float(d)) <= limit for g, d in zip(got.flat, double.flat, strict=True))
    assert compare("x", got, make_truth(double, single)).equal == want


def test_shapes_integers_and_zeros() -> None:
    double = RNG.standard_normal((2, 3))
    truth = make_truth(double, double.astype(np.float32))
    assert not compare("x", double.T.astype(np.float32), truth).equal
    assert "shape [2, 3] expected, [3, 2] found" in compare("x", double.T.astype(np.float32), truth).note
    assert not compare("x", None, truth).equal
    ids = np.arange(6)
    exact = make_truth(ids, ids)
    assert compare("x", ids.astype(np.int32), exact).equal
    assert compare("x", ids + (ids == 3), exact).note == "1 of 6 integers differ"
    zero = make_truth(np.zeros(3), np.zeros(3, np.float32))
    assert compare("x", np.zeros(3, np.float32), zero).equal
    assert compare("x", np.zeros(3, np.float32), zero).zero
    assert not compare("x", np.full(3, 1e-9, np.float32), zero).equal


@pytest.mark.parametrize("lost", [np.inf, np.nan])
def test_what_float32_loses_allows_nothing(lost: float) -> None:
    """An overflow of torch's float32 in one element would otherwise make any result right."""
    double = RNG.standard_normal(8)
    single = double.astype(np.float32)
    single[3] = lost
    truth = make_truth(double, single)
    assert compare("x", double.astype(np.float32), truth).equal
    assert not compare("x", double.astype(np.float32) + 0.01, truth).equal


@pytest.mark.parametrize("huge", [-np.inf, np.inf, np.nan, -1.7e308])
def test_infinite_values_must_coincide_and_hide_nothing(huge: float) -> None:
    double = RNG.standard_normal(8)
    double[2] = huge
    with np.errstate(over="ignore"):
        single = double.astype(np.float32)
    truth = make_truth(double, single)
    assert truth.scale < 10
    masked = single.copy()
    if huge < 0:
        masked[2] = np.finfo(np.float32).min  # finfo.min of float32 stands for that of float64
    assert compare("x", masked, truth).equal
    wrong = masked.copy()
    wrong[5] += 0.01
    assert not compare("x", wrong, truth).equal
    wrong = masked.copy()
    wrong[2] = 0
    assert "expected" in compare("x", wrong, truth).note
    wrong = masked.copy()
    wrong[5] = np.nan
    assert not compare("x", wrong, truth).equal
    if not np.isnan(huge):
        wrong[5], wrong[2] = masked[5], -np.sign(huge) * np.float32(3e38)
        assert not compare("x", wrong, truth).equal
