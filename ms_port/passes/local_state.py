"""Local state: an attribute that one call of a method sets and reads again becomes a local variable.

``self.h = self.lin(x); return self.h * 2`` -> ``h = self.lin(x); return h * 2``. GRAPH_MODE keeps no state on a cell,
and what is read back from such an attribute has gradient zero. An attribute that other methods read, or that may be
read before it is set, stays: lowering refuses it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeGuard

from ms_port.ir.flags import Flag
from ms_port.ir.program import FunctionDef, Program, SourceLoc
from ms_port.ir.tree import copy, is_self_attribute, nid, ported
from ms_port.ir.values import Literal, ModuleValue
from ms_port.passes.rewrite import all_functions, map_functions

_Uses = dict[tuple[str, str], set[str]]
"""(class, attribute) -> keys of the functions that read or set it."""


def local_state(program: Program) -> Program:
    """Rewrite every graph function whose attributes of ``self`` live for one call only."""
    uses: _Uses = defaultdict(set)
    for function in all_functions(program):
        if not function.during_init:
            for owner, name in _uses(function):
                uses[owner, name].add(function.key)
    flags: list[Flag] = []
    changed = map_functions(program, lambda function: _localised(program, function, uses, flags))
    return replace(changed, flags=(*changed.flags, *flags))


def _localised(program: Program, function: FunctionDef, uses: _Uses, flags: list[Flag]) -> FunctionDef:
    if function.during_init:
        return function
    owners = [v for v in function.facts.parameters.get("self", ()) if isinstance(v, ModuleValue)]
    taken = {n.id for s in function.body for n in ast.walk(s) if isinstance(n, ast.Name)}
    taken |= {a.arg for a in ast.walk(function.node.args) if isinstance(a, ast.arg)}
    names: dict[str, str] = {}
    first: list[ast.stmt] = []
    for name, place in _stored(function.body).items():
        used_by = {key for owner in owners for key in uses.get((owner.cls, name), ())}
        if (
            not owners
            or used_by != {function.key}
            or not _is_read(function.body, name)
            or any(_is_registered(program, owner, name) for owner in owners)
        ):
            continue
        lives_on = _defined(function.body, name, False) is None
        if lives_on and (_only_counts(function.body, name) or not all(_begins_plain(program, o, name) for o in owners)):
            continue
        names[name] = _free(name, taken)
        taken.add(names[name])
        flags.append(_lives_on(function, name, place) if lives_on else _flag(function, name, place))
        if lives_on:
            begin = ported(ast.Attribute(ported(ast.Name("self", ast.Load())), name, ast.Load()))
            first.append(ast.copy_location(ast.Assign([ast.Name(names[name], ast.Store())], begin), function.body[0]))
    if not names:
        return function
    body = tuple(_Local(names).visit(copy(statement)) for statement in function.body)
    return replace(function, body=(*first, *body))


def _only_counts(body: Sequence[ast.stmt], name: str) -> bool:
    """Whether the attribute is read only to set itself anew: ``self.n += 1``, ``self.n = self.n + 1``."""
    plain = [s for statement in body for s in ast.walk(statement) if isinstance(s, ast.stmt)]
    own = [
        s for s in plain
        if (isinstance(s, ast.AugAssign) and _is_it(s.target, name))
        or (isinstance(s, ast.Assign) and any(_is_it(t, name) for t in s.targets))
    ]  # fmt: skip
    reads = sum(_is_it(n, name) and isinstance(n.ctx, ast.Load) for s in body for n in ast.walk(s))
    return reads == sum(_is_it(n, name) and isinstance(n.ctx, ast.Load) for s in own for n in ast.walk(s))


def _is_it(node: ast.AST, name: str) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and is_self_attribute(node) and node.attr == name


def _begins_plain(program: Program, owner: ModuleValue, name: str) -> bool:
    """Whether the attribute holds a plain value (a count, None) when the model is built."""
    module = program.modules.get(owner.path or "")
    return module is not None and isinstance(dict(module.attributes).get(name), Literal)


def _lives_on(function: FunctionDef, name: str, place: ast.AST) -> Flag:
    return Flag(
        rule="MSP402",
        severity="warning",
        message=f"`self.{name}` lives on from call to call; the port begins each call with its first value",
        module=function.owner or function.key,
        source=SourceLoc(function.loc.file, getattr(place, "lineno", function.loc.line)),
        advice="Pass the value in and return the new one, or keep it in a Parameter.",
    )


def _uses(function: FunctionDef) -> Iterator[tuple[str, str]]:
    """Attributes of modules by the module's class; a name in ``getattr`` is one too."""
    own = function.facts.parameters.get("self", ())
    for node in (n for statement in function.body for n in ast.walk(statement)):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                bases = own
            case ast.Attribute(value=base, attr=name):
                bases = function.facts.values.get(nid(base), ())
            case ast.Call(func=ast.Name(id="getattr" | "hasattr"), args=[_, ast.Constant(value=str(name)), *_]):
                # read before it is set, or at an unknown time: two users make it no local
                yield from ((v.cls, name) for v in own if isinstance(v, ModuleValue))
                continue
            case _:
                continue
        yield from ((v.cls, name) for v in bases if isinstance(v, ModuleValue))


def _stored(body: Sequence[ast.stmt]) -> dict[str, ast.AST]:
    """Attributes that assignments set on ``self``, with the first place."""
    found: dict[str, ast.AST] = {}
    for node in (n for statement in body for n in ast.walk(statement)):
        if is_self_attribute(node) and isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.setdefault(node.attr, node)
    return found


def _is_read(body: Sequence[ast.stmt], name: str) -> bool:
    return any(_reads(statement, name) for statement in body)


def _reads(node: ast.AST, name: str) -> bool:
    for part in ast.walk(node):
        match part:
            case ast.Attribute(value=ast.Name(id="self"), attr=attr, ctx=ast.Load()) if attr == name:
                return True
            case ast.Call(func=ast.Name(id="getattr" | "hasattr"), args=[_, ast.Constant(value=value), *_]) if (
                value == name
            ):
                return True
            case ast.AugAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=attr)) if attr == name:
                return True
    return False


def _is_registered(program: Program, owner: ModuleValue, name: str) -> bool:
    full = f"{owner.path}.{name}" if owner.path else name
    return owner.path is None or full in program.parameters or full in program.modules


def _defined(body: Sequence[ast.stmt], name: str, defined: bool) -> bool | None:
    """Whether the attribute is set after these statements; None where it may be read before."""
    after: bool | None
    for statement in body:
        match statement:
            case ast.If(test=test, body=inner, orelse=other):
                if _reads(test, name) and not defined:
                    return None
                arms = [_defined(inner, name, defined), _defined(other, name, defined)]
                if None in arms:
                    return None
                defined = all(arms)
            case ast.For() | ast.While():
                head = statement.iter if isinstance(statement, ast.For) else statement.test
                if _reads(head, name) and not defined:
                    return None
                if _defined(statement.body, name, defined) is None or _defined(statement.orelse, name, defined) is None:
                    return None
            case ast.With(body=inner):
                if (after := _defined(inner, name, defined)) is None:
                    return None
                defined = after
            case _:
                if _reads(statement, name) and not defined:
                    return None
                defined = defined or name in _stored([statement])
    return defined


def _free(name: str, taken: set[str]) -> str:
    plain = name.lstrip("_") or "value"
    number, unique = 2, plain
    while unique in taken:
        unique, number = f"{plain}{number}", number + 1
    return unique


def _flag(function: FunctionDef, name: str, place: ast.AST) -> Flag:
    return Flag(
        rule="MSP402",
        severity="info",
        message=f"`self.{name}` is set in forward; GRAPH_MODE keeps no state on a cell, so the port does not set it",
        module=function.owner or function.key,
        source=SourceLoc(function.loc.file, getattr(place, "lineno", function.loc.line)),
        advice="Return the value, or keep it in a Parameter.",
    )


class _Local(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if is_self_attribute(node) and node.attr in self._names:
            made = ast.copy_location(ast.Name(self._names[node.attr], node.ctx), node)
            if nid(node) >= 0:
                made.nid = nid(node)  # type: ignore[attr-defined]
            return made
        return self.generic_visit(node)
