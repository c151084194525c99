"""Seeded numbers that both sides can make again: noise on fresh parameters, and random draws. Numpy alone."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from ms_port.verify.judge import Array

KINDS = ("parameter", "mean", "variance", "fixed")
"""A trainable parameter, running statistics of a normalisation, and what has a meaning of its own (masks, tables)."""

FEW = 16
"""A draw of no more numbers is of one for each sample of a batch."""


def perturb(name: str, array: Array, kind: str, seed: int) -> Array:
    """The array of one parameter of the port with noise, the same for the same name, seed and array.

    Weights of two and more axes get noise of at least a fifth of 1/sqrt(fan in): enough to tell every element apart,
    little enough that activations keep their size. Vectors (scales, biases) get 0.1. Vectors of positive numbers
    stay positive. Running variances become 0.5 to 2 times what they were.
    """
    if kind == "fixed" or array.dtype.kind != "f" or array.size == 0:
        return array
    noise = np.random.default_rng((seed, zlib.crc32(name.encode()))).standard_normal(array.shape, dtype=np.float32)
    if kind == "variance":
        scaled: Array = (array * np.clip(0.5 + 0.5 * np.abs(noise), 0.5, 2.0)).astype(array.dtype)
        return scaled
    if array.ndim >= 2:
        fan_in = array.size / array.shape[0]
        size = max(0.1 * float(array.std()), 0.2 / float(np.sqrt(fan_in)))
    else:
        size = 0.1
    moved: Array = (array + size * noise).astype(array.dtype)
    positive = array.ndim < 2 and kind == "parameter" and bool((array > 0).all())
    return np.abs(moved) if positive else moved


def numbers(path: str, number: int, kind: str, shape: Sequence[int]) -> Array:
    """What a module draws: normal numbers (kind ``normal``) or uniform ones in [0, 1), in float32.

    Args:
        path: dotted path of the torch module.
        number: of the draw in that module, from 0.
    """
    source = np.random.default_rng(zlib.crc32(f"{path} {number} {tuple(shape)}".encode()))
    if kind == "normal":
        return np.asarray(source.standard_normal(tuple(shape), dtype=np.float32), np.float32)
    count = int(np.prod(shape, dtype=np.int64))
    if 2 <= count <= FEW:
        # One in each of `count` equal parts: a branch that is dropped by sample is then kept for one of them at least,
        # and its parameters have gradients to compare.
        part = (source.permutation(count) + source.integers(0, 1 << 12, count) / (1 << 12)) / count
        return np.asarray((np.floor(part * (1 << 16)) + 0.5) / (1 << 16), np.float32).reshape(tuple(shape))
    # Middles of 65536 steps: no draw lies on a probability, where float32 and float64 could decide otherwise.
    steps = source.integers(0, 1 << 16, tuple(shape), dtype=np.int32)
    return np.asarray((steps + 0.5) / (1 << 16), np.float32)
