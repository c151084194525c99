"""Names, attributes and values as source of the output."""

from __future__ import annotations

import ast
import re

from ms_port.ir.flags import Place
from ms_port.ir.program import FunctionDef
from ms_port.ir.tree import copy, expression, literal, statement
from ms_port.ir.values import (
    ClassValue,
    DictValue,
    DType,
    FunctionValue,
    Literal,
    ModuleValue,
    ObjectValue,
    PackageValue,
    PartialValue,
    SequenceValue,
    TensorValue,
    Value,
)
from ms_port.opmap import Argument, Call, NoLowering
from ms_port.passes.lowering.scope import DifferentNames, Scope, Untranslatable, constant_of, dtype_expression, same

_BUILTINS = set(dir(__builtins__)) if not isinstance(__builtins__, dict) else set(__builtins__)
KEPT_PACKAGES = {"math": "math", "numpy": "np", "functools": "functools", "itertools": "itertools", "operator": "operator"}
_TENSOR_CLASSES = {"torch.Tensor", "torch.FloatTensor", "torch.LongTensor"}


def lower_name(scope: Scope, node: ast.Name) -> ast.expr:
    """A name: kept where it is a local, resolved where it comes from outside the function."""
    if not isinstance(node.ctx, ast.Load):
        return copy(node)
    values = scope.values(node)
    if node.id in scope.poisoned:
        constant = constant_of(values)
        if constant is None:
            raise Untranslatable(node, f"`{node.id}` is not there: {scope.poisoned[node.id]}")
        return constant
    if node.id in scope.baked and node.id not in scope.stored:
        return of_value(scope, node, scope.baked[node.id])
    if node.id in scope.locals or node.id in scope.expanded:
        if values and is_foreign(scope, values[0]):
            raise Untranslatable(node, f"`{node.id}` holds {values[0]}, which the port does not have")
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
            return not scope.host and not _is_known_config(scope, value)
        case ObjectValue(kind="output"):
            return False
        case ObjectValue():
            return True
        case PackageValue():
            return True
    return False


def _is_known_config(scope: Scope, value: ObjectValue) -> bool:
    return value.cls in scope.work.config_fields


def of_value(scope: Scope, node: ast.AST, value: Value) -> ast.expr:
    """Source for a value of its own: a literal, a layer class, a function. Raises Untranslatable."""
    work = scope.work
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
    if name in _TENSOR_CLASSES:
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
    if name == "collections.OrderedDict":
        return ast.Name("OrderedDict", ast.Load())
    if name.startswith("builtins."):
        return ast.Name(name.removeprefix("builtins."), ast.Load())
    try:
        lowering = scope.work.opmap.lower_value(name)
    except NoLowering as error:
        raise Untranslatable(node, str(error)) from error
    scope.work.op_functions |= lowering.functions
    return lowering.expression


def _function(scope: Scope, node: ast.AST, value: FunctionValue) -> ast.expr:
    work = scope.work
    if value.torch:
        try:
            lowering = work.opmap.lower_value(value.name)
        except NoLowering as error:
            raise Untranslatable(node, str(error)) from error
        work.op_functions |= lowering.functions
        return lowering.expression
    if value.owner is None and value.name in work.program.functions:
        work.need(value.name)
        name = ast.Name(work.program.functions[value.name].name, ast.Load())
        name.callees = (value.name,)  # type: ignore[attr-defined]
        return name
    function = work.all_functions.get(value.name)
    if scope.host and function is not None and function.owner in work.program.cells:
        work.need(value.name)
        owner = work.program.cells[function.owner]
        work.cells.add(owner.key)
        return expression(f"{owner.name}.{function.name}")
    if value.name.startswith(("math.", "builtins.")):
        return expression(value.name.removeprefix("builtins."))
    raise Untranslatable(node, f"the function {value.name} is not part of the port")


def _partial(
    scope: Scope, node: ast.AST, func: Value, keywords: tuple[tuple[str, Value], ...]
) -> ast.expr:
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
        scope.work.op_functions |= lowering.functions
        return lowering.expression
    if isinstance(func, FunctionValue) and func.torch:
        return _named_partial(scope, node, func, keywords)
    raise Untranslatable(node, "a functools.partial over a function loses its gradient in GRAPH_MODE")


def _named_partial(
    scope: Scope, node: ast.AST, func: FunctionValue, keywords: tuple[tuple[str, Value], ...]
) -> ast.expr:
    """``partial(F.gelu, approximate="tanh")`` as a ``def gelu_tanh(x)``: a partial would stop the gradient."""
    from ms_port.passes.lowering.held import EMPTY_FACTS

    given = tuple((k, Argument(of_value(scope, node, v), (v,))) for k, v in keywords)
    tensor = Argument(ast.Name("x", ast.Load()), (TensorValue((1,), "float32"),))
    try:
        lowering = scope.work.opmap.lower(Call(func.name, (tensor,), given))
    except NoLowering as error:
        raise Untranslatable(node, str(error)) from error
    scope.work.op_functions |= lowering.functions
    words = [func.name.rpartition(".")[2], *(re.sub(r"\W", "_", str(getattr(v, "value", v))) for _, v in keywords)]
    name = "_".join(words)
    definition = statement(f"def {name}(x: Tensor) -> Tensor: pass")
    assert isinstance(definition, ast.FunctionDef)
    text = ", ".join([func.name.removeprefix("torch.nn.functional."), *(f"{k}={v}" for k, v in keywords)])
    key = f"partial:{name}"
    scope.work.generated[key] = FunctionDef(
        key, name, definition, (ast.Return(lowering.expression),), EMPTY_FACTS, Place(scope.function.loc.file, 0),
        docstring=text + ".",
    )  # fmt: skip
    result = ast.Name(name, ast.Load())
    result.callees = (key,)  # type: ignore[attr-defined]
    return result


# --- attributes -----------------------------------------------------------------------------------------------------

_TENSOR_ATTRIBUTES = {"shape": "shape", "ndim": "ndim", "dtype": "dtype", "T": "T", "itemsize": "itemsize"}


def lower_attribute(scope: Scope, node: ast.Attribute) -> ast.expr:
    """``base.attr``: of a package, a cell, a tensor, a config or an output object."""
    if not isinstance(node.ctx, ast.Load):
        return ast.Attribute(scope_lower(scope, node.value), node.attr, node.ctx)
    values, bases = scope.values(node), scope.values(node.value)
    base = bases[0] if bases else None
    match base:
        case None:
            return _unknown_base(scope, node, values)
        case PackageValue():
            return _package_attribute(scope, node, values)
        case ModuleValue():
            return _cell_attribute(scope, node, bases, values)
        case TensorValue():
            return _tensor_attribute(scope, node)
        case ObjectValue(kind="config"):
            return _config_attribute(scope, node, base, values)
        case ObjectValue(kind="output"):
            return _output_attribute(scope, node, base, values)
        case ClassValue(name=name) if name in scope.work.program.cells and isinstance(constant_of(values), ast.expr):
            scope.work.cells.add(name)
            _note_class_attribute(scope, name, node.attr)
            return ast.Attribute(scope_lower(scope, node.value), node.attr, node.ctx)
    if isinstance(base, ObjectValue) and base.cls in ("torch.finfo", "torch.iinfo") and isinstance(node.value, ast.Call):
        return _type_limit(scope, node)
    constant = constant_of(values)
    if constant is not None:
        return constant
    if values and same(values) and not isinstance(values[0], ObjectValue | TensorValue):
        return of_value(scope, node, values[0])
    if isinstance(base, DType) and node.attr == "is_floating_point":
        return ast.Attribute(scope_lower(scope, node.value), "is_floating_point", node.ctx)
    raise Untranslatable(node, f"`{ast.unparse(node)}` reads {base}, which the port does not have")


def _type_limit(scope: Scope, node: ast.Attribute) -> ast.expr:
    """``torch.finfo(x.dtype).min`` -> ``finfo_min(x.dtype)``; of a fixed type it is a number."""
    assert isinstance(node.value, ast.Call)
    name = f"finfo_{node.attr}"
    constant = constant_of(scope.values(node))
    if name not in scope.work.opmap.function_names or len(node.value.args) != 1:
        if constant is None:
            raise Untranslatable(node, f"`{ast.unparse(node)}` has no counterpart")
        return constant
    dtype = scope_lower(scope, node.value.args[0])
    if constant is not None and isinstance(dtype, ast.Attribute) and ast.unparse(dtype).startswith("ms."):
        return constant
    scope.work.op_functions.add(name)
    return ast.Call(ast.Name(name, ast.Load()), [dtype], [])


def scope_lower(scope: Scope, node: ast.expr) -> ast.expr:
    """Lower any expression (late import: the dispatcher knows all kinds)."""
    from ms_port.passes.lowering.expressions import lower

    return lower(scope, node)


def _unknown_base(scope: Scope, node: ast.Attribute, values: tuple[Value, ...]) -> ast.expr:
    """An attribute that never ran: kept in a constructor where the base is a local name."""
    if values:
        return of_value(scope, node, values[0])
    if isinstance(node.value, ast.Name) and node.value.id == "self" and not is_method(scope, node.attr):
        known = scope.facts.parameters.get("self", ())
        if known and isinstance(known[0], ModuleValue) and (scope.host or _is_plain_attribute(scope, known, node.attr)):
            return ast.Attribute(copy(node.value), node.attr, node.ctx)
    raise Untranslatable(node, f"`{ast.unparse(node)}` never ran")


def is_method(scope: Scope, name: str) -> bool:
    """Whether a class of the model defines a method of that name."""
    return any(m.name == name for cell in scope.work.program.cells.values() for m in cell.methods)


def _is_plain_attribute(scope: Scope, owners: tuple[Value, ...], name: str) -> bool:
    """Whether every instance holds a literal under the name."""
    paths = [o.path for o in owners if isinstance(o, ModuleValue) and o.path is not None]
    held = [dict(scope.work.program.modules[p].attributes).get(name) for p in paths]
    return bool(held) and all(isinstance(v, Literal) for v in held)


def _package_attribute(scope: Scope, node: ast.Attribute, values: tuple[Value, ...]) -> ast.expr:
    if not values:
        raise Untranslatable(node, f"`{ast.unparse(node)}` never ran")
    value = values[0]
    root = ast.unparse(node)
    if isinstance(value, Literal):
        if root in ("math.pi", "math.inf", "math.e", "math.tau"):
            return expression(root)
        constant = constant_of(values)
        if constant is not None:
            return constant
    if isinstance(value, FunctionValue) and value.name.startswith("math."):
        return expression(value.name)
    return of_value(scope, node, value)


def _cell_attribute(
    scope: Scope, node: ast.Attribute, bases: tuple[Value, ...], values: tuple[Value, ...]
) -> ast.expr:
    owners = sorted({b.cls for b in bases if isinstance(b, ModuleValue)})
    root = node.value.id if isinstance(node.value, ast.Name) else ""
    if root in scope.narrowed:
        owners = [o for o in owners if o in scope.narrowed[root]]
    value = values[0] if values else None
    if isinstance(value, DType):
        return _dtype_of_cell(scope, node, owners, value)
    if value is not None and is_foreign(scope, value) and not _is_property(scope, owners, node.attr):
        constant = constant_of(values)
        if constant is None:
            raise Untranslatable(node, f"`{ast.unparse(node)}` holds {value}")
        return constant
    if isinstance(value, FunctionValue) and not value.torch:
        _need_method(scope, node, values)
        return ast.Attribute(scope_lower(scope, node.value), node.attr, node.ctx)
    lowered = scope_lower(scope, node.value)
    if node.attr == "training":
        return ast.Attribute(lowered, "training", node.ctx)
    names = {_renamed(scope, owner, node.attr) for owner in owners}
    if None in names or len(names) != 1:
        constant = constant_of(values)
        if constant is not None:
            return constant
        raise DifferentNames(node, f"`{ast.unparse(node)}` has different names in {', '.join(owners)}", root, owners)
    for owner in owners:
        _note_class_attribute(scope, owner, node.attr)
        _need_property(scope, owner, node.attr)
    return ast.Attribute(lowered, names.pop() or node.attr, node.ctx)


def _need_method(scope: Scope, node: ast.Attribute, values: tuple[Value, ...]) -> None:
    """A method or function held by a cell and used as a value."""
    for value in values:
        if isinstance(value, FunctionValue) and (value.name in scope.work.all_functions or value.owner is not None):
            scope.work.need(value.name, node)


def _dtype_of_cell(scope: Scope, node: ast.Attribute, owners: list[str], value: DType) -> ast.expr:
    if all(_is_property(scope, [owner], node.attr) for owner in owners):
        for owner in owners:
            _need_property(scope, owner, node.attr)
        return ast.Attribute(scope_lower(scope, node.value), node.attr, node.ctx)
    return dtype_expression(value.name)


def _renamed(scope: Scope, owner: str, attr: str) -> str | None:
    """The attribute's name on the MindSpore cell; None where it has none."""
    if owner in scope.work.program.cells:
        bases = [b for b in _mro(scope, owner) if b.startswith("torch.nn.") and b != "torch.nn.Module"]
        return _renamed(scope, bases[0], attr) or attr if bases else attr
    row = scope.work.opmap.row(owner)
    if row is None:
        return attr if owner == "torch.nn.Module" else None
    for rule in row.weights:
        if rule.torch == attr:
            return rule.mindspore
    return (row.attributes or {}).get(attr)


def _mro(scope: Scope, owner: str) -> list[str]:
    cell = scope.work.program.cells.get(owner)
    if cell is None:
        return [owner]
    return [owner, *(name for base in cell.bases for name in _mro(scope, base))]


def _is_property(scope: Scope, owners: list[str], attr: str) -> bool:
    return any(_property(scope, owner, attr) for owner in owners)


def _property(scope: Scope, owner: str, attr: str) -> str | None:
    for base in _mro(scope, owner):
        cell = scope.work.program.cells.get(base)
        for method in cell.methods if cell else ():
            if method.name == attr and method.kind == "property":
                return method.key
    return None


def _need_property(scope: Scope, owner: str, attr: str) -> None:
    if (key := _property(scope, owner, attr)) is not None:
        scope.work.need(key)


def _note_class_attribute(scope: Scope, owner: str, attr: str) -> None:
    for base in _mro(scope, owner):
        scope.work.class_attributes.add((base, attr))


def _tensor_attribute(scope: Scope, node: ast.Attribute) -> ast.expr:
    base = scope_lower(scope, node.value)
    if node.attr in _TENSOR_ATTRIBUTES:
        return ast.Attribute(base, _TENSOR_ATTRIBUTES[node.attr], node.ctx)
    if node.attr == "mT":
        return ast.Call(ast.Attribute(base, "swapaxes", ast.Load()), [literal(-2), literal(-1)], [])
    if node.attr in ("H", "mH", "real", "imag"):
        raise Untranslatable(node, f"`.{node.attr}` of a tensor")
    if node.attr == "data":
        return base
    constant = constant_of(scope.values(node))
    if constant is None:
        raise Untranslatable(node, f"`.{node.attr}` of a tensor has no counterpart")
    return constant


def _config_attribute(
    scope: Scope, node: ast.Attribute, base: ObjectValue, values: tuple[Value, ...]
) -> ast.expr:
    constant = constant_of(values)
    try:
        owner = scope_lower(scope, node.value)
    except Untranslatable:
        if constant is None:
            raise
        return constant
    if not values or not isinstance(values[0], Literal):
        if constant is None:
            raise Untranslatable(node, f"`{ast.unparse(node)}` is no plain field")
        return constant
    if base.cls in scope.work.program.cells:
        _need_property(scope, base.cls, node.attr)
        return ast.Attribute(owner, node.attr, node.ctx)
    scope.work.config_fields[base.cls][node.attr] = values[0]
    made = ast.Attribute(owner, node.attr, node.ctx)
    made.of_config = base.cls  # type: ignore[attr-defined]
    return made


def _output_attribute(
    scope: Scope, node: ast.Attribute, base: ObjectValue, values: tuple[Value, ...]
) -> ast.expr:
    fields = output_fields(base)
    if node.attr in fields:
        return ast.Subscript(scope_lower(scope, node.value), literal(fields.index(node.attr)), node.ctx)
    constant = constant_of(values)
    if constant is None:
        raise Untranslatable(node, f"the field {node.attr} of {base.cls} is no tensor")
    return constant


def output_fields(value: ObjectValue) -> list[str]:
    """The fields of an output object that the port returns, in order: those that hold tensors."""
    from ms_port.ir.values import holds_tensor

    return [name for name, item in value.fields if holds_tensor(item)]
