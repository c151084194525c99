"""Methods that were replaced on one instance (MSP308)."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from ms_port.capture.abstract import canonical_class
from ms_port.capture.chosen_forward import chosen_forwards
from ms_port.capture.recording import Recording
from ms_port.ir.flags import Flag
from ms_port.ir.program import Program
from ms_port.passes.rewrite import all_functions
from ms_port.passes.unread.modules import LiveModel, described

_ALWAYS = frozenset({"forward", "train", "eval"})
"""Methods that torch calls without a line of the source that names them."""


def replaced_methods(program: Program, model: LiveModel, recording: Recording) -> Iterator[Flag]:
    """Methods in an instance's own dictionary, where the port has that of its class."""
    followed = _in_flat_functions(program, recording)
    chosen = chosen_forwards(model.modules.values())
    emitted = {(f.owner, "forward" if f.name == "construct" else f.name) for f in all_functions(program)}
    for path, module in model.modules.items():
        if path in model.scripted:
            continue
        for name, value in module.__dict__.items():
            if not callable(value) or isinstance(value, type | torch.Tensor) or _is_own(module, name, value):
                continue
            owner = next((c for c in type(module).__mro__ if name in c.__dict__), None)
            if name == "forward" and type(module) in chosen:
                continue
            if owner is None or not isinstance(owner.__dict__[name], types.FunctionType | staticmethod | classmethod):
                continue
            if name == "forward" and id(module) in followed:
                continue
            if name in _ALWAYS or (canonical_class(owner), name) in emitted:
                yield Flag(
                    rule="MSP308",
                    severity="error",
                    message=f"`{name}` of {model.name(path)} is replaced on the instance ({described(value)}); "
                    f"the port has that of {type(module).__name__}",
                    module=path,
                    source=model.place(path),
                    advice="Make a class of its own with this method and use it for this module.",
                )


def _in_flat_functions(program: Program, recording: Recording) -> set[int]:
    """ids of modules of whose every seen call the traced calls stand in the port, whatever ``forward`` is."""
    inside: dict[int, bool] = {}
    for record in recording.functions:
        for activation in record.activations:
            for call in (c for calls in activation.calls.values() for c in calls if activation.mode != "init"):
                if isinstance(call.callee, nn.Module):
                    made = set(range(call.start, call.stop))
                    key = id(call.callee)
                    inside[key] = inside.get(key, True) and bool(made) and made <= program.claimed
    return {key for key, whole in inside.items() if whole}


def _is_own(module: nn.Module, name: str, value: Any) -> bool:
    """The class's own method, bound and kept (``self.forward = self.forward``)."""
    own = getattr(type(module), name, None)
    return getattr(value, "__func__", value) is own and getattr(value, "__self__", module) is module
