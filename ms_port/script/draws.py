"""Random numbers by call: the same sequence of draws gives the same numbers on both sides of ``--compare``."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def seed_python() -> None:
    """Python's and numpy's numbers, which a script that seeds torch alone draws anew in each run."""
    random.seed(0)
    np.random.seed(0)


class Draws:
    """One counter a kind of draw; a draw depends on nothing but its number and shape."""

    def __init__(self, root: Path) -> None:
        self.root = str(root.resolve())
        self.counts: Counter[str] = Counter()

    def from_script(self, depth: int = 2) -> bool:
        """Whether the function that asks was called by a file of the script's folder, as the person wrote it."""
        name = sys._getframe(depth).f_code.co_filename
        return name.startswith(self.root) and not name.endswith("ms_parts.py")

    def from_transforms(self, depth: int = 2) -> bool:
        """Whether a transform of torchvision asks."""
        name = sys._getframe(depth).f_code.co_filename.replace("\\", "/")
        return "/torchvision/transforms/" in name

    def number(self) -> float:
        """One of [0, 1), for a transform."""
        return float(self._generator("transform").random(dtype=np.float32))

    def _generator(self, kind: str) -> np.random.Generator:
        self.counts[kind] += 1
        return np.random.default_rng([self.counts[kind], sum(kind.encode())])

    def normal(self, shape: tuple[int, ...]) -> NDArray[Any]:
        return np.asarray(self._generator("normal").standard_normal(shape), np.float32)

    def uniform(self, shape: tuple[int, ...]) -> NDArray[Any]:
        return np.asarray(self._generator("uniform").random(shape), np.float32)

    def mask(self, shape: tuple[int, ...], p: float) -> NDArray[Any]:
        """What dropout multiplies with."""
        kept = self._generator("dropout").random(shape) >= p
        return np.asarray(kept / (1 - p) if p < 1 else kept * 0, np.float32)

    def permutation(self, count: int, generator: object = None) -> list[int]:
        """The same on both sides, whatever the ``generator``."""
        return [int(i) for i in self._generator("order").permutation(count)]
