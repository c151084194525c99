"""Names, attributes and values as source of the output."""

from __future__ import annotations

import ast
import builtins

from ms_port.ir.tree import copy, expression, literal, statement
from ms_port.ir.values import (
    ClassValue,
    DictValue,
    DType,
    FunctionValue,
    Literal,
    ObjectValue,
    PackageValue,
    PartialValue,
    SequenceValue,
    Value,
)
from ms_port.opmap import Argument, NoLowering
from ms_port.passes.lowering.configs import named_partial
from ms_port.passes.lowering.scope import (
    Scope,
    Untranslatable,
    constant_of,
    dtype_expression,
    mark_functions,
    same,
)

_BUILTINS = frozenset(dir(builtins))
KEPT_PACKAGES = {
    "math": "math",
    "numpy": "np",
    "functools": "functools",
    "itertools": "itertools",
    "operator": "operator",
}
_TENSOR_KINDS = ("", "Float", "Double", "Half", "Long", "Int", "Short", "Byte", "Bool")
TENSOR_CLASSES = {f"torch.{package}{kind}Tensor" for package in ("", "cuda.") for kind in _TENSOR_KINDS}


_HOST_CLASSES = {
    "builtins.function": "types.FunctionType",
    "builtins.method": "types.MethodType",
    "builtins.NoneType": "type(None)",
    **{f"collections.abc.{name}": name for name in ("Callable", "Iterable", "Iterator", "Mapping", "Sequence")},
}
"""Classes that a constructor may ask for with ``isinstance`` and that are no builtins."""


def lower_name(scope: Scope, node: ast.Name) -> ast.expr:
    """A name: kept where it is a local, resolved where it comes from outside the function."""
    if not isinstance(node.ctx, ast.Load):
        return copy(node)
    values = scope.values(node)
    if node.id in scope.poisoned:
        constant = constant_of(values)
        if constant is None:
            raise Untranslatable(node, f"`{node.id}` is not there: {scope.poisoned[node.id]}")
        scope.flag_number(node, scope.poisoned[node.id])
        return constant
    if node.id in scope.baked and node.id not in scope.stored:
        return of_value(scope, node, scope.baked[node.id])
    if scope.host and node.id in scope.displays:
        entries = scope.displays[node.id]
        return ast.Dict([literal(key) for key in entries], [scope_lower(scope, e) for e in entries.values()])
    if node.id == scope.varkw:
        raise Untranslatable(node, f"`{node.id}` as a dict: the port has its entries as parameters")
    if node.id in scope.locals or node.id in scope.expanded or node.id in scope.spread:
        if (foreign := next((v for v in values if is_foreign(scope, v)), None)) is not None:
            raise Untranslatable(node, f"`{node.id}` holds {foreign}, which the port does not have")
        return copy(node)
    return _global(scope, node, values)


def _global(scope: Scope, node: ast.Name, values: tuple[Value, ...]) -> ast.expr:
    if not values:
        if node.id in _BUILTINS:
            return copy(node)
        raise Untranslatable(node, f"`{node.id}` never ran and can't be told by name")
    if not same(values):
        raise Untranslatable(node, f"`{node.id}` from outside the function differs between calls")
    value = values[0]
    is_closure = node.id in scope.facts.closure
    if isinstance(value, Literal) and not is_closure and not _is_builtin(node.id, value):
        if isinstance(value.value, str) and node.id.startswith("__"):
            return literal(value.value)
        return _constant(scope, node.id, literal(value.value))
    if isinstance(value, DictValue | SequenceValue) and not is_closure:
        return _constant(scope, node.id, of_value(scope, node, value))
    if isinstance(value, ClassValue | FunctionValue) and _is_plain_builtin(value) and node.id in _BUILTINS:
        return copy(node)
    return of_value(scope, node, value)


def _is_builtin(name: str, value: Literal) -> bool:
    return name in ("True", "False", "None", "NotImplemented", "__debug__")


def _is_plain_builtin(value: Value) -> bool:
    name = getattr(value, "name", "")
    return name.startswith("builtins.") or (isinstance(value, ClassValue) and "." not in name)


def _constant(scope: Scope, name: str, value: ast.expr) -> ast.expr:
    """A module-level name that the output defines too."""
    defined = statement(f"{name} = {ast.unparse(value)}")
    known = scope.work.constants.setdefault(name, defined)
    if ast.dump(known) != ast.dump(defined):
        return value  # another module's constant of the same name: the value stands in its place
    return ast.Name(name, ast.Load())


def is_foreign(scope: Scope, value: Value) -> bool:
    """Whether a local that holds the value can't exist in the output."""
    match value:
        case ObjectValue(kind="config"):
            if scope.host or _only_stores_plain_values(scope, value):
                return False
            return value.cls in scope.work.program.cells or value.cls in scope.work.graph_made
        case ObjectValue(kind="output") | ObjectValue(cls="numpy.ndarray"):
            return False
        case ObjectValue():
            return True
        case PackageValue():
            return True
    return False


def _only_stores_plain_values(scope: Scope, value: ObjectValue) -> bool:
    """Whether an object of a person's own plain class holds nothing but what its constructor stores: numbers, words.

    GRAPH_MODE runs the methods of such an object, which is an attribute of a cell, with their gradients.
    """
    cell = scope.work.program.cells.get(value.cls)
    init = next((m for m in cell.methods if m.name == "__init__"), None) if cell is not None else None
    if init is None or value.cls in scope.work.graph_made:
        return False
    held = dict(value.fields)
    for made in init.body:
        match made:
            case ast.Assign(targets=targets) if all(
                isinstance(t, ast.Attribute) and isinstance(held.get(t.attr), Literal) for t in targets
            ):
                continue
            case ast.AnnAssign(target=ast.Attribute(attr=name)) if isinstance(held.get(name), Literal):
                continue
            case ast.Assert() | ast.Expr(value=ast.Constant()):
                continue
        return False
    return True


def of_value(scope: Scope, node: ast.AST, value: Value) -> ast.expr:
    """Source for a value of its own: a literal, a layer class, a function. Raises Untranslatable."""
    match value:
        case Literal(value=plain):
            try:
                return literal(plain)
            except ValueError as error:
                raise Untranslatable(node, str(error)) from error
        case DType(name=name):
            return dtype_expression(name)
        case ClassValue(name=name):
            return _class(scope, node, value, name)
        case FunctionValue():
            return _function(scope, node, value)
        case PartialValue(func=func, args=(), keywords=keywords):
            return _partial(scope, node, func, keywords)
        case SequenceValue(kind=kind, items=items):
            elements = [of_value(scope, node, item) for item in items]
            if kind == "list":
                return ast.List(elements, ast.Load())
            return ast.Tuple(elements, ast.Load()) if kind == "tuple" else ast.Set(elements)
        case DictValue(items=pairs):
            return ast.Dict([literal(k) for k, _ in pairs], [of_value(scope, node, v) for _, v in pairs])
        case PackageValue(name=name) if name in KEPT_PACKAGES:
            return ast.Name(KEPT_PACKAGES[name], ast.Load())
    raise Untranslatable(node, f"{value} has no counterpart in the port")


def of_class(scope: Scope, node: ast.AST, name: str) -> ast.expr:
    """The MindSpore class of a module class, for ``isinstance``. Raises Untranslatable."""
    if name in scope.work.program.cells:
        return ast.Name(scope.work.program.cells[name].name, ast.Load())
    row = scope.work.opmap.row(name)
    if row is None or row.cell is None:
        raise Untranslatable(node, f"{name} has no cell")
    if "." not in row.cell:
        scope.work.op_functions.add(row.cell)
    return expression(row.cell)


def _class(scope: Scope, node: ast.AST, value: ClassValue, name: str) -> ast.expr:
    if name in TENSOR_CLASSES:
        return ast.Name("Tensor", ast.Load())
    if name == "torch.nn.Parameter":
        return ast.Name("Parameter", ast.Load())
    if name == "torch.nn.Module":
        return expression("nn.Cell")
    if name in scope.work.program.cells:
        scope.work.cells.add(name)
        return ast.Name(scope.work.program.cells[name].name, ast.Load())
    if scope.host and name.startswith(("itertools.", "functools.")):
        return expression(name)
    if name in _HOST_CLASSES and scope.host:
        return expression(_HOST_CLASSES[name])
    if name == "collections.OrderedDict":
        return ast.Name("OrderedDict", ast.Load())
    if name.startswith("numpy."):
        return expression(f"np.{name.removeprefix('numpy.')}")
    if name.startswith("builtins."):
        return ast.Name(name.removeprefix("builtins."), ast.Load())
    try:
        lowering = scope.work.opmap.lower_value(name)
    except NoLowering as error:
        raise Untranslatable(node, str(error)) from error
    return scope.use(lowering)


def _function(scope: Scope, node: ast.AST, value: FunctionValue) -> ast.expr:
    work = scope.work
    if value.torch:
        try:
            lowering = work.opmap.lower_value(value.name)
        except NoLowering as error:
            raise Untranslatable(node, str(error)) from error
        work.op_functions |= lowering.functions
        return mark_functions(lowering.expression, lowering.functions)
    if value.owner is None and work.opmap.row(value.name.replace(":", ".")) is not None:
        raise Untranslatable(node, f"{value.name} is written out where it is called")
    if value.owner is None and value.name in work.program.functions:
        if work.program.functions[value.name].name == "<lambda>":
            raise Untranslatable(node, "a lambda chosen while running")
        work.need(value.name)
        name = ast.Name(work.program.functions[value.name].name, ast.Load())
        name.callees = (value.name,)  # type: ignore[attr-defined]
        return name
    function = work.all_functions.get(value.name)
    if scope.host and function is not None and function.owner is not None and function.owner in work.program.cells:
        work.need(value.name)
        owner = work.program.cells[function.owner]
        if value.owner is not None and value.owner in scope.facts.parameters.get("self", ()):
            return expression(f"self.{function.name}")
        work.cells.add(owner.key)
        return expression(f"{owner.name}.{function.name}")
    if value.name.startswith(("math.", "builtins.")):
        return expression(value.name.removeprefix("builtins."))
    if value.name == "copy:deepcopy" and scope.host:
        return expression("copy.deepcopy")
    if (sign := _OPERATORS.get(value.name)) is not None:
        return expression(f"lambda x, y: x {sign} y")
    raise Untranslatable(node, f"the function {value.name} is not part of the port")


_OPERATORS = {"_operator.add": "+", "_operator.mul": "*", "_operator.sub": "-", "_operator.matmul": "@"}


def _partial(scope: Scope, node: ast.AST, func: Value, keywords: tuple[tuple[str, Value], ...]) -> ast.expr:
    if isinstance(func, ClassValue) and func.is_module:
        if func.name in scope.work.program.cells:
            scope.work.cells.add(func.name)
            made = [ast.keyword(k, of_value(scope, node, v)) for k, v in keywords]
            call = ast.Call(ast.Name("partial", ast.Load()), [_class(scope, node, func, func.name)], made)
            methods = scope.work.program.cells[func.name].methods
            call.callees = tuple(m.key for m in methods if m.name == "__init__")  # type: ignore[attr-defined]
            return call
        arguments = tuple((k, Argument(of_value(scope, node, v), (v,))) for k, v in keywords)
        try:
            lowering = scope.work.opmap.lower_value(func.name, arguments)
        except NoLowering as error:
            raise Untranslatable(node, str(error)) from error
        return scope.use(lowering)
    if isinstance(func, FunctionValue) and not func.torch and scope.host:
        # ordinary Python of a constructor; one that the graph calls is refused at its call
        made = [ast.keyword(k, of_value(scope, node, v)) for k, v in keywords]
        call = ast.Call(ast.Name("partial", ast.Load()), [_function(scope, node, func)], made)
        call.callees = (func.name,)  # type: ignore[attr-defined]
        return call
    if isinstance(func, FunctionValue) and func.torch:
        return named_partial(scope.work, func, keywords)
    raise Untranslatable(node, "a functools.partial over a function loses its gradient in GRAPH_MODE")


def scope_lower(scope: Scope, node: ast.expr) -> ast.expr:
    """Lower any expression (late import: the dispatcher knows all kinds)."""
    from ms_port.passes.lowering.expressions import lower

    return lower(scope, node)
