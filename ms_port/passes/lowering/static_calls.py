"""Calls that never ran: in a constructor an arm stays where each call in it resolves by name alone."""

from __future__ import annotations

import ast

from ms_port.ir.values import ClassValue, FunctionValue, ModuleValue
from ms_port.opmap import Argument, Call, NoLowering
from ms_port.passes.lowering.builtin_calls import HOST_BUILTINS
from ms_port.passes.lowering.expressions import lower
from ms_port.passes.lowering.scope import Scope, Untranslatable


def lower_static_call(scope: Scope, node: ast.Call) -> ast.expr:
    """The call by its name. Raises Untranslatable outside constructors and where the name says nothing."""
    if not scope.host:
        raise Untranslatable(node, f"`{ast.unparse(node.func)}` never ran")
    values = scope.values(node.func)
    match values[0] if values else None:
        case ClassValue(is_module=True, name=name):
            return _static_construct(scope, node, name)
        case ClassValue(name="functools.partial") if node.args:
            return _static_partial(scope, node)
        case ClassValue(name=name) if issubclass_error(name):
            return _plain(scope, node)
        case FunctionValue(torch=True, name=name):
            return _static_torch(scope, node, name)
        case FunctionValue(name=name) if name in scope.work.program.functions:
            scope.work.need(name, node)
            call = _plain(scope, node)
            call.callees = (name,)  # type: ignore[attr-defined]
            return call
        case FunctionValue(name=name) if name.removeprefix("builtins.") in HOST_BUILTINS or name.startswith("math."):
            return _plain(scope, node)
        case ClassValue(name=name) if name.removeprefix("builtins.") in HOST_BUILTINS or name.startswith("itertools."):
            return _plain(scope, node)
    if (method := _own_method(scope, node.func)) is not None:
        scope.work.need(method, node)
        call = _plain(scope, node)
        call.callees = (method,)  # type: ignore[attr-defined]
        return call
    raise Untranslatable(node, f"`{ast.unparse(node.func)}` never ran and does not resolve by name")


def _static_partial(scope: Scope, node: ast.Call) -> ast.expr:
    """``partial(nn.LayerNorm, eps=1e-6)`` as a default or in an arm that never ran."""
    values = scope.values(node.args[0])
    value = values[0] if values else None
    if not isinstance(value, ClassValue) or not value.is_module or len(node.args) > 1:
        raise Untranslatable(node, "a partial of something that is no layer class")
    if value.name in scope.work.program.cells:
        call = _plain(scope, node)
        methods = scope.work.program.cells[value.name].methods
        call.callees = tuple(m.key for m in methods if m.name == "__init__")  # type: ignore[attr-defined]
        return call
    keywords = tuple((k.arg or "", _argument(scope, k.value)) for k in node.keywords)
    try:
        lowering = scope.work.opmap.lower_value(value.name, keywords)
    except NoLowering as error:
        raise Untranslatable(node, str(error)) from error
    return scope.use(lowering)


def issubclass_error(name: str) -> bool:
    """Whether the class is one of Python's exceptions."""
    short = name.removeprefix("builtins.")
    return name.startswith("builtins.") and (short.endswith(("Error", "Exception", "Warning")))


def _plain(scope: Scope, node: ast.Call) -> ast.Call:
    args = [lower(scope, a) for a in node.args]
    return ast.Call(lower(scope, node.func), args, [ast.keyword(k.arg, lower(scope, k.value)) for k in node.keywords])


def _unknown(scope: Scope, node: ast.Call) -> tuple[tuple[Argument, ...], tuple[tuple[str, Argument], ...]]:
    if any(k.arg is None for k in node.keywords) or any(isinstance(a, ast.Starred) for a in node.args):
        raise Untranslatable(node, "star arguments of a call that never ran")
    args = tuple(_argument(scope, a) for a in node.args)
    return args, tuple((k.arg or "", _argument(scope, k.value)) for k in node.keywords)


def _argument(scope: Scope, node: ast.expr) -> Argument:
    from ms_port.ir.values import Literal

    known = (Literal(node.value),) if isinstance(node, ast.Constant) else None
    return Argument(lower(scope, node), known)


def _static_construct(scope: Scope, node: ast.Call, name: str) -> ast.expr:
    work = scope.work
    cell = work.program.cells.get(name)
    if cell is not None and work.opmap.row(name) is None:
        inits = [m.key for m in cell.methods if m.name == "__init__"]
        if not inits or name in work.held:
            raise Untranslatable(node, f"the constructor of {name} never ran")
        work.cells.add(name)
        work.need(inits[0], node)
        call = _plain(scope, node)
        call.callees = (inits[0],)  # type: ignore[attr-defined]
        return call
    return _static_torch(scope, node, name)


def _static_torch(scope: Scope, node: ast.Call, name: str) -> ast.expr:
    args, keywords = _unknown(scope, node)
    try:
        lowering = scope.work.opmap.lower(Call(name, args, keywords))
    except NoLowering as error:
        raise Untranslatable(node, str(error)) from error
    return scope.use(lowering)


def _own_method(scope: Scope, func: ast.expr) -> str | None:
    """``self.method`` of the class itself, where it ran elsewhere."""
    if not (isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self"):
        return None
    owners = scope.facts.parameters.get("self", ())
    owner = owners[0] if owners else None
    cell = scope.work.program.cells.get(owner.cls) if isinstance(owner, ModuleValue) else None
    for method in cell.methods if cell else ():
        if method.name == func.attr and method.during_init:
            return method.key
    return None
