"""Modules whose mode does not follow ``train()`` (MSP309)."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

from ms_port.capture.abstract import is_torch_module
from ms_port.capture.forward import preserved, set_training
from ms_port.ir.flags import Flag
from ms_port.passes.unread.modules import LiveModel, function_place


def modes(model: LiveModel) -> Iterator[Flag]:
    """Modules whose mode is not that of the model: a class's own ``train`` keeps them (frozen normalisation)."""
    overriding = {
        path: owner
        for path, module in model.modules.items()
        if path not in model.scripted and (owner := _mode_owner(type(module))) is not None
    }
    if not overriding:
        return
    kept: dict[tuple[str, bool], list[str]] = {}
    with preserved(model.root):
        for mode in (False, True):
            set_training(model.root, mode)
            for path, module in model.modules.items():
                above = _nearest(path, overriding)
                if module.training != mode and above is not None:
                    kept.setdefault((above, mode), []).append(path)
    for (above, mode), paths in kept.items():
        method, cls = overriding[above]
        names = ", ".join(model.name(p) for p in paths[:4]) + (f" and {len(paths) - 4} more" if len(paths) > 4 else "")
        yield Flag(
            rule="MSP309",
            severity="error",
            message=f"{cls.__name__}.{method} keeps {names} in {'evaluation' if mode else 'training'} mode; "
            "`set_train` of the port sets every cell",
            module=above,
            source=function_place(cls.__dict__[method]),
            advice=f"After `set_train({mode})` call `set_train({not mode})` on these cells of the port.",
        )


def _mode_owner(cls: type) -> tuple[str, type] | None:
    for base in cls.__mro__:
        if is_torch_module(base.__module__):
            continue
        for name in ("train", "eval"):
            if isinstance(base.__dict__.get(name), types.FunctionType):
                return name, base
    return None


def _nearest(path: str, paths: Any) -> str | None:
    while path not in paths:
        if not path:
            return None
        path = path.rpartition(".")[0]
    return path
