"""Calls of modules: cells of the port, layers of torch and of libraries."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ms_port.ir.program import CallFact
from ms_port.ir.tree import literal
from ms_port.ir.values import ModuleValue, TensorValue, Value
from ms_port.opmap import NoLowering
from ms_port.opmap.rows import Row
from ms_port.opmap.signature import parse_signature
from ms_port.passes.lowering.arguments import user_arguments, where_given
from ms_port.passes.lowering.arrays import array_call
from ms_port.passes.lowering.base_layers import is_base_forward
from ms_port.passes.lowering.expressions import lower
from ms_port.passes.lowering.library_layers import library_calls
from ms_port.passes.lowering.made_layers import as_function
from ms_port.passes.lowering.names import of_value
from ms_port.passes.lowering.scope import Scope, Untranslatable, mark_functions


def call_module(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr:
    """``self.child(x)``; ``after_first(self.child, x)`` where its first layer is called by itself."""
    made = _call_module(scope, node, facts)
    if not hasattr(node, "after_first"):
        return made
    assert isinstance(made, ast.Call)
    scope.work.op_functions.add("after_first")
    func = mark_functions(ast.Name("after_first", ast.Load()), frozenset(["after_first"]))
    return ast.Call(func, [made.func, *made.args], made.keywords)


def _call_module(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr:
    if not scope.host and (function := as_function(scope, node)) is not None:
        try:
            return scope.use(scope.work.opmap.lower(function))
        except NoLowering as error:
            raise Untranslatable(node, str(error)) from error
    func = lower(scope, node.func)
    if all(f.callee == ModuleValue("torch.nn.Sequential") for f in facts) and len(node.args) == 1 and not scope.host:
        # `self.layers[:2](x)`: the port has the part as a list
        name = mark_functions(ast.Name("in_turn", ast.Load()), frozenset(["in_turn"]))
        scope.work.op_functions.add("in_turn")
        return ast.Call(name, [func, lower(scope, node.args[0])], [])
    scope.work.claimed |= library_calls(scope.work.program, scope.work.opmap, facts)
    own = [f for f in facts if not _is_base(scope, f.callee) and _has_source(scope, f.callee)]
    keys = {f.entered for f in own if f.entered is not None}
    for fact in facts:
        assert isinstance(fact.callee, ModuleValue)
        if fact.callee.cls.startswith("torch.nn.utils."):
            scope.work.claimed |= set(fact.torch_calls)
        if _is_base(scope, fact.callee):
            scope.work.cells.add(fact.callee.cls)
            scope.work.claimed |= set(fact.torch_calls)
        elif fact.opaque and fact in own:
            raise Untranslatable(node, f"the source of {fact.callee.cls} can't be followed")
        elif fact.entered is None and not _is_known_layer(scope, fact.callee.cls):
            raise Untranslatable(node, f"{fact.callee.cls} has no row")
    for key in sorted(keys):
        scope.work.need(key, node)
    args, keywords = user_arguments(scope, node, facts)
    if keys:
        call = ast.Call(func, args, keywords)
        call.callees = tuple(sorted(keys))  # type: ignore[attr-defined]
        return array_call(call, facts) if scope.host else where_given(call)
    call = ast.Call(func, *_layer_arguments(scope, node, facts, args, keywords))
    made = _without_batch(scope, node, facts, call)
    return array_call(made, facts) if scope.host else made


def _without_batch(scope: Scope, node: ast.Call, facts: Sequence[CallFact], call: ast.Call) -> ast.expr:
    """A layer that MindSpore calls with a batch only, called without: one is put before it and taken away."""
    rows = {row.api: row for f in facts if (row := _row_of(scope, f.callee)) is not None}
    if not call.args or all(row.batch_ndim is None for row in rows.values()):
        return call
    missing = set()
    for fact in facts:  # each by its own layer: one line may call a Linear here and a Conv2d there
        row, given = _row_of(scope, fact.callee), next(iter((*fact.args, *(v for _, v in fact.kwargs))), None)
        missing.add(row is not None and isinstance(given, TensorValue) and given.ndim + 1 == row.batch_ndim)
    if missing == {False}:
        return call
    if len(missing) > 1 or len(rows) > 1:
        raise Untranslatable(node, "a layer is called with a batch and without")
    function = rows.popitem()[1].batch_call
    if function is None:
        before = ast.Call(ast.Attribute(call.args[0], "expand_dims", ast.Load()), [literal(0)], [])
        call = ast.Call(call.func, [before, *call.args[1:]], call.keywords)
        return ast.Call(ast.Attribute(call, "squeeze", ast.Load()), [literal(0)], [])
    scope.work.op_functions.add(function)
    name = mark_functions(ast.Name(function, ast.Load()), frozenset([function]))
    return ast.Call(name, [call.func, *call.args], call.keywords)


def _row_of(scope: Scope, callee: Value) -> Row | None:
    """The row of a layer, through ``same_as``."""
    row = scope.work.opmap.row(callee.cls) if isinstance(callee, ModuleValue) else None
    while row is not None and row.same_as:
        row = scope.work.opmap.row(row.same_as)
    return row


def _layer_arguments(
    scope: Scope, node: ast.Call, facts: Sequence[CallFact], args: list[ast.expr], keywords: list[ast.keyword]
) -> tuple[list[ast.expr], list[ast.keyword]]:
    """A MindSpore layer calls its inputs otherwise than torch's: keywords become positions, as far as they go."""
    signatures = {
        row.forward or "input"
        for f in facts
        if isinstance(f.callee, ModuleValue) and (row := scope.work.opmap.row(f.callee.cls)) is not None
    }
    if len(signatures) != 1 or not keywords or any(isinstance(a, ast.Starred) for a in args):
        return args, keywords
    given = {k.arg: k.value for k in keywords}
    names = [p.name for p in parse_signature(signatures.pop()) if p.kind == "positional"]
    for name in names[len(args) :]:
        if name not in given:
            break
        args = [*args, given.pop(name)]
    return args, [k for k in keywords if k.arg in given]


def _has_source(scope: Scope, callee: Value) -> bool:
    """Whether a module is not known as a whole, by a row: torch's layers and those of libraries."""
    cells = scope.work.program.cells
    return isinstance(callee, ModuleValue) and (callee.cls in cells or scope.work.opmap.row(callee.cls) is None)


def _is_known_layer(scope: Scope, cls: str) -> bool:
    return cls in scope.work.program.cells or scope.work.opmap.row(cls) is not None


def _is_base(scope: Scope, callee: Value) -> bool:
    return isinstance(callee, ModuleValue) and is_base_forward(scope.work.program, callee.cls)


def call_any(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr:
    """A variable that holds cells and functions in turn: each takes one tensor, so the call stays as it is."""
    functions = [f for f in facts if not isinstance(f.callee, ModuleValue)]
    if any(len(f.args) != 1 or f.kwargs for f in functions):
        raise Untranslatable(node, f"`{ast.unparse(node.func)}` is not always the same kind of thing")
    for fact in functions:
        of_value(scope, node, fact.callee)
    return call_module(scope, node, [f for f in facts if isinstance(f.callee, ModuleValue)])
