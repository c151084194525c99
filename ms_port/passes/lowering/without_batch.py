"""Convolutions that torch's own code (a Sequential, the model itself) calls without a batch."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ms_port.ir.program import Program
from ms_port.ir.values import TensorValue
from ms_port.passes.lowering.scope import Work, mark_functions

_CALLERS = ("torch.nn.Sequential", "torch.nn.Module")
_CONVOLUTIONS = {f"nn.Conv{n}d": f"Conv{n}dWithoutBatch" for n in (1, 2, 3)}


def unbatched(program: Program) -> frozenset[str]:
    """Paths of the convolutions that get no batch in any of their calls, and that a Sequential calls or nobody."""
    seen: dict[str, set[bool]] = {}
    for entry in program.ledger:
        match entry.args:
            case (TensorValue() as x, TensorValue(parameter=str(weight)) as w, *_) if _is_convolution(entry.api):
                seen.setdefault(weight.rpartition(".")[0], set()).add(x.ndim == w.ndim - 1)
    modules = program.modules
    return frozenset(
        path
        for path, missing in seen.items()
        if missing == {True} and path in modules and (not path or modules[path.rpartition(".")[0]].cls in _CALLERS)
    )


def _is_convolution(api: str) -> bool:
    return api.rpartition(".")[2] in ("conv1d", "conv2d", "conv3d")


def without_batch(work: Work, made: ast.expr, paths: Iterable[str]) -> ast.expr:
    """The layer that takes no batch, where each of the modules that an expression makes is called so."""
    asked = list(paths)
    if not isinstance(made, ast.Call) or not asked or not all(path in work.unbatched for path in asked):
        return made
    name = _CONVOLUTIONS.get(ast.unparse(made.func))
    if name is None:
        return made
    work.op_functions.add(name)
    return ast.Call(mark_functions(ast.Name(name, ast.Load()), frozenset([name])), made.args, made.keywords)
