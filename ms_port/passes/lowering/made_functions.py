"""Calls of functions that were made while the model was built: lambdas and inner functions that an attribute holds."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from ms_port.ir.program import CallFact, FunctionDef
from ms_port.ir.values import ModuleValue, PartialValue, Value, holds_tensor
from ms_port.passes.lowering.arguments import user_arguments
from ms_port.passes.lowering.held import module_path, parameter_path
from ms_port.passes.lowering.names import of_value
from ms_port.passes.lowering.scope import Scope, Untranslatable, same


def call_made(scope: Scope, node: ast.Call, facts: Sequence[CallFact], key: str) -> ast.expr:
    """``self.f(x)`` where ``self.f = lambda x: ...``: the port has the lambda as a function with a name.

    What it reads from around it is written into it, so it must have been the same in all runs. Raises Untranslatable.
    """
    function = scope.work.all_functions.get(key)
    if function is None or scope.host:
        raise Untranslatable(node, f"`{key}` is made while running")
    front = [_captured(scope, node, function, name) for name in captured(function)]
    scope.work.need(key, node)
    lowered = scope.work.lowered[key]
    if lowered.name == "<lambda>":
        lowered = _named(scope, node, lowered)
        scope.work.lowered[key] = lowered
    if lowered.name in scope.locals:
        raise Untranslatable(node, f"`{lowered.name}` is another name here")
    args, keywords = user_arguments(scope, node, facts)
    return _call(lowered, [*front, *args], keywords)


def captured(function: FunctionDef) -> list[str]:
    """Names of modules and of the model's tensors that a function made while building reads from around it."""
    held = function.facts.closure.items() if "<locals>" in function.key and not function.during_init else ()
    return [name for name, values in held if any(isinstance(v, ModuleValue) or holds_tensor(v) for v in values)]


def _captured(scope: Scope, node: ast.Call, function: FunctionDef, name: str) -> ast.expr:
    """Where the caller finds what the function captured: ``self.mlp``. Raises Untranslatable."""
    own = scope.facts.parameters.get("self", ()) or scope.facts.closure.get("self", ())
    owners = [o.path for o in own if isinstance(o, ModuleValue) and o.path is not None]
    found: dict[str, ast.expr] = {}
    for value in function.facts.closure[name]:
        path = value.path if isinstance(value, ModuleValue) else getattr(value, "parameter", None)
        around = [o for o in owners if path is not None and (path == o or path.startswith(f"{o}." if o else ""))]
        if path is None or not around:
            raise Untranslatable(node, f"`{function.key}` reads `{name}` from around it, which is not the caller's")
        skip = len(max(around, key=len).split(".")) if max(around, key=len) else 0
        if isinstance(value, ModuleValue):
            made = module_path(scope.work, path, skip)
        else:
            made = parameter_path(scope.work, path, skip, ast.Load())
        found[ast.unparse(made)] = made
    if len(found) != 1:
        raise Untranslatable(node, f"`{function.key}` reads `{name}` from around it, which is not always the same")
    return found.popitem()[1]


def call_bound(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr:
    """``self.loss(x, y)`` where ``self.loss = partial(dice, eps=1e-6)``: ``dice(x, y, eps=1e-6)``.

    Raises Untranslatable where the arguments bound differ between runs.
    """
    keys = {f.entered for f in facts}
    key = keys.pop()
    if key is None or keys or not same([f.callee for f in facts]):
        raise Untranslatable(node, f"`{ast.unparse(node.func)}` is not always the same functools.partial")
    function = scope.work.all_functions.get(key)
    bound = facts[0].callee
    assert isinstance(bound, PartialValue)
    if function is None or function.owner is not None or "<" in key:
        raise Untranslatable(
            node, f"`{ast.unparse(node.func)}` is a functools.partial over a function made while running"
        )
    scope.work.need(key, node)
    lowered = scope.work.lowered[key]
    if lowered.name in scope.locals:
        raise Untranslatable(node, f"`{lowered.name}` is another name here")
    given = {k.arg for k in node.keywords}
    front = [_bound(scope, node, value) for value in bound.args]
    args, keywords = user_arguments(scope, node, [_without(f, bound) for f in facts])
    taken = {a.arg for a in [*lowered.node.args.args, *lowered.node.args.kwonlyargs]}
    added = [ast.keyword(k, _bound(scope, node, v)) for k, v in bound.keywords if k not in given and k in taken]
    return _call(lowered, [*front, *args], [*keywords, *added])


def _without(fact: CallFact, bound: PartialValue) -> CallFact:
    """The call without what the partial added to it."""
    own = dict(bound.keywords)
    kwargs = tuple((k, v) for k, v in fact.kwargs if own.get(k) != v)
    return replace(fact, kwargs=kwargs)


def _bound(scope: Scope, node: ast.Call, value: Value) -> ast.expr:
    made = of_value(scope, node, value)
    return made


def _call(function: FunctionDef, args: list[ast.expr], keywords: list[ast.keyword]) -> ast.Call:
    func = ast.Name(function.name, ast.Load())
    func.callees = (function.key,)  # type: ignore[attr-defined]
    call = ast.Call(func, args, keywords)
    call.callees = (function.key,)  # type: ignore[attr-defined]
    return call


def _named(scope: Scope, node: ast.Call, function: FunctionDef) -> FunctionDef:
    """The lambda under the name by which it is called."""
    base = node.func.attr if isinstance(node.func, ast.Attribute) else "function"
    taken = {f.name for f in scope.work.program.functions.values()} | scope.locals
    taken |= {f.name for f in scope.work.lowered.values()} | {c.name for c in scope.work.program.cells.values()}
    name, number = base, 2
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    arguments = function.node.args
    return replace(function, name=name, node=ast.FunctionDef(name, arguments, [], [], None, lineno=function.loc.line))
