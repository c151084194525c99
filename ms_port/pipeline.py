"""The passes in their order: a recording becomes a program in MindSpore's terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ms_port.capture import Recording
from ms_port.capture.lift import lift
from ms_port.collection import collection_paused
from ms_port.ir.program import Program
from ms_port.opmap import OpMap
from ms_port.passes.aliases import without_aliases
from ms_port.passes.base_constructors import call_bases_by_super
from ms_port.passes.callable_objects import call_objects_as_functions
from ms_port.passes.collected_outputs import collect_outputs
from ms_port.passes.convolution_calls import call_convolutions
from ms_port.passes.decided import settle
from ms_port.passes.filtered_outputs import without_filtered_fields
from ms_port.passes.finish import finish
from ms_port.passes.first_calls import flag_first_calls
from ms_port.passes.functionalize import functionalize
from ms_port.passes.handed_back import hand_back
from ms_port.passes.ignored_inputs import note_ignored_inputs
from ms_port.passes.keyword_dicts import name_entries
from ms_port.passes.ledger import check_ledger
from ms_port.passes.local_state import local_state
from ms_port.passes.loop_names import bind_before_loops
from ms_port.passes.lowering import lower_program
from ms_port.passes.name import unique_names
from ms_port.passes.overlaps import flag_overlaps
from ms_port.passes.own_backward import own_backwards
from ms_port.passes.parameter_names import name_parameters_again
from ms_port.passes.prune import prune
from ms_port.passes.randomness import own_draws
from ms_port.passes.reach import keep_reached
from ms_port.passes.repeated_arguments import state_once
from ms_port.passes.signatures import prune_signatures
from ms_port.passes.unread import flag_unread_behaviour
from ms_port.passes.unread_indices import drop_unread_indices
from ms_port.passes.value_reads import settle_value_reads
from ms_port.passes.walrus import bind_before
from ms_port.passes.wrapped_constructors import merge_wrapped_constructors

Dump = Callable[[str, Program], None]


@dataclass(frozen=True, slots=True)
class Options:
    """What a person may choose about the translation."""

    name: str
    freeze: bool = False
    dump: Dump | None = None
    """Called with each stage's name and program (``--dump-ir``)."""


def translate(recording: Recording, opmap: OpMap, options: Options) -> Program:
    """Run every pass. Raises Untranslatable only where the root itself has no source."""
    with collection_paused():
        return _translate(recording, opmap, options)


def _translate(recording: Recording, opmap: OpMap, options: Options) -> Program:
    program = lift(recording, options.name)
    _dump(options, "capture", program)
    for name, run in _PASSES:
        program = run(program, _Given(recording, opmap, options.freeze))
        _dump(options, name, program)
    return program


@dataclass(frozen=True, slots=True)
class _Given:
    """What a pass may read beside the program."""

    recording: Recording
    opmap: OpMap
    freeze: bool


_PASSES: tuple[tuple[str, Callable[[Program, _Given], Program]], ...] = (
    ("filtered outputs", lambda program, given: without_filtered_fields(program, given.recording)),
    ("callable objects", lambda program, given: call_objects_as_functions(program)),
    ("wrapped constructors", lambda program, given: merge_wrapped_constructors(program)),
    ("ignored inputs", lambda program, given: note_ignored_inputs(program)),
    ("name", lambda program, given: unique_names(program)),
    ("walrus", lambda program, given: bind_before(program)),
    ("base constructors", lambda program, given: call_bases_by_super(program)),
    ("convolution calls", lambda program, given: call_convolutions(program)),
    ("first calls", lambda program, given: flag_first_calls(program)),
    ("prune", lambda program, given: prune(program)),
    ("collect outputs", lambda program, given: collect_outputs(program)),
    ("own backward", lambda program, given: own_backwards(program)),
    ("local state", lambda program, given: local_state(program)),
    ("overlaps", lambda program, given: flag_overlaps(program)),
    ("hand back", lambda program, given: hand_back(program)),
    ("functionalize", lambda program, given: functionalize(program)),
    ("lower", lambda program, given: lower_program(program, given.opmap, given.freeze)),
    ("ledger", lambda program, given: check_ledger(program)),
    ("aliases", lambda program, given: without_aliases(program)),
    ("keyword dicts", lambda program, given: name_entries(program)),
    ("settle", lambda program, given: settle(program)),
    ("signatures", lambda program, given: prune_signatures(program)),
    ("reach", lambda program, given: keep_reached(program)),
    ("draws", lambda program, given: own_draws(program)),
    ("unread indices", lambda program, given: drop_unread_indices(program)),
    ("loop names", lambda program, given: bind_before_loops(program)),
    ("finish", lambda program, given: finish(program)),
    ("repeated arguments", lambda program, given: state_once(program)),
    ("parameter names", lambda program, given: name_parameters_again(program)),
    ("value reads", lambda program, given: settle_value_reads(program)),
    ("unread", lambda program, given: flag_unread_behaviour(program, given.recording)),
)

STAGES = ("capture", *(name for name, _ in _PASSES))


def _dump(options: Options, stage: str, program: Program) -> None:
    if options.dump is not None:
        options.dump(stage, program)
