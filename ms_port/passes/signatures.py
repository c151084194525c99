"""Signatures: parameters that nothing reads go, with the arguments that fed them, until nothing more can go."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ms_port.ir.program import FunctionDef, Program
from ms_port.ir.tree import copy, names_read
from ms_port.ir.values import TensorValue, holds_tensor
from ms_port.passes.dead import drop_dead
from ms_port.passes.rewrite import all_functions, map_functions


def prune_signatures(program: Program) -> Program:
    """Remove unused parameters and dead code, each making room for the other."""
    program = drop_dead(map_functions(program, _own_copy))
    while True:
        removable = _removable(program)
        plans = _plans(program, removable)
        if not plans:
            return map_functions(program, lambda f: _required(program, f))
        program = drop_dead(map_functions(program, lambda f: _without(f, plans)))


def _own_copy(function: FunctionDef) -> FunctionDef:
    return replace(function, node=copy(function.node), body=tuple(copy(s) for s in function.body))


def parameters(function: FunctionDef) -> list[str]:
    """Names of positional and keyword parameters, without self."""
    args = function.node.args
    names = [a.arg for a in [*args.args, *args.kwonlyargs]]
    return names[1:] if function.kind in ("method", "property", "class") and names else names


def _calls(program: Program) -> Iterator[ast.Call]:
    for function in all_functions(program):
        for statement in function.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Call) and getattr(node, "callees", None):
                    yield node


def _removable(program: Program) -> dict[str, set[str]]:
    """Function -> parameters that neither it nor any function called at the same place reads."""
    functions = {f.key: f for f in all_functions(program)}
    keep = _fixed(program, functions)
    unused = {
        key: set(parameters(f)) - names_read(f.body) if key not in keep else set() for key, f in functions.items()
    }
    groups = _groups(program, functions)
    changed = True
    while changed:
        changed = False
        for group in groups:
            shared = set.intersection(*(_positions(functions[k], unused[k]) for k in group))
            for key in group:
                names = {name for _, name in shared}
                if unused[key] - names:
                    unused[key] &= names
                    changed = True
    return unused


def _positions(function: FunctionDef, names: set[str]) -> set[tuple[int, str]]:
    return {(i, n) for i, n in enumerate(parameters(function)) if n in names}


def _groups(program: Program, functions: dict[str, FunctionDef]) -> list[tuple[str, ...]]:
    """Functions that one call can reach: they keep one signature. Overrides of one method belong together too."""
    found = {tuple(k for k in call.callees if k in functions) for call in _calls(program)}  # type: ignore[attr-defined]
    by_name: dict[tuple[str, str], set[str]] = defaultdict(set)
    for cell in program.cells.values():
        for base in _bases(program, cell.key):
            for method in program.cells[base].methods:
                if method.name != "__init__" and any(m.name == method.name for m in cell.methods):
                    own = next(m.key for m in cell.methods if m.name == method.name)
                    by_name[(base, method.name)] |= {method.key, own}
    found |= {tuple(sorted(keys)) for keys in by_name.values()}
    return [group for group in found if len(group) > 1]


def _bases(program: Program, key: str) -> list[str]:
    cell = program.cells.get(key)
    direct = [b for b in cell.bases if b in program.cells] if cell else []
    return [*direct, *(b for base in direct for b in _bases(program, base))]


def _fixed(program: Program, functions: dict[str, FunctionDef]) -> set[str]:
    """Functions whose signature must stay: passed as values, called with stars, dunders, properties."""
    fixed = {k for k, f in functions.items() if f.name.startswith("__") and f.name != "__init__"}
    names: set[str] = set()
    classes: set[str] = set()
    for function in functions.values():
        called = {id(n.func) for s in function.body for n in ast.walk(s) if isinstance(n, ast.Call)}
        for root in [*function.body, *function.node.args.defaults]:
            for node in ast.walk(root):
                if isinstance(node, ast.Name) and getattr(node, "callees", None) and id(node) not in called:
                    fixed |= set(node.callees)  # type: ignore[attr-defined]
                elif isinstance(node, ast.Name) and getattr(node, "made_class", None):
                    classes.add(node.made_class)  # type: ignore[attr-defined]
                elif isinstance(node, ast.Attribute) and id(node) not in called:
                    names.add(node.attr)
    for constant in program.constants.values():
        for node in ast.walk(constant):
            if isinstance(node, ast.Name) and getattr(node, "made_class", None):
                classes.add(node.made_class)  # type: ignore[attr-defined]
    fixed |= {f.key for f in functions.values() if f.kind != "function" and f.name in names}
    fixed |= {f.key for f in functions.values() if f.name == "__init__" and f.owner in classes}
    for call in _calls(program):
        starred = any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
        if starred:
            fixed |= set(call.callees)  # type: ignore[attr-defined]
    root = next((m.key for m in program.cells[program.root].methods if m.name == "construct"), None)
    if root is not None:
        function = functions[root]
        tensors = [n for n, v in function.facts.parameters.items() if any(holds_tensor(x) for x in v)]
        if set(parameters(function)) <= set(tensors):
            fixed.add(root)
    return fixed


@dataclass(frozen=True, slots=True)
class _Plan:
    """How calls of one function change: its parameters before, how many of them are positional, and which go."""

    names: tuple[str, ...]
    positional: int
    gone: frozenset[str]


def _plans(program: Program, removable: dict[str, set[str]]) -> dict[str, _Plan]:
    root = _root_construct(program)
    plans = {}
    for function in all_functions(program):
        gone = removable.get(function.key, set())
        if function.key == root:
            values = function.facts.parameters
            gone = {n for n in gone if not any(holds_tensor(v) for v in values.get(n, ()))}
        if gone:
            plans[function.key] = _Plan(tuple(parameters(function)), _positional(function), frozenset(gone))
    return plans


def _without(function: FunctionDef, plans: dict[str, _Plan]) -> FunctionDef:
    """The function without its removable parameters, and its calls without the arguments that fed such."""
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and getattr(node, "callees", None):
                _strip_call(node, plans)
    if (plan := plans.get(function.key)) is not None:
        _strip_parameters(function.node.args, plan.gone)
    return function


def _root_construct(program: Program) -> str | None:
    return next((m.key for m in program.cells[program.root].methods if m.name == "construct"), None)


def _strip_call(call: ast.Call, plans: dict[str, _Plan]) -> None:
    for key in call.callees:  # type: ignore[attr-defined]
        plan = plans.get(key)
        if plan is None:
            continue
        fed = plan.names[: plan.positional]
        call.args = [a for i, a in enumerate(call.args) if not (i < len(fed) and fed[i] in plan.gone)]
        call.keywords = [k for k in call.keywords if k.arg not in plan.gone]
        return


def _positional(function: FunctionDef) -> int:
    count = len(function.node.args.args)
    return count - 1 if function.kind in ("method", "property", "class") else count


def _strip_parameters(args: ast.arguments, gone: set[str]) -> None:
    first_default = len(args.args) - len(args.defaults)
    pairs = [(a, args.defaults[i - first_default] if i >= first_default else None) for i, a in enumerate(args.args)]
    kept = [(a, d) for a, d in pairs if a.arg not in gone]
    args.args = [a for a, _ in kept]
    args.defaults = [d for _, d in kept if d is not None]
    keyword = [(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if a.arg not in gone]
    args.kwonlyargs, args.kw_defaults = [a for a, _ in keyword], [d for _, d in keyword]


def _required(program: Program, function: FunctionDef) -> FunctionDef:
    """A graph parameter with default None that always held a tensor is required: the None branch is gone."""
    if function.during_init or not function.facts.parameters:
        return function
    args = function.node.args
    values = function.facts.parameters
    first = len(args.args) - len(args.defaults)
    while args.defaults:
        arg, default = args.args[first], args.defaults[0]
        seen = values.get(arg.arg, ())
        is_none = isinstance(default, ast.Constant) and default.value is None
        if not (is_none and seen and all(isinstance(v, TensorValue) for v in seen)):
            break
        args.defaults, first = args.defaults[1:], first + 1
        arg.annotation = _not_optional(arg.annotation)
    return function


def _not_optional(annotation: ast.expr | None) -> ast.expr | None:
    match annotation:
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
            return inner
        case ast.BinOp(op=ast.BitOr(), left=left, right=ast.Constant(value=None)):
            return left
    return annotation


__all__ = ["parameters", "prune_signatures"]
