"""Layers and cells being made: by a class, by a ``partial`` over one, by a variable that holds either."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from ms_port.ir.program import CallFact, ModuleInstance, Stub
from ms_port.ir.tree import literal
from ms_port.ir.values import (
    ClassValue,
    FunctionValue,
    Literal,
    ModuleValue,
    PartialValue,
    TensorValue,
    Value,
    items_of,
)
from ms_port.opmap import Argument, Call, Lowering, NoLowering
from ms_port.passes.lowering.arguments import torch_arguments, user_arguments, without_stars
from ms_port.passes.lowering.base_layers import layer_base
from ms_port.passes.lowering.expressions import lower
from ms_port.passes.lowering.held import has_gaps, held_module, layer_dict, layers_or_none, needs_layer_dict
from ms_port.passes.lowering.inherited import find_method
from ms_port.passes.lowering.made_layers import takes_tensors
from ms_port.passes.lowering.scope import Scope, Untranslatable
from ms_port.passes.lowering.without_batch import without_batch

Carried = tuple[tuple[str, Value], ...]
"""The keywords of a ``functools.partial``."""


def construct(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr:
    """A layer or a cell is made, by a class or by a ``partial`` over one."""
    made: dict[str, ast.expr] = {}
    for callee in dict.fromkeys(f.callee for f in facts):
        own = [f for f in facts if f.callee == callee]
        carried: Carried = ()
        inner: Value = callee
        if isinstance(callee, PartialValue):
            inner, carried = callee.func, callee.keywords
        if isinstance(inner, ClassValue) and inner.name in scope.work.program.cells and not inner.is_module:
            one = construct_cell(scope, node, own, inner.name, variable=True)
            made.setdefault(ast.dump(one), one)
            continue
        if not (isinstance(inner, ClassValue) and inner.is_module):
            raise Untranslatable(node, f"`{ast.unparse(node.func)}` is a functools.partial over a function")
        one = _construct_one(scope, node, own, inner.name, carried)
        made.setdefault(ast.dump(one), one)
    if len(made) != 1:
        raise Untranslatable(node, f"`{ast.unparse(node.func)}` makes layers whose arguments differ in MindSpore")
    return next(iter(made.values()))


def _construct_one(scope: Scope, node: ast.Call, facts: Sequence[CallFact], name: str, carried: Carried) -> ast.expr:
    variable = is_variable(scope, node.func) or isinstance(facts[0].callee, PartialValue)
    opmap = scope.work.opmap
    if name in scope.work.program.cells and opmap.row(name) is None:
        return construct_cell(scope, node, facts, name, variable, carried)
    if name.startswith("torch.nn.Lazy"):
        return _built_lazily(scope, node, facts)
    if not scope.host and takes_tensors(facts):
        raise Untranslatable(node, "a layer made of tensors in the graph")
    if not variable and (empty := [f for f in facts if _has_no_size(f)]):
        facts = empty  # the layer for these takes the other sizes too
    args, keywords = torch_arguments(scope, node, facts, name)
    args, keywords = tuple(map(_as_tensor, args)), tuple((k, _as_tensor(a)) for k, a in keywords)
    call = Call(name, args, keywords)
    if not variable and not scope.strict and name in _CONVOLUTIONS and any(map(_has_no_size, facts)):
        return stub_cell(scope, node, call, "a size is 0, which no layer of MindSpore takes")
    try:
        if not variable:
            lowering = opmap.lower(call)
            if any(needs_layer_dict(scope.work, m) for m in _made_modules(scope, facts)):
                made = scope.use(lowering)
                assert isinstance(made, ast.Call)
                return ast.Call(layer_dict(scope.work), made.args, made.keywords)
            if name == "torch.nn.ModuleList" and _holds_none(scope, facts):
                made = scope.use(lowering)
                assert isinstance(made, ast.Call)
                return ast.Call(layers_or_none(scope.work), made.args, made.keywords)
        elif carried:
            lowering = opmap.lower(call, lower(scope, node.func), _bound(facts, carried))
        else:
            lowering = opmap.lower(call, lower(scope, node.func))
    except NoLowering as error:
        if (plain := without_stars(node, facts)) is not node:
            return _construct_one(scope, plain, facts, name, carried)
        if variable or scope.strict:
            raise Untranslatable(node, str(error)) from error
        return stub_cell(scope, node, call, str(error))
    made_now = accept(scope, node, lowering, name)
    return without_batch(scope.work, made_now, [module.path for module in _made_modules(scope, facts)])


def _bound(facts: Sequence[CallFact], carried: Carried) -> tuple[tuple[str, Argument], ...]:
    """What a ``partial`` carries, as arguments that the call need not write: their defaults must not undo them."""
    return tuple((k, Argument(literal(None), (v,) * len(facts))) for k, v in carried)


def _holds_none(scope: Scope, facts: Sequence[CallFact]) -> bool:
    """Whether None is among the layers that a ModuleList is given, or that it held at the end."""
    given = [item for f in facts if f.args for item in items_of(f.args[0])]
    return Literal(None) in given or any(map(has_gaps, _made_modules(scope, facts)))


_CONVOLUTIONS = frozenset({"torch.nn.Conv1d", "torch.nn.Conv2d", "torch.nn.Conv3d"})


def _has_no_size(fact: CallFact) -> bool:
    """``nn.Linear(4, 4 // 16)``: torch makes a layer without weights."""
    named = [v for k, v in fact.kwargs if k in ("in_features", "out_features", "in_channels", "out_channels")]
    sized = {"torch.nn.Linear", *_CONVOLUTIONS}
    return getattr(fact.callee, "name", "") in sized and Literal(0) in (*fact.args[:2], *named)


def _as_tensor(argument: Argument) -> Argument:
    """A layer's tensor (class weights of a loss): constructors compute in numpy, the cell wants a Tensor."""
    if not argument.values or not any(isinstance(v, TensorValue) for v in argument.values):
        return argument
    made = ast.Call(ast.Name("Tensor", ast.Load()), [argument.expression], [])
    if all(isinstance(v, TensorValue) for v in argument.values):
        return replace(argument, expression=made)
    absent = ast.Compare(argument.expression, [ast.Is()], [literal(None)])
    return replace(argument, expression=ast.IfExp(absent, literal(None), made))


def _made_modules(scope: Scope, facts: Sequence[CallFact]) -> list[ModuleInstance]:
    paths = [f.result.path for f in facts if isinstance(f.result, ModuleValue) and f.result.path is not None]
    return [scope.work.program.modules[path] for path in paths if path in scope.work.program.modules]


def _built_lazily(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr:
    """``nn.LazyLinear(4)``: the layer that it became in its first run."""
    made = [held_module(scope.work, module.path) for module in _made_modules(scope, facts)]
    if len(made) != len(facts) or len({ast.dump(m) for m in made}) != 1:
        raise Untranslatable(node, "a lazy layer that became several")
    return made[0]


def stub_cell(scope: Scope, node: ast.AST, call: Call, reason: str) -> ast.expr:
    """A layer without a MindSpore form: a cell in ``fixes.py`` that a person has to write."""
    name = call.api.rpartition(".")[2]
    stub = Stub(name, call.api, (), scope.loc(node), ast.unparse(node), reason, is_cell=True)
    scope.work.stubs.setdefault(name, stub)
    scope.flag(
        node,
        "MSP101",
        f"{call.api} has no MindSpore form here: {reason}",
        f"Write the cell `{name}` in fixes.py; it gets the arguments that torch's layer got.",
        call.api,
        "error",
    )
    keywords = [ast.keyword(k, a.expression) for k, a in call.keywords]
    return ast.Call(ast.Name(name, ast.Load()), [a.expression for a in call.args], keywords)


def construct_cell(
    scope: Scope, node: ast.Call, facts: Sequence[CallFact], name: str, variable: bool, carried: Carried = ()
) -> ast.expr:
    """A class of the output is called; ``carried``: the keywords of the ``partial`` over it that is called."""
    work = scope.work
    if name in work.held:
        raise Untranslatable(node, f"{name} is built from what its instances hold")
    if any(f.opaque for f in facts):
        raise Untranslatable(node, f"the constructor of {name} can't be followed")
    keys = {f.entered for f in facts if f.entered is not None}
    keys |= _given_constructor(scope, name) if not keys else set()
    work.cells.add(name)
    for key in sorted(keys):
        work.need(key, node)
    func = lower(scope, node.func) if variable else ast.Name(work.program.cells[name].name, ast.Load())
    if not keys and (base := layer_base(work.program, name)) is not None:
        return _construct_by_base(scope, node, facts, base, func, carried)
    args, keywords = user_arguments(scope, node, facts)
    call = ast.Call(func, args, keywords)
    call.callees = tuple(sorted(keys))  # type: ignore[attr-defined]
    return call


def _given_constructor(scope: Scope, name: str) -> set[str]:
    """The key of the constructor that the port gave to a class that has only torch's."""
    init = find_method(scope.work.program, name, "__init__")
    return {init.key} if init is not None else set()


def _construct_by_base(
    scope: Scope, node: ast.Call, facts: Sequence[CallFact], base: str, func: ast.expr, carried: Carried
) -> ast.expr:
    """A class without a constructor of its own takes its torch base's arguments, in MindSpore's words."""
    args, keywords = torch_arguments(scope, node, facts, base)
    try:
        call = Call(base, args, keywords)
        if isinstance(facts[0].callee, PartialValue):  # which has all defaults that are not MindSpore's
            made = scope.use(scope.work.opmap.lower(call, func, _bound(facts, carried)))
        else:
            made = scope.use(scope.work.opmap.lower(call))
    except NoLowering as error:
        raise Untranslatable(node, str(error)) from error
    if not isinstance(made, ast.Call):
        raise Untranslatable(node, f"{base} is no plain cell")
    return ast.Call(func, made.args, made.keywords)


def is_variable(scope: Scope, func: ast.expr) -> bool:
    """Whether the callee is held in a variable, an attribute of self or a container, not named directly."""
    root = func
    while isinstance(root, ast.Attribute | ast.Subscript | ast.Call):
        if isinstance(root, ast.Subscript | ast.Call):
            return True
        root = root.value
    return isinstance(root, ast.Name) and root.id in scope.locals


def make_partial(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr:
    """``partial(nn.BatchNorm2d, eps=1e-3)``: a layer class with keywords in MindSpore's words."""
    inner = facts[0].args[0]
    if isinstance(inner, FunctionValue) and not inner.torch and scope.host:
        args, keywords = user_arguments(scope, node, facts)
        return ast.Call(ast.Name("partial", ast.Load()), args, keywords)
    is_plain = isinstance(inner, ClassValue) and inner.name in scope.work.program.cells
    if not isinstance(inner, ClassValue) or not (inner.is_module or is_plain) or len(node.args) != 1 or not scope.host:
        raise Untranslatable(node, "a functools.partial over a function loses its gradient in GRAPH_MODE")
    if inner.name in scope.work.program.cells and scope.work.opmap.row(inner.name) is None:
        if (made := _partial_by_base(scope, node, facts, inner.name)) is not None:
            return made
        args, keywords = user_arguments(scope, node, facts)
        call = ast.Call(ast.Name("partial", ast.Load()), args, keywords)
        cell = scope.work.program.cells[inner.name]
        call.callees = tuple(m.key for m in cell.methods if m.name == "__init__")  # type: ignore[attr-defined]
        return call
    _, named = torch_arguments(scope, node, facts, inner.name)
    try:
        lowering = scope.work.opmap.lower_value(inner.name, named)
    except NoLowering as error:
        raise Untranslatable(node, str(error)) from error
    return accept(scope, node, lowering, inner.name)


def _partial_by_base(scope: Scope, node: ast.Call, facts: Sequence[CallFact], name: str) -> ast.expr | None:
    """``partial(Norm, eps=1e-6)`` of a class that has its torch base's constructor: in MindSpore's words."""
    base = layer_base(scope.work.program, name)
    if base is None or find_method(scope.work.program, name, "__init__") is not None:
        return None
    _, named = torch_arguments(scope, node, facts, base)
    try:
        made = scope.use(scope.work.opmap.lower_value(base, named))
    except NoLowering as error:
        raise Untranslatable(node, str(error)) from error
    func = lower(scope, node.args[0])
    return ast.Call(made.func, [func, *made.args[1:]], made.keywords) if isinstance(made, ast.Call) else func


def accept(scope: Scope, node: ast.Call, lowering: Lowering, api: str) -> ast.expr:
    """Take a lowering over: its functions, flags and draws are noted."""
    made = scope.use(lowering)
    for note in lowering.notes:
        scope.flag(node, note.rule, note.message, "", api)
    if lowering.random is not None and not scope.host:
        made.random = lowering.random  # type: ignore[attr-defined]
    return made
