"""The MindSpore side of ``--compare``: runs a migrated script with the draws and first weights of the torch run.

``python -m ms_port.script.replay_mindspore FOLDER SCRIPT ARGS...``. Only ms_port.script.compare starts it.
"""

from __future__ import annotations

import copy
import importlib
import importlib.abc
import importlib.machinery
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ms_port.script.draws import Draws, seed_python
from ms_port.script.shown import OPTIMIZER, show_mindspore


def main(folder: str, script: str, arguments: list[str]) -> None:
    import mindspore as ms

    root = Path(script).resolve().parent
    draws = Draws(root)
    loader = Weights(ms, Path(folder))
    _random(ms, draws)
    _numpy(ms)
    _dropout(ms, draws)
    _calls(ms, loader, draws)
    show_mindspore(ms)
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(root))
    sys.meta_path.insert(0, Parts(draws, loader))
    seed_python()
    runpy.run_path(script, run_name="__main__")


class Weights:
    """Puts the saved states into cells, one after the other as they come into use."""

    def __init__(self, ms: Any, folder: Path) -> None:
        self.ms, self.folder = ms, folder
        self.seen: set[int] = set()
        self.kept: list[Any] = []
        self.taken = 0
        self.depth = 0
        """How many cells are being called."""

    def __call__(self, cell: Any, used: bool = True) -> None:
        holders = [inner for _, inner in cell.cells_and_names() if _own("", inner)]
        if id(cell) in self.seen and all(id(inner) in self.seen for inner in holders):  # else it got another layer
            return
        self.kept.append(cell)
        if holders and all(id(inner) in self.seen for inner in holders):  # a wrapper around what is in use
            self.seen.add(id(cell))
            return
        if used:
            self.mark(cell)
        have = {name: p for path, inner in cell.cells_and_names() for name, p in _own(path, inner)}
        if not have:
            return
        file = self.folder / f"{self.taken}.npz"
        self.taken += 1
        if not file.exists():
            raise SystemExit(f"compare: the torch script used {self.taken - 1} models, this one uses more")
        saved = dict(np.load(file))
        missing, extra = sorted(have.keys() - saved.keys()), sorted(saved.keys() - have.keys())
        if missing or extra:
            raise SystemExit(
                f"compare: other parameters than in torch: without a value {missing[:5]}, left over {extra[:5]}"
            )
        for name, array in saved.items():
            if tuple(have[name].shape) != array.shape:
                raise SystemExit(f"compare: {name} has shape {have[name].shape}, in torch {array.shape}")
            have[name].set_data(self.ms.Tensor(array.copy())) if hasattr(have[name], "set_data") else have[
                name
            ].assign_value(self.ms.Tensor(array.copy()))

    def mark(self, cell: Any) -> None:
        self.kept.append(cell)
        self.seen.update(id(inner) for _, inner in cell.cells_and_names())


def _own(path: str, cell: Any) -> list[tuple[str, Any]]:
    own = [*cell._params.items(), *getattr(cell, "_buffers", {}).items()]
    return [(f"{path}.{name}" if path else name, tensor) for name, tensor in own if tensor is not None]


def _random(ms: Any, draws: Draws) -> None:
    def shaped(kind: str) -> Any:
        def draw(*size: Any, seed: Any = None, dtype: Any = None) -> Any:
            shape = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
            found = ms.Tensor(getattr(draws, kind)(tuple(shape)))
            return found if dtype is None else found.astype(dtype)

        return draw

    def like(kind: str) -> Any:
        return lambda tensor, seed=None, dtype=None: ms.Tensor(getattr(draws, kind)(tuple(tensor.shape))).astype(
            dtype or tensor.dtype
        )

    ms.ops.randn, ms.ops.rand = shaped("normal"), shaped("uniform")
    ms.ops.randn_like, ms.ops.rand_like = like("normal"), like("uniform")


def _numpy(ms: Any) -> None:
    """MindSpore takes the seeds of initial values from numpy's numbers, torch does not: the script's own go on as in torch."""
    numbers = np.random.RandomState(0)
    initializer: Any = importlib.import_module("mindspore.common.initializer")
    initializer._numpy_seed = lambda: numbers.randint(1, 1 << 63, dtype=np.int64)
    set_seed = ms.set_seed

    def besides_numpy(seed: int) -> None:
        state = np.random.get_state()
        set_seed(seed)
        np.random.set_state(state)

    ms.set_seed = besides_numpy


def _dropout(ms: Any, draws: Draws) -> None:
    def dropout(input: Any, p: float = 0.5, training: bool = True, seed: Any = None) -> Any:
        if not training or p == 0:
            return input
        return input * ms.Tensor(draws.mask(tuple(input.shape), p)).astype(input.dtype)

    ms.ops.dropout = dropout
    ms.nn.Dropout.construct = lambda self, x: dropout(
        x, self.p if self.p is not None else 1 - self.keep_prob, self.training
    )


def _calls(ms: Any, loader: Weights, draws: Draws) -> None:
    call, state, deepcopy = ms.nn.Cell.__call__, ms.nn.Cell.state_dict, copy.deepcopy

    def called(self: Any, *args: Any, **options: Any) -> Any:
        if not loader.depth:  # a cell inside another one may be no registered child
            loader(self)
        loader.depth += 1
        try:
            return call(self, *args, **options)
        finally:
            loader.depth -= 1

    def state_dict(self: Any, *args: Any, **options: Any) -> Any:
        if draws.from_script():
            loader(self, False)
        return state(self, *args, **options)

    def copied(item: Any, memo: Any = None) -> Any:
        if not isinstance(item, ms.nn.Cell):
            return deepcopy(item, memo)
        loader(item, False)
        made = deepcopy(item, memo)
        loader.mark(made)
        return made

    ms.nn.Cell.__call__, ms.nn.Cell.state_dict = called, state_dict
    copy.deepcopy = copied  # type: ignore[assignment]


class Parts(importlib.abc.MetaPathFinder):
    """Gives the project's ms_parts the draws of the comparison once it is imported."""

    def __init__(self, draws: Draws, loader: Weights) -> None:
        self.draws, self.loader = draws, loader

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.rpartition(".")[2] != "ms_parts":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            run(module)
            if hasattr(module, "permutation"):
                module.permutation = self.draws.permutation
            if hasattr(module, "Optimizer"):
                module.Optimizer.__repr__ = lambda optimizer: OPTIMIZER
            if hasattr(module, "drawn"):
                module.drawn = self.draws.number
            if hasattr(module, "_prefetched"):
                module._prefetched = lambda make, workers: (batch() for batch in make)
            for given in ("all_parameters", "named_parameters", "state_of"):
                if hasattr(module, given):
                    setattr(module, given, self._loading(getattr(module, given)))

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def _loading(self, original: Any) -> Any:
        def wrapped(*cells: Any, **options: Any) -> Any:
            inside = sys._getframe(1).f_code.co_filename.endswith("ms_parts.py")
            for cell in () if inside else cells:
                if hasattr(cell, "cells_and_names"):
                    self.loader(cell, False)
            return original(*cells, **options)

        return wrapped


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
