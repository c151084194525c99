"""Lowering: every statement and call in MindSpore's terms, from the root outward; the rest is left out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from ms_port.ir.program import CellDef, FunctionDef, Program, Stub
from ms_port.ir.values import TensorValue
from ms_port.opmap import OpMap
from ms_port.passes.lowering.base_layers import is_base_forward
from ms_port.passes.lowering.children import with_lists
from ms_port.passes.lowering.factory import lower_factory
from ms_port.passes.lowering.functions import lower_function, unsupported_constructor, unsupported_function
from ms_port.passes.lowering.held import container_base, held_init, note_held
from ms_port.passes.lowering.held_bases import past_base_constructors
from ms_port.passes.lowering.inherited import find_method
from ms_port.passes.lowering.layer_constructors import filled_container, give_constructors
from ms_port.passes.lowering.library_layers import without_library_layers
from ms_port.passes.lowering.scope import Untranslatable, Work
from ms_port.passes.lowering.without_batch import unbatched

__all__ = ["Stub", "find_method", "lower_program"]


def lower_program(program: Program, opmap: OpMap, freeze: bool = False) -> Program:
    """The program in MindSpore's terms: its cells, functions, constants and stubs."""
    program = without_library_layers(program, opmap)
    work = Work(program, opmap, freeze=freeze, unbatched=unbatched(program))
    give_constructors(work)
    program = work.program
    root = find_method(program, program.root, "forward")
    if program.root_cell is not None:
        work.cells.add(program.root)
    if root is not None:
        work.active.add(root.key)
        try:
            work.lowered[root.key] = lower_function(work, root, root=True)
        except Untranslatable as error:
            work.lowered[root.key] = unsupported_function(work, root, error)
        work.active.discard(root.key)
    factory = lower_factory(work)
    inits = _lower_constructors(work)
    return _assemble(work, factory, inits)


def _lower_constructors(work: Work) -> dict[str, FunctionDef]:
    """Every needed class has a constructor: its own, or one from what its instances hold."""
    done: dict[str, FunctionDef] = {}
    while todo := [c for c in sorted(work.cells) if c not in done and work.program.cells[c].instances]:
        for cls in todo:
            done[cls] = _constructor(work, cls)
            _lower_forward(work, cls)
    return {cls: init for cls, init in done.items() if init is not _NONE}


def _lower_forward(work: Work, cls: str) -> None:
    """The forward of a class that only torch's containers call. What can't be kept raises in the port."""
    forward = find_method(work.program, cls, "forward")
    if forward is None or forward.during_init or forward.key in work.lowered:
        return
    if is_base_forward(work.program, cls):
        work.claimed |= set(_run_by_containers(work.program, forward))
        return
    try:
        work.need(forward.key)
    except Untranslatable as error:
        work.lowered[forward.key] = unsupported_function(work, forward, error)


def _run_by_containers(program: Program, forward: FunctionDef) -> Iterator[int]:
    """Calls of a forward that is its torch base's, for layers that torch's Sequential calls: no line stands there."""
    for entry in program.ledger:
        if entry.function != forward.key:
            continue
        names = {v.parameter for v in (*entry.args, *(v for _, v in entry.kwargs)) if isinstance(v, TensorValue)}
        layers = {name.rpartition(".")[0] for name in names if name}
        holders = [program.modules.get(path.rpartition(".")[0]) for path in layers]
        if holders and all(holder is not None and holder.is_torch for holder in holders):
            yield entry.index


_NONE = FunctionDef.__new__(FunctionDef)


def _constructor(work: Work, cls: str) -> FunctionDef:
    init = find_method(work.program, cls, "__init__")
    if cls not in work.held:
        if init is None and _base_constructs(work.program, cls):
            return filled_container(work, cls) or _NONE
        if init is not None and init.during_init:
            try:
                work.need(init.key)
                return work.lowered[init.key] if init.owner == cls else _NONE
            except Untranslatable as error:
                note_held(work, init, error)
    work.held.add(cls)
    if container_base(work.program, cls) is not None:
        return filled_container(work, cls) or _NONE
    try:
        return held_init(work, cls)
    except Untranslatable as error:
        return unsupported_constructor(work, cls, error)


def _base_constructs(program: Program, cls: str) -> bool:
    """Whether a class without a constructor of its own is a torch container, whose base makes it."""
    cell = program.cells[cls]
    return any(b.startswith("torch.nn.") and b != "torch.nn.Module" for b in cell.bases) or any(
        _base_constructs(program, b) for b in cell.bases if b in program.cells
    )


def _assemble(work: Work, factory: FunctionDef, inits: dict[str, FunctionDef]) -> Program:
    program = work.program
    cells: dict[str, CellDef] = {}
    for key, cell in program.cells.items():
        methods = [work.lowered[m.key] for m in cell.methods if m.key in work.lowered and m.name != "__init__"]
        init = inits.get(key) or next(
            (
                work.lowered[m.key]
                for m in cell.methods
                if m.name == "__init__" and m.key in work.lowered and key not in work.held
            ),
            None,
        )
        attributes = tuple(a for a in cell.attributes if _is_read(work, key, a))
        own = ([init] if init is not None else []) + methods
        cells[key] = replace(cell, methods=tuple(own), attributes=attributes)
    cells = past_base_constructors(cells, work.held)
    functions = {k: work.lowered[k] for k in program.functions if k in work.lowered}
    program = with_lists(replace(program, cells=cells), work.listed)
    return replace(
        program,
        functions={**functions, **work.generated},
        factory=factory,
        constants=dict(work.constants),
        configs={k: dict(v) for k, v in work.config_fields.items()},
        flags=(*program.flags, *work.flags),
        drops=(*program.drops, *work.drops),
        op_functions=frozenset(work.op_functions),
        stubs=tuple(work.stubs.values()),
        loaded_buffers=frozenset(_loaded(work)),
        layer_bases=dict(work.layer_bases),
        claimed=frozenset(work.claimed),
        decided=(*program.decided, *sorted(work.decided, key=str)),
    )


def _loaded(work: Work) -> Iterator[str]:
    """Buffers and attributes that torch does not save and the port does not compute."""
    program = work.program
    for path, tensor in [*program.parameters.items(), *program.tensor_attributes.items()]:
        owner, _, name = path.rpartition(".")
        module = program.modules.get(owner)
        unsaved = tensor.kind not in ("parameter", "buffer")
        if unsaved and module is not None and (module.cls, name) in work.allocated:
            yield path


def _is_read(work: Work, cls: str, statement: ast.stmt) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return any(isinstance(t, ast.Name) and (cls, t.id) in work.class_attributes for t in targets)
