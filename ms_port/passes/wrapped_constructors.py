"""A class decorator that put a wrapper in the constructor's place: both are one constructor again.

``def __init__(self, width, *args, **kwargs): original(self, width, *args, **kwargs); self.extra = 1`` is written as the
original constructor with the wrapper's other statements around its own: the port's class has one ``__init__``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from ms_port.ir.program import CellDef, Facts, FunctionDef, ModuleInstance, Program
from ms_port.ir.tree import copy, names_read, names_stored, nid
from ms_port.ir.values import Value, entries_of, items_of
from ms_port.passes.rewrite import all_functions

_Item = TypeVar("_Item")


def merge_wrapped_constructors(program: Program) -> Program:
    """Join each wrapper of a constructor with what it wraps, where it hands its arguments on as they came."""
    while (found := next(_wrapped(program), None)) is not None:
        cell, wrapper, original, at = found
        merged = _merged(wrapper, original, at)
        methods = tuple(merged if m is wrapper else m for m in cell.methods if m is not original)
        modules = {
            path: _with_arguments(module, wrapper, original) if _built_by(program, module.cls, cell.key) else module
            for path, module in program.modules.items()
        }
        cells = {**program.cells, cell.key: replace(cell, methods=methods)}
        program = replace(program, cells=cells, modules=modules)
    return program


def _wrapped(program: Program) -> Iterator[tuple[CellDef, FunctionDef, FunctionDef, int]]:
    """Classes with a wrapper, the constructor behind it, and the statement of the wrapper that calls it."""
    for cell in program.cells.values():
        inits = {m.key: m for m in cell.methods if m.name == "__init__"}
        for wrapper in inits.values() if len(inits) > 1 else ():
            for at, statement in enumerate(wrapper.body):
                if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
                    continue
                entered = {f.entered for f in wrapper.facts.calls.get(nid(statement.value), ())}
                original = inits.get(entered.pop() or "") if len(entered) == 1 else None
                if (
                    original is not None
                    and original is not wrapper
                    and _hands_on(statement.value, wrapper, original)
                    and _fits(program, wrapper, original, at)
                ):
                    yield cell, wrapper, original, at


def _hands_on(call: ast.Call, wrapper: FunctionDef, original: FunctionDef) -> bool:
    """``original(self, a, *args, **kwargs)``: all that the wrapper takes, in its order, by the original's names."""
    args = wrapper.node.args
    given = [a.id for a in call.args if isinstance(a, ast.Name)]
    starred = [a.value.id for a in call.args if isinstance(a, ast.Starred) and isinstance(a.value, ast.Name)]
    keywords = [(k.arg, k.value.id) for k in call.keywords if isinstance(k.value, ast.Name)]
    taken = [a.arg for a in args.args]
    expected = [(None, args.kwarg.arg)] if args.kwarg is not None else []
    return (
        isinstance(call.func, ast.Name)
        and not args.kwonlyargs
        and not args.posonlyargs
        and given == taken == [a.arg for a in original.node.args.args][: len(taken)]
        and starred == ([args.vararg.arg] if args.vararg is not None else [])
        and keywords == expected
        and len(call.args) == len(given) + len(starred)
        and len(call.keywords) == len(keywords)
    )


def _fits(program: Program, wrapper: FunctionDef, original: FunctionDef, at: int) -> bool:
    """Whether the bodies can stand in one function: no name of two meanings, no early end, no other caller."""
    rest = [*wrapper.body[:at], *wrapper.body[at + 1 :]]
    args = original.node.args
    own = {a.arg for a in [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg] if a is not None}
    bound = {n for s in original.body for n in names_stored(s)}
    ends = any(isinstance(n, ast.Return) for s in original.body for n in ast.walk(s))
    callers = [
        f
        for f in all_functions(program)
        if f is not wrapper and any(c.entered == original.key for facts in f.facts.calls.values() for c in facts)
    ]
    clash = {n for s in rest for n in names_stored(s)} & (own | bound)
    taken = wrapper.node.args
    lost = {a.arg for a in (taken.vararg, taken.kwarg) if a is not None}
    reads = names_read(rest)
    calls_base = any(isinstance(n, ast.Name) and n.id == "super" for s in rest for n in ast.walk(s))
    shared = wrapper.facts.closure.keys() & original.facts.closure.keys()
    return not (ends or callers or clash or reads & (bound | lost) or calls_base or shared)


def _merged(wrapper: FunctionDef, original: FunctionDef, at: int) -> FunctionDef:
    """The original's signature and statements, the wrapper's statements around them, under the wrapper's key."""
    trees = [original.node, *original.body]
    shift = 1 + max(
        [nid(n) for tree in trees for n in ast.walk(tree)]
        + [key for facts in _tables(original.facts) for key in facts]
    )  # fmt: skip
    around = [copy(s) for s in wrapper.body]
    for statement in around:
        for node in ast.walk(statement):
            if nid(node) >= 0:
                node.nid += shift  # type: ignore[attr-defined]
            if hasattr(node, "lineno"):
                node.lineno = original.loc.line  # it stands in another file
    facts, outer = original.facts, wrapper.facts
    facts = replace(
        facts,
        ran=_joined(facts.ran, outer.ran, shift),
        values=_joined(facts.values, outer.values, shift),
        calls=_joined(facts.calls, outer.calls, shift),
        closure={**facts.closure, **outer.closure},
        effects=_joined(facts.effects, outer.effects, shift),
        times=_joined(facts.times, outer.times, shift),
        truths=_joined(facts.truths, outer.truths, shift),
        statics=_joined(facts.statics, outer.statics, shift),
    )
    return replace(original, key=wrapper.key, body=(*around[:at], *original.body, *around[at + 1 :]), facts=facts)


def _tables(facts: Facts) -> Iterator[Iterable[int]]:
    yield from (facts.ran, facts.values, facts.calls, facts.effects, facts.times, facts.truths, facts.statics)


def _joined(inner: Mapping[int, _Item], outer: Mapping[int, _Item], shift: int) -> dict[int, _Item]:
    return {**inner, **{key + shift: value for key, value in outer.items()}}


def _built_by(program: Program, cls: str, owner: str) -> bool:
    """Whether the instances of a class get their arguments from the constructor of the owner."""
    cell = program.cells.get(cls)
    if cell is None or cls == owner:
        return cls == owner
    return not any(m.name == "__init__" for m in cell.methods) and any(
        _built_by(program, base, owner) for base in cell.bases
    )


def _with_arguments(module: ModuleInstance, wrapper: FunctionDef, original: FunctionDef) -> ModuleInstance:
    """The arguments that an instance was made with, by the original's names."""
    seen, args = dict(module.arguments), wrapper.node.args
    values: Sequence[Value] = [seen.pop(a.arg) for a in args.args[1:] if a.arg in seen]
    places = [*values, *(items_of(seen.pop(args.vararg.arg, None)) if args.vararg is not None else ())]
    keywords = entries_of(seen.pop(args.kwarg.arg, None)) if args.kwarg is not None else {}
    names = [a.arg for a in original.node.args.args[1:]]
    made = {**dict(zip(names, places, strict=False)), **keywords, **seen}
    return replace(module, arguments=tuple(made.items()))
