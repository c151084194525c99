"""Signatures: parameters that nothing reads go, with the arguments that fed them, until nothing more can go."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from ms_port.ir.program import FunctionDef, Program
from ms_port.ir.tree import copy, literal, names_read
from ms_port.ir.values import TensorValue, holds_tensor
from ms_port.passes.cell_names import has_bprop
from ms_port.passes.dead import drop_dead
from ms_port.passes.lowering.absent import ABSENT
from ms_port.passes.rewrite import all_functions, map_functions, parameters


def prune_signatures(program: Program) -> Program:
    """Remove unused parameters and dead code, each making room for the other."""
    program = drop_dead(map_functions(program, _own_copy))
    program = map_functions(program, partial(_without_rest, filled=_with_rest(program)))
    program = _pruned(program)  # a parameter that nothing reads may go with the argument that is not there
    return _pruned(drop_dead(map_functions(program, _without_absent)))


def _pruned(program: Program) -> Program:
    """Without parameters that nothing reads, until nothing more can go."""
    while True:
        program = map_functions(program, _unknown_keywords(program))
        plans = _plans(program, _removable(program))
        if not plans:
            return map_functions(program, _required)
        program = drop_dead(map_functions(program, partial(_without, plans=plans)))


def _own_copy(function: FunctionDef) -> FunctionDef:
    return replace(function, node=copy(function.node), body=tuple(copy(s) for s in function.body))


def _with_rest(program: Program) -> set[str]:
    """Functions that some call gives more positional arguments than they name."""
    positional = {f.key: _positional(f) for f in all_functions(program)}
    return {
        key
        for call in _calls(program)
        for key in call.callees  # type: ignore[attr-defined]
        if len(call.args) > positional.get(key, 0) or any(isinstance(a, ast.Starred) for a in call.args)
    }


def _without_rest(function: FunctionDef, filled: set[str]) -> FunctionDef:
    """The function without a ``*rest`` that it does not read and that no call fills."""
    rest = function.node.args.vararg
    if rest is not None and rest.arg not in names_read(function.body) and function.key not in filled:
        function.node.args.vararg = None
    return function


def _without_absent(function: FunctionDef) -> FunctionDef:
    """In a constructor a call for its effect that lacks an argument (an initialisation scheme) is left out.

    The constructor below is called all the same: what it sets up must not be lost.
    """
    if not function.during_init:
        return function
    kept = []
    for statement in function.body:
        if isinstance(statement, ast.Expr) and ABSENT in names_read([statement]):
            if not ast.unparse(statement).startswith("super().__init__("):
                continue
            for call in (n for n in ast.walk(statement) if isinstance(n, ast.Call)):
                call.args = [literal(None) if _is_absent(a) else a for a in call.args]
                call.keywords = [k for k in call.keywords if not _is_absent(k.value)]
        kept.append(statement)
    return replace(function, body=tuple(kept))


def _is_absent(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == ABSENT


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
    unused = {key: set(parameters(f)) - _read_at_entry(f) if key not in keep else set() for key, f in functions.items()}
    for key in _values(functions) & unused.keys():
        unused[key] &= _never_given(functions, functions[key])
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


def _read_at_entry(function: FunctionDef) -> set[str]:
    """Names whose value at the function's start can be read: not those that a plain assignment binds before."""
    read: set[str] = set()
    bound: set[str] = set()
    for statement in function.body:
        read |= names_read([statement]) - bound
        if isinstance(statement, ast.Assign):
            bound |= {t.id for t in statement.targets if isinstance(t, ast.Name)} - read
    return read


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
    """Functions whose signature must stay: called with stars, dunders, properties."""
    fixed = {k for k, f in functions.items() if f.name.startswith("__") and f.name != "__init__"}
    names: set[str] = set()
    for function in functions.values():
        called = {id(n.func) for s in function.body for n in ast.walk(s) if isinstance(n, ast.Call)}
        for part in [*function.body, *function.node.args.defaults]:
            for node in ast.walk(part):
                if isinstance(node, ast.Attribute) and id(node) not in called:
                    names.add(node.attr)
    fixed |= {f.key for f in functions.values() if f.kind != "function" and f.name in names}
    for call in _calls(program):
        starred = any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
        if starred or getattr(call, "unbound", False):
            fixed |= set(call.callees)  # type: ignore[attr-defined]
    fixed |= {m.key for cell in program.cells.values() if has_bprop(cell) for m in cell.methods}
    root = program.root_construct
    if root is not None:
        function = functions[root.key]
        tensors = [n for n, v in function.facts.parameters.items() if any(holds_tensor(x) for x in v)]
        if set(parameters(function)) <= set(tensors):
            fixed.add(root.key)
    return fixed


def _unknown_keywords(program: Program) -> Callable[[FunctionDef], FunctionDef]:
    """Keywords that no function called at a place takes: what was left of ``**kwargs`` that nothing read."""
    known = {f.key: set(parameters(f)) for f in all_functions(program)}

    def one(function: FunctionDef) -> FunctionDef:
        for statement in function.body:
            for node in ast.walk(statement):
                callees = getattr(node, "callees", None) if isinstance(node, ast.Call) else None
                if callees and all(key in known for key in callees):
                    assert isinstance(node, ast.Call)
                    taken = set().union(*(known[key] for key in callees))
                    node.keywords = [k for k in node.keywords if k.arg is None or k.arg in taken]
        return function

    return one


def _values(functions: Mapping[str, FunctionDef]) -> set[str]:
    """Functions and classes that are passed as values: who calls them is not always known."""
    found: set[str] = set()
    for function in functions.values():
        called = {id(n.func) for s in function.body for n in ast.walk(s) if isinstance(n, ast.Call)}
        for part in [*function.body, *function.node.args.defaults, *function.node.args.kw_defaults]:
            for node in ast.walk(part) if part is not None else ():
                if isinstance(node, ast.Name) and getattr(node, "callees", None) and id(node) not in called:
                    found |= set(node.callees)  # type: ignore[attr-defined]
    return found


def _never_given(functions: Mapping[str, FunctionDef], function: FunctionDef) -> set[str]:
    """Parameters that no call in a branch that never ran can mean: neither by name nor by position.

    A function of the graph keeps them all: what calls it there need not be a call of the program's.
    """
    if not function.during_init:
        return set()
    names = parameters(function)
    first, named = 0, set()
    for call in (n for f in functions.values() for s in f.body for n in ast.walk(s) if isinstance(n, ast.Call)):
        if not getattr(call, "callees", None) and isinstance(call.func, ast.Name):
            named |= {k.arg for k in call.keywords}
            first = max(first, len(call.args))
            if any(isinstance(a, ast.Starred) for a in call.args) or None in named:
                return set()
    return {name for i, name in enumerate(names) if i >= first and name not in named}


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
    return program.root_construct.key if program.root_construct is not None else None


def _strip_call(call: ast.Call, plans: dict[str, _Plan]) -> None:
    for key in call.callees:  # type: ignore[attr-defined]
        plan = plans.get(key)
        if plan is None:
            continue
        fed = plan.names[: plan.positional]
        is_partial = isinstance(call.func, ast.Name) and call.func.id == "partial"
        call.args = (
            call.args
            if is_partial
            else [a for i, a in enumerate(call.args) if not (i < len(fed) and fed[i] in plan.gone)]
        )
        call.keywords = [k for k in call.keywords if k.arg not in plan.gone]
        return


def _positional(function: FunctionDef) -> int:
    count = len(function.node.args.args)
    return count - 1 if function.kind in ("method", "property", "class") else count


def _strip_parameters(args: ast.arguments, gone: frozenset[str]) -> None:
    first_default = len(args.args) - len(args.defaults)
    pairs = [(a, args.defaults[i - first_default] if i >= first_default else None) for i, a in enumerate(args.args)]
    kept = [(a, d) for a, d in pairs if a.arg not in gone]
    args.args = [a for a, _ in kept]
    args.defaults = [d for _, d in kept if d is not None]
    keyword = [(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if a.arg not in gone]
    args.kwonlyargs, args.kw_defaults = [a for a, _ in keyword], [d for _, d in keyword]


def _required(function: FunctionDef) -> FunctionDef:
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
