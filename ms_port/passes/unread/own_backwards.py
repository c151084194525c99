"""Functions with a backward of their own that the port does not have (MSP307)."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ms_port.capture.abstract import canonical_class, is_torch_module
from ms_port.capture.class_source import class_loc
from ms_port.capture.forward import autograd_nodes
from ms_port.capture.recording import Recording
from ms_port.ir.flags import Flag
from ms_port.ir.program import Program
from ms_port.passes.unread.decorators import leaves
from ms_port.passes.unread.modules import function_place


def own_backwards(program: Program, recording: Recording) -> Iterator[Flag]:
    """Functions with a backward of their own that ran: the port differentiates their forward's calls instead."""
    seen: dict[type, None] = {}
    for record in recording.functions:
        for activation in record.activations:
            if activation.mode == "init":
                continue
            for calls in activation.calls.values():
                for call in calls:
                    owner = getattr(call.callee, "__self__", None)
                    if getattr(call.callee, "__name__", "") == "apply" and isinstance(owner, type):
                        seen[owner] = None
    for node in autograd_nodes(t for t in leaves(recording.outputs.get("train")) if isinstance(t, torch.Tensor)):
        if (owner := getattr(node, "_forward_cls", None)) is not None:
            seen[owner] = None
    for cls in seen:
        if not issubclass(cls, torch.autograd.Function) or is_torch_module(cls.__module__):
            continue
        cell = program.cells.get(canonical_class(cls))
        if cell is not None and any(m.name == "bprop" for m in cell.methods):
            continue
        owner = next((c for c in cls.__mro__ if {"backward", "vjp"} & c.__dict__.keys()), None)
        if owner is None or is_torch_module(owner.__module__):
            continue
        place = class_loc(cls)
        yield Flag(
            rule="MSP307",
            severity="error",
            op=canonical_class(cls),
            message=f"{cls.__name__} has a backward of its own; the port's gradient is that of its forward",
            source=place if place.line else function_place(cls.__dict__.get("forward")),
            advice="Write a cell with this `bprop`, if the gradient is meant to differ (or if you train at all).",
        )
