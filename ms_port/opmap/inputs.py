"""Inputs of examples, written as ``float32[2,3]:0.1:0.9#kind`` (op_maps/README.md)."""

from __future__ import annotations

import re
import zlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

_INPUT = re.compile(
    r"(?P<dtype>\w+)\[(?P<shape>[\d,\s]*)\](?:<(?P<below>-?\d+))?"
    r"(?::(?P<low>-?[\d.]+):(?P<high>-?[\d.]+))?(?:#(?P<kind>\w+))?"
)


def make_input(spec: str, name: str, seed: int) -> torch.Tensor:
    """A seeded tensor: normal floats, or uniform in a range; integers below a limit (5); bools. Raises ValueError."""
    found = _INPUT.fullmatch(spec.replace(" ", ""))
    if not found:
        raise ValueError(f"input {name}: {spec!r}")
    shape = tuple(int(part) for part in found["shape"].split(",") if part)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    dtype: torch.dtype = getattr(torch, found["dtype"])
    if dtype is torch.bool:
        return torch.from_numpy(np.asarray(rng.random(shape) < 0.6))
    if not dtype.is_floating_point and not dtype.is_complex:
        return torch.from_numpy(np.asarray(_integers(rng, shape, int(found["below"] or 5), found["kind"]))).to(dtype)
    array = rng.standard_normal(shape)
    if found["low"] is not None:
        array = rng.uniform(float(found["low"]), float(found["high"]), shape)
    array = np.asarray(_floats(rng, array, found["kind"]))
    if dtype.is_complex:
        return torch.from_numpy(np.asarray(array + 1j * rng.standard_normal(shape))).to(dtype)
    return torch.from_numpy(array).to(torch.float32).to(dtype)


def _integers(rng: np.random.Generator, shape: tuple[int, ...], below: int, kind: str | None) -> NDArray[Any]:
    whole = np.asarray(rng.integers(0, below, shape))
    if kind in ("offsets", "sorted"):
        whole = np.sort(whole)
    if kind == "offsets":  # bags begin at 0, and the last one holds something
        whole[0], whole[-1] = 0, max(whole[-1], below - 2)
    if kind == "places":  # different places in each (sample, channel)
        count = int(np.prod(shape[2:]))
        whole = np.stack([rng.permutation(below)[:count] for _ in range(shape[0] * shape[1])]).reshape(shape)
    return whole * 2 - 1 if kind == "signs" else whole


def _floats(rng: np.random.Generator, array: NDArray[Any], kind: str | None) -> NDArray[Any]:
    match kind:
        case "sorted":
            return np.sort(array)
        case "binary":
            return (array > 0).astype(np.float64)
        case "posdef":
            return np.asarray(array @ np.swapaxes(array, -1, -2) + np.eye(array.shape[-1]))
        case "distinct":
            return rng.permutation(np.linspace(-2, 2, max(1, array.size))).reshape(array.shape)
    return array
