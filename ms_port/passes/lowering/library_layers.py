"""Layers of a library that a row of the op map names: they are known as a whole, like torch's own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ms_port.ir.program import CallFact, Program
from ms_port.ir.values import ModuleValue
from ms_port.opmap import OpMap


def without_library_layers(program: Program, opmap: OpMap) -> Program:
    """The program without the source of classes that have a row."""
    cells = {key: cell for key, cell in program.cells.items() if key == program.root or opmap.row(key) is None}
    return program if len(cells) == len(program.cells) else replace(program, cells=cells)


def library_calls(program: Program, opmap: OpMap, facts: Iterable[CallFact]) -> set[int]:
    """Torch calls that such layers made inside these calls of a layer, or of a container of layers."""
    found: set[int] = set()
    for fact in facts:
        if not isinstance(fact.callee, ModuleValue) or fact.callee.path is None:
            continue
        packages = _packages(program, opmap, fact.callee)
        entries = (program.ledger[i] for i in fact.torch_calls)
        found |= {e.index for e in entries if e.function and e.function.partition(":")[0].split(".")[0] in packages}
    return found


def _packages(program: Program, opmap: OpMap, module: ModuleValue) -> set[str]:
    """Packages of the library layers at or below a module."""
    start = module.path or ""
    below = [m.cls for path, m in program.modules.items() if path == start or path.startswith(f"{start}.")]
    classes = {cls for cls in [module.cls, *below] if not cls.startswith("torch.") and cls not in program.cells}
    return {cls.split(".")[0] for cls in classes if opmap.row(cls) is not None}
