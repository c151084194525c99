"""The Python face: ``convert``, ``verify`` (in ``ms_port.verify``) and ``load``."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ms_port.conversion import LEVELS, Level, Progress, Request, run
from ms_port.errors import BadInput
from ms_port.report import Report


@dataclass(frozen=True)
class Port:
    """A finished port: its folder and its report."""

    out: Path
    report: Report

    @property
    def status(self) -> str:
        """``ok``, ``flagged`` or ``failed``."""
        return self.report.status


def convert(
    model_or_factory: Any,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    out: str | Path,
    weights: str | Path | None = None,
    static: Mapping[str, int] | None = None,
    target: str = "cpu",
    op_maps: Sequence[str | Path] = (),
    freeze: bool = False,
    verify: Level = "forward",
    name: str | None = None,
    progress: Progress | None = None,
) -> Port:
    """Write a MindSpore port of a torch model into the folder ``out``.

    Args:
        model_or_factory: an ``nn.Module``, or a class or function that makes one when called without arguments.
        args, kwargs: example arguments of ``forward``.
        weights: a checkpoint file or ``from_pretrained`` folder; else the model's own weights are taken.
        static: names for sizes of the inputs: a dimension of that size carries the name in port.json.
        target: ``cpu`` or ``ascend``.
        op_maps: directories with rows of your own.
        freeze: write sizes as numbers.
        verify: the level to verify, or ``none``.
        name: of the package; made of the model's name otherwise.
        progress: called with an Event when a stage begins and ends.

    Raises BadInput for what can be mended; ``out`` is then as it was.
    """
    from ms_port.capture import Inputs

    if verify not in LEVELS:
        raise BadInput(f"there is no level '{verify}'", where="verify", advice=f"one of {', '.join(LEVELS)}")
    request = Request(
        target=model_or_factory,
        inputs=Inputs(tuple(args), dict(kwargs or {})),
        out=Path(out),
        weights=Path(weights) if weights is not None else None,
        static=dict(static or {}),
        platform=target,
        op_maps=tuple(Path(p) for p in op_maps),
        freeze=freeze,
        level=verify,
        name=name,
        command=f"ms_port.convert({getattr(model_or_factory, '__name__', type(model_or_factory).__name__)}, ...)",
    )
    return Port(request.out, run(request, progress).report)


def load(out: str | Path) -> tuple[Any, dict[str, Any]]:
    """Build the cell of the port in ``out`` with its weights; returns it with the content of port.json.

    Imports MindSpore. The cell is in evaluation mode; call ``set_train`` before its first call to train it.
    Raises BadInput where ``out`` is no port.
    """
    folder = Path(out)
    try:
        spec = json.loads((folder / "port.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"{folder} holds no port.json", advice="name a folder that ms-port convert wrote") from None
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")  # before MindSpore runs anything
    package = _import_package(folder / spec["package"])
    cell = package.build_model()
    weights = folder / "weights.safetensors"
    if weights.is_file():
        package.load_weights(cell, str(weights))
    cell.set_train(False)
    return cell, spec


def _import_package(folder: Path) -> Any:
    """Import a port's package from its folder, under a new name: it may have been written again, or share its name."""
    name = f"{folder.name}_{uuid.uuid4().hex[:8]}"
    found = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if found is None or found.loader is None:
        raise BadInput(f"{folder} is no package", advice="convert the model again")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
