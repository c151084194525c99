"""Flags what changes how a module behaves and stands on no line that the port is made of.

Hooks, methods replaced on one instance, modes that do not follow ``train()``, decorators that alter a result, the
backward of an ``autograd.Function``, tensors computed from parameters and kept: torch runs them, the port has no place
for them. They are seen on the live model.
"""

from __future__ import annotations

from dataclasses import replace

from ms_port.capture.recording import Recording
from ms_port.ir.flags import Flag
from ms_port.ir.program import Program
from ms_port.passes.unread.decorators import decorators
from ms_port.passes.unread.derived_tensors import derived_tensors
from ms_port.passes.unread.frozen_parameters import thawed
from ms_port.passes.unread.hooks import hooks
from ms_port.passes.unread.modes import modes
from ms_port.passes.unread.modules import LiveModel
from ms_port.passes.unread.own_backwards import own_backwards
from ms_port.passes.unread.replaced_methods import replaced_methods


def flag_unread_behaviour(program: Program, recording: Recording) -> Program:
    """Add the flags to the finished program (what is not emitted can't be wrong)."""
    model = LiveModel(recording)
    found: dict[Flag, None] = {}
    for part in (
        hooks(model),
        replaced_methods(program, model, recording),
        modes(model),
        decorators(program, recording),
        own_backwards(program, recording),
        thawed(program, model),
        derived_tensors(program, model),
    ):
        found.update(dict.fromkeys(part))
    return replace(program, flags=(*program.flags, *found))
