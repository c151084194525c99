"""Tensors that a constructor computed from parameters and kept: torch differentiates through them (MSP107)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch

from ms_port.ir.flags import Flag
from ms_port.ir.program import Program
from ms_port.passes.rewrite import all_functions
from ms_port.passes.unread.modules import LiveModel


def derived_tensors(program: Program, model: LiveModel) -> Iterator[Flag]:
    """``self.turned = self.weight.t()``: the port has it as a tensor of its own, through which no gradient goes."""
    read = {
        node.attr
        for function in all_functions(program)
        if not function.during_init
        for statement in function.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Attribute)
    }
    for path, module in model.modules.items():
        for name, value in module.__dict__.items():
            if isinstance(value, torch.Tensor) and value.grad_fn is not None and name in read:
                yield Flag(
                    rule="MSP107",
                    severity="warning",
                    message=f"`{name}` of {model.name(path)} was computed from parameters when the model was made: "
                    "in the port no gradient reaches these through it",
                    module=path,
                    source=model.place(path),
                    advice="Compute it in forward, where it is used.",
                )
