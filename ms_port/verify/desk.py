"""Where the two processes of the train level exchange the state of each step: arrays in files, one step at a time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ms_port.verify.judge import Array

POLL = 0.005
"""Seconds between two looks for what the other side writes."""


class Desk:
    """A folder with float32 arrays by name, in two files: ``state`` for the port, ``result`` from it.

    The torch side writes the state and ``give``s it; the port ``take``s it, writes its result and gives that.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._maps: dict[str, Any] = {}

    def lay_out(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Make both files for arrays of these shapes."""
        self.folder.mkdir(exist_ok=True)
        total = max(1, sum(int(np.prod(shape)) for shape in shapes.values()))
        for kind in ("state", "result"):
            np.lib.format.open_memmap(self.folder / f"{kind}.npy", "w+", np.float32, (total,)).flush()
        (self.folder / "layout.json").write_text(json.dumps({name: list(shape) for name, shape in shapes.items()}))

    def arrays(self, kind: str) -> dict[str, Array]:
        """The arrays of one file by name, as views that write through."""
        layout = json.loads((self.folder / "layout.json").read_text())
        flat = np.lib.format.open_memmap(self.folder / f"{kind}.npy", "r+")
        found, at = {}, 0
        for name, shape in layout.items():
            size = int(np.prod(shape))
            found[name] = flat[at : at + size].reshape(shape)
            at += size
        return found

    def give(self, kind: str, step: int, **words: Any) -> None:
        """Say that the file is ready for this step, with a few words of JSON."""
        note = self.folder / f"{kind}.{step}.json"
        note.with_suffix(".part").write_text(json.dumps(words))
        note.with_suffix(".part").rename(note)

    def take(self, kind: str, step: int, alive: Callable[[], bool] = lambda: True) -> dict[str, Any] | None:
        """Wait for the other side's words; None once it isn't ``alive`` any more."""
        note = self.folder / f"{kind}.{step}.json"
        while not note.exists():
            if not alive() and not note.exists():
                return None
            time.sleep(POLL)
        words: dict[str, Any] = json.loads(note.read_text())
        return words
