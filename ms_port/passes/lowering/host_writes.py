"""Writes in place in a constructor: ``w.mul_(2)`` is ``w.set_data(w.mul(2))``, ``w[0].fill_(1)`` is ``w[0] = 1``."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ms_port.ir.program import CallFact
from ms_port.ir.tree import literal
from ms_port.ir.values import FunctionValue, ModuleValue, TensorValue, Value
from ms_port.opmap import Argument, Call, NoLowering
from ms_port.passes.lowering.arguments import torch_arguments
from ms_port.passes.lowering.constructing import accept
from ms_port.passes.lowering.expressions import lower
from ms_port.passes.lowering.parameter_starts import STARTS, array_of, filled_local, initializer_of
from ms_port.passes.lowering.scope import Scope, Untranslatable, dtype_expression

_CONSTANTS = {"torch.Tensor.zero_", "torch.Tensor.fill_", "torch.nn.init.zeros_", "torch.nn.init.ones_"}
_CONSTANTS |= {"torch.nn.init.constant_"}


def host_write(scope: Scope, statement: ast.Expr) -> list[ast.stmt] | None:
    """The statements for a call that writes to a tensor in place; None where it is no such call.

    Raises Untranslatable where the port can't write there: values would be lost without a word.
    """
    call = statement.value
    facts = scope.calls(call) if isinstance(call, ast.Call) else ()
    api = _api(facts)
    if not isinstance(call, ast.Call) or api is None or not api.endswith("_") or api.endswith("__"):
        return None
    target = _target(scope, call, api)
    if target is None:
        return None
    if api == "torch.Tensor.requires_grad_":
        given = [*call.args, *(k.value for k in call.keywords)]
        wanted = lower(scope, given[0]) if given else literal(True)
        return [ast.Assign([ast.Attribute(lower(scope, target), "requires_grad", ast.Store())], wanted)]
    before: list[ast.stmt] = []
    if isinstance(target, ast.Call):  # `w.mul_(2).add_(1)`
        inner = host_write(scope, ast.copy_location(ast.Expr(target), statement))
        if inner is None:
            return None
        before, target = inner, _innermost(target)
    plain = _without_data(target)
    if isinstance(plain, ast.Subscript):
        return [*before, _into_part(scope, call, api, plain)]
    buffer = _is_plain_buffer(scope, plain)
    if buffer and (api in STARTS or api.startswith("torch.nn.init.")):
        if api in _CONSTANTS:
            whole = ast.copy_location(ast.Subscript(plain, ast.Constant(...), ast.Store()), plain)
            return [*before, _into_part(scope, call, api, whole)]
        value = ast.Call(ast.Attribute(initializer_of(scope, call), "init_data", ast.Load()), [], [])
        return [*before, _whole(lower(scope, plain), value)]
    if isinstance(plain, ast.Name) and (api in STARTS or api.startswith("torch.nn.init.")):
        return _fill(scope, plain.id, call)
    has_row = api != "torch.Tensor.copy_" and scope.work.opmap.row(api) is not None
    if not api.startswith("torch.Tensor.") or api in STARTS or has_row:
        return None
    args, keywords = torch_arguments(scope, call, facts, api)
    base = lower(scope, plain)
    is_local = isinstance(plain, ast.Name) and is_made_here(scope, plain.id)
    if not is_local:
        args, keywords = tuple(map(_as_tensor, args)), tuple((k, _as_tensor(a)) for k, a in keywords)
    if api == "torch.Tensor.copy_" and _same_shape(scope.values(target), args[0].values):
        copied = args[0].expression
        if is_local or buffer:
            return [*before, _whole(base, copied)]
        return [*before, set_data(base, copied)]
    functional = Call(api[:-1], args, keywords, Argument(base, scope.values(target)))
    try:
        lowering = scope.work.opmap.host(functional) if is_local else scope.work.opmap.lower(functional)
    except NoLowering as error:
        raise Untranslatable(call, str(error)) from error
    made = accept(scope, call, lowering, api)
    if isinstance(plain, ast.Name) and is_local:
        return [*before, ast.Assign([ast.Name(plain.id, ast.Store())], made)]
    return [*before, _whole(base, made) if buffer else set_data(base, made)]


def data_assignment(scope: Scope, statement: ast.Assign) -> list[ast.stmt] | None:
    """``w.data = value`` as ``w.set_data(value)``, of a plain buffer ``b[...] = value``; None where it is none."""
    match statement.targets:
        case [ast.Attribute(value=holder, attr="data")] if scope.values(holder):
            if not all(isinstance(v, TensorValue) for v in scope.values(holder)):
                return None
            value = Argument(lower(scope, statement.value), scope.values(statement.value))
            if isinstance(holder, ast.Name) and is_made_here(scope, holder.id):
                return [ast.Assign([ast.Name(holder.id, ast.Store())], value.expression)]
            written = _as_tensor(value).expression
            base = lower(scope, holder)
            return [_whole(base, written) if _is_plain_buffer(scope, holder) else set_data(base, written)]
    return None


def _is_plain_buffer(scope: Scope, target: ast.expr) -> bool:
    """Whether the target is a buffer that torch does not save: in the port a Tensor, which has no ``set_data``."""
    if not isinstance(target, ast.Attribute):
        return False
    paths = [v.path for v in scope.values(target.value) if isinstance(v, ModuleValue) and v.path is not None]
    names = [f"{path}.{target.attr}" if path else target.attr for path in paths]
    kinds = [scope.work.program.parameters[n].kind for n in names if n in scope.work.program.parameters]
    return bool(kinds) and len(kinds) == len(names) and set(kinds) == {"buffer (not persistent)"}


def _whole(base: ast.expr, value: ast.expr) -> ast.stmt:
    """``base[...] = value``."""
    return ast.Assign([ast.Subscript(base, ast.Constant(...), ast.Store())], value)


def set_data(base: ast.expr, value: ast.expr) -> ast.stmt:
    """``base.set_data(value)``."""
    return ast.Expr(ast.Call(ast.Attribute(base, "set_data", ast.Load()), [value], []))


def _as_tensor(argument: Argument) -> Argument:
    """What numpy computed as a Tensor, for an operator of MindSpore; a parameter or buffer is one."""
    values = argument.values or ()
    first = values[0] if values else None
    if not isinstance(first, TensorValue) or isinstance(argument.expression, ast.Attribute):
        return argument
    made = ast.Call(ast.Name("Tensor", ast.Load()), [argument.expression, dtype_expression(first.dtype)], [])
    return Argument(made, values)


def _same_shape(one: Sequence[Value], other: Sequence[Value] | None) -> bool:
    shapes = {v.shape for v in (*one, *(other or ())) if isinstance(v, TensorValue)}
    return bool(other) and len(shapes) == 1


def _fill(scope: Scope, name: str, call: ast.Call) -> list[ast.stmt] | None:
    """An initializer for a local tensor: for one that becomes a Parameter it is said there."""
    if filled_local(scope, name) is not None:
        return []
    if not is_made_here(scope, name):
        return None
    return [ast.Assign([ast.Name(name, ast.Store())], array_of(initializer_of(scope, call), name))]


def _api(facts: Sequence[CallFact]) -> str | None:
    names = {f.callee.name for f in facts if isinstance(f.callee, FunctionValue) and f.callee.torch}
    return names.pop() if len(names) == 1 else None


def _target(scope: Scope, call: ast.Call, api: str) -> ast.expr | None:
    """The tensor that is written: the receiver of a method, the first argument of ``nn.init``'s."""
    if api.startswith("torch.Tensor.") and isinstance(call.func, ast.Attribute):
        held = scope.values(call.func.value)
        return call.func.value if held and all(isinstance(v, TensorValue) for v in held) else None
    if api.startswith("torch.nn.init.") and call.args:
        return call.args[0]
    return None


def _innermost(call: ast.expr) -> ast.expr:
    while isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        call = call.func.value
    return call


def _without_data(target: ast.expr) -> ast.expr:
    """``w.data[0]`` as ``w[0]``: a Parameter of MindSpore takes writes itself."""
    if isinstance(target, ast.Attribute) and target.attr == "data":
        return _without_data(target.value)
    if isinstance(target, ast.Subscript):
        return ast.copy_location(ast.Subscript(_without_data(target.value), target.slice, target.ctx), target)
    return target


def _into_part(scope: Scope, call: ast.Call, api: str, target: ast.Subscript) -> ast.stmt:
    """``w[i].zero_()`` -> ``w[i] = 0``; what is no constant can't be written into a part."""
    if api not in _CONSTANTS:
        raise Untranslatable(call, f"`{ast.unparse(call)}` writes into a part of a tensor")
    given = call.args if api.startswith("torch.Tensor.") else call.args[1:]
    values = [*given, *(k.value for k in call.keywords if k.arg in ("value", "val"))]
    value = lower(scope, values[0]) if values else literal(1.0 if api.endswith("ones_") else 0.0)
    place = ast.Subscript(lower(scope, target.value), lower(scope, target.slice), ast.Store())
    return ast.Assign([place], value)


def is_made_here(scope: Scope, name: str) -> bool:
    """Whether a local is a tensor that this function computes itself, and no parameter by another name."""
    stores = [
        node.value
        for statement in scope.function.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    ]
    return bool(stores) and not any(isinstance(value, ast.Name | ast.Attribute) for value in stores)
