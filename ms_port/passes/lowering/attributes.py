"""``base.attr``: of a package, a cell, a tensor, a configuration or an output object."""

from __future__ import annotations

import ast

from ms_port.ir.program import Program
from ms_port.ir.tree import copy, expression, literal, nid
from ms_port.ir.values import (
    ClassValue,
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
    holds_tensor,
)
from ms_port.passes.lowering.class_names import class_name
from ms_port.passes.lowering.configs import field_of, is_field, own_name
from ms_port.passes.lowering.held import held_module
from ms_port.passes.lowering.layer_settings import layer_setting
from ms_port.passes.lowering.names import is_foreign, of_value, scope_lower
from ms_port.passes.lowering.scope import (
    DifferentNames,
    Scope,
    Untranslatable,
    constant_of,
    dtype_expression,
    mark_functions,
    same,
)

_TORCH_TUPLES = {2: {"values": 0, "indices": 1, "sign": 0, "logabsdet": 1, "eigenvalues": 0, "eigenvectors": 1}}
"""Fields of torch's named results, by their number."""

_TENSOR_ATTRIBUTES = {"shape": "shape", "ndim": "ndim", "dtype": "dtype", "T": "T", "itemsize": "itemsize"}


def lower_attribute(scope: Scope, node: ast.Attribute) -> ast.expr:
    """``base.attr``: of a package, a cell, a tensor, a config or an output object."""
    values, bases = scope.values(node), scope.values(node.value)
    if not isinstance(node.ctx, ast.Load):
        made = ast.Attribute(scope_lower(scope, node.value), node.attr, node.ctx)
        configs = [b for b in bases if isinstance(b, ObjectValue) and b.kind == "config"]
        made.into_config = any(b.cls not in scope.work.program.cells for b in configs)  # type: ignore[attr-defined]
        return made
    if (class_called := class_name(scope, node)) is not None:
        return class_called
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
            return _config_attribute(scope, node, bases, values)
        case ObjectValue(kind="output"):
            return _output_attribute(scope, node, base, values)
        case PartialValue() if node.attr == "func" and _is_local(scope, node.value):
            partials = [ast.unparse(of_value(scope, node, b)).startswith("partial(") for b in bases]
            if all(partials) or not any(partials):
                given = scope_lower(scope, node.value)  # without keywords the port has the layer class itself
                return ast.Attribute(given, "func", node.ctx) if all(partials) else given
        case ClassValue() if _are_settings_of_cells(scope, bases, values):
            for name in (b.name for b in bases if isinstance(b, ClassValue)):
                scope.work.cells.add(name)
                _note_class_attribute(scope, name, node.attr)
            return ast.Attribute(scope_lower(scope, node.value), node.attr, node.ctx)
    if node.attr == "__name__" and _is_same_class_name(scope, node.value, bases, values):
        return ast.Attribute(scope_lower(scope, node.value), "__name__", node.ctx)
    if (
        isinstance(base, ObjectValue)
        and base.cls in ("torch.finfo", "torch.iinfo")
        and isinstance(node.value, ast.Call)
    ):
        return _type_limit(scope, node)
    constant = constant_of(values)
    if constant is not None:
        return constant
    if values and same(values) and not isinstance(values[0], ObjectValue | TensorValue):
        return of_value(scope, node, values[0])
    if isinstance(base, SequenceValue) and isinstance(node.value, ast.Call | ast.Name):
        names = _TORCH_TUPLES.get(len(base.items), {})
        if node.attr in names and all(isinstance(v, TensorValue) for v in base.items):
            return ast.Subscript(scope_lower(scope, node.value), literal(names[node.attr]), node.ctx)
    if isinstance(base, DType) and node.attr == "is_floating_point":
        return ast.Attribute(scope_lower(scope, node.value), "is_floating_point", node.ctx)
    raise Untranslatable(node, f"`{ast.unparse(node)}` reads {base}, which the port does not have")


def _is_local(scope: Scope, node: ast.expr) -> bool:
    return scope.host and isinstance(node, ast.Name) and node.id in scope.locals


def _is_same_class_name(scope: Scope, node: ast.expr, bases: tuple[Value, ...], values: tuple[Value, ...]) -> bool:
    """Whether a constructor reads the name of a class that it was given, and MindSpore's class has the same name."""
    if not _is_local(scope, node) or len(bases) != len(values):
        return False
    for cls, name in zip(bases, values, strict=True):
        row = scope.work.opmap.row(cls.name) if isinstance(cls, ClassValue) and cls.is_module else None
        if row is None or row.cell is None or Literal(row.cell.rpartition(".")[2]) != name:
            return False
    return bool(bases)


def _are_settings_of_cells(scope: Scope, bases: tuple[Value, ...], values: tuple[Value, ...]) -> bool:
    """``block.expansion`` of the model's own classes, also where several have other numbers there."""
    own = all(isinstance(b, ClassValue) and b.name in scope.work.program.cells for b in bases)
    same_everywhere = isinstance(constant_of(values), ast.expr)
    return own and (same_everywhere or (bool(values) and all(isinstance(v, Literal) for v in values)))


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
    return ast.Call(mark_functions(ast.Name(name, ast.Load()), frozenset([name])), [dtype], [])


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


def _cell_attribute(scope: Scope, node: ast.Attribute, bases: tuple[Value, ...], values: tuple[Value, ...]) -> ast.expr:
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
    if isinstance(value, ModuleValue) and (made := _class_module(scope, node, owners, values)) is not None:
        return made
    lowered = scope_lower(scope, node.value)
    if node.attr == "training":
        return ast.Attribute(lowered, "training", node.ctx)
    if (setting := layer_setting(scope, node, owners, lowered)) is not None:
        return setting
    if isinstance(value, ModuleValue) and owners == ["torch.nn.ModuleDict"]:
        return ast.Subscript(lowered, literal(node.attr), node.ctx)
    if _is_named_child(scope, owners, bases, node.attr):
        return ast.Attribute(lowered, node.attr, node.ctx)
    names = {_renamed(scope, owner, node.attr) for owner in owners}
    if None in names or len(names) != 1:
        constant = constant_of(values)
        if constant is not None:
            return constant
        raise DifferentNames(node, f"`{ast.unparse(node)}` has different names in {', '.join(owners)}", root, owners)
    for owner in owners:
        _note_class_attribute(scope, owner, node.attr)
        _need_property(scope, owner, node.attr)
    made = ast.Attribute(lowered, names.pop() or node.attr, node.ctx)
    return _parts(scope, node, made, values)


def _is_named_child(scope: Scope, owners: list[str], bases: tuple[Value, ...], name: str) -> bool:
    """Whether the name is a child of each Sequential (``nn.Sequential(OrderedDict(norm=...))``), as in the port."""
    if owners != ["torch.nn.Sequential"]:
        return False
    modules = scope.work.program.modules
    held = [modules.get(b.path) if b.path is not None else None for b in bases if isinstance(b, ModuleValue)]
    return all(module is not None and name in dict(module.children) for module in held)


_READING = frozenset("items keys values get".split())


def _parts(scope: Scope, node: ast.Attribute, made: ast.Attribute, values: tuple[Value, ...]) -> ast.Attribute:
    """``self.scales.values`` for a ParameterList or ParameterDict, save where a method of its own is called."""
    classes = {v.cls if isinstance(v, ModuleValue) else "" for v in values}
    rows = {cls: scope.work.opmap.row(cls) for cls in classes if cls}
    names = {row.items if row is not None else None for row in rows.values()}
    if len(rows) != len(classes) or len(names) != 1 or (name := names.pop()) is None or _has_method(scope, node):
        return made
    return ast.Attribute(made, name, ast.Load())


def _has_method(scope: Scope, node: ast.Attribute) -> bool:
    """Whether the node stands before a method that changes or asks the container: ``self.scales.append(p)``."""
    return any(
        isinstance(n, ast.Attribute) and nid(n.value) == nid(node) and n.attr not in _READING
        for statement in scope.function.body
        for n in ast.walk(statement)
    )


def _class_module(scope: Scope, node: ast.Attribute, owners: list[str], values: tuple[Value, ...]) -> ast.expr | None:
    """A layer that the class body made (``default_act = nn.SiLU()``), made anew where a constructor takes it."""
    if not scope.host or _is_property(scope, owners, node.attr):
        return None
    program = scope.work.program
    bodies = [name for owner in owners for base in _mro(scope, owner) for name in _class_modules(program, base)]
    value = values[0]
    if node.attr not in bodies or not same(values) or not isinstance(value, ModuleValue) or value.path is None:
        return None
    if any(path == value.path or path.startswith(f"{value.path}.") for path in _owners_of_tensors(program)):
        raise Untranslatable(node, f"`{ast.unparse(node)}` is one layer with weights for all instances of the class")
    return held_module(scope.work, value.path)


def _class_modules(program: Program, cls: str) -> tuple[str, ...]:
    cell = program.cells.get(cls)
    return cell.class_modules if cell is not None else ()


def _owners_of_tensors(program: Program) -> set[str]:
    return {path.rpartition(".")[0] for path in program.parameters}


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
    if owner == "torch.nn.Module":
        return attr
    row = scope.work.opmap.row(owner)
    if row is None:
        return None
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
    if node.attr == "shape" and scope.work.freeze and (frozen := constant_of(scope.values(node))) is not None:
        return frozen
    base = scope_lower(scope, node.value)
    if node.attr in _TENSOR_ATTRIBUTES:
        return ast.Attribute(base, _TENSOR_ATTRIBUTES[node.attr], node.ctx)
    if node.attr in ("mT", "mH", "H", "real", "imag"):
        return _complex_part(scope, node, base)
    if node.attr == "data":
        return base if scope.host else _op("stop_gradient", base)
    constant = constant_of(scope.values(node))
    if constant is None:
        raise Untranslatable(node, f"`.{node.attr}` of a tensor has no counterpart")
    return constant


def _complex_part(scope: Scope, node: ast.Attribute, base: ast.expr) -> ast.expr:
    """``.real`` and its kind, of a real tensor too: its real part and its conjugate are the tensor itself."""
    kinds = {getattr(v, "dtype", "").startswith("complex") for v in scope.values(node.value)}
    if node.attr != "mT" and len(kinds) != 1:
        raise Untranslatable(node, f"`.{node.attr}` of a tensor")
    if node.attr in ("real", "imag"):
        return _op(node.attr, base) if kinds == {True} else base
    if node.attr != "mT" and kinds == {True}:
        base = _op("conj", base)
    return ast.Call(ast.Attribute(base, "swapaxes", ast.Load()), [literal(-2), literal(-1)], [])


def _op(name: str, argument: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(ast.Name("ops", ast.Load()), name, ast.Load()), [argument], [])


def _config_attribute(
    scope: Scope, node: ast.Attribute, bases: tuple[Value, ...], values: tuple[Value, ...]
) -> ast.expr:
    base = bases[0]
    assert isinstance(base, ObjectValue)
    constant = constant_of(values)
    if _is_given_by_property(scope, node.value):
        if constant is None:
            raise Untranslatable(node, f"`{ast.unparse(node.value)}` is computed when it is read")
        scope.flag_number(node, f"`{ast.unparse(node.value)}` is computed when it is read")
        return constant
    try:
        owner = scope_lower(scope, node.value)
    except Untranslatable:
        changing = base.cls in scope.work.graph_made and not isinstance(constant, ast.Constant)
        if constant is None or changing:
            raise
        return constant
    if not values or not (isinstance(values[0], Literal) or (scope.host and all(map(is_field, values)))):
        if constant is None:
            raise Untranslatable(node, f"`{ast.unparse(node)}` is no plain field")
        return constant
    if base.cls in scope.work.program.cells:
        name = own_name(scope, base, node.attr)
        if name not in dict(base.fields) and _property(scope, base.cls, name) is None:
            if constant is None:
                raise Untranslatable(node, f"`{ast.unparse(node)}` is computed when it is read")
            scope.flag_number(node, f"`{ast.unparse(node)}` is computed when it is read")
            return constant
        _need_property(scope, base.cls, name)
        return ast.Attribute(owner, name, node.ctx)
    return field_of(scope, ast.Attribute(owner, node.attr, node.ctx), bases, values[0])


def _is_given_by_property(scope: Scope, node: ast.expr) -> bool:
    """``self.config`` of a library that keeps the object elsewhere, where the port's constructor does not set it."""
    if not isinstance(node, ast.Attribute):
        return False
    owners = {v.cls for v in scope.values(node.value) if isinstance(v, ModuleValue)}
    for owner in owners:
        function = scope.work.all_functions.get(_property(scope, owner, node.attr) or "")
        match function.body if function is not None else ():
            case [*_, ast.Return(value=ast.Attribute(attr=kept))]:
                if not _is_set_by_constructor(scope, owner, kept):
                    return True
    return False


def _is_set_by_constructor(scope: Scope, owner: str, name: str) -> bool:
    cells = [scope.work.program.cells[base] for base in _mro(scope, owner) if base in scope.work.program.cells]
    inits = [m for cell in cells for m in cell.methods if m.name == "__init__"]
    nodes = (n for m in inits for s in m.body for n in ast.walk(s))
    return any(isinstance(n, ast.Attribute) and n.attr == name and isinstance(n.ctx, ast.Store) for n in nodes)


def _output_attribute(scope: Scope, node: ast.Attribute, base: ObjectValue, values: tuple[Value, ...]) -> ast.expr:
    fields = output_fields(base)
    if node.attr in fields:
        return ast.Subscript(scope_lower(scope, node.value), literal(fields.index(node.attr)), node.ctx)
    constant = constant_of(values)
    if constant is None:
        raise Untranslatable(node, f"the field {node.attr} of {base.cls} is no tensor")
    return constant


def output_fields(value: ObjectValue) -> list[str]:
    """The fields of an output object that the port returns, in order: those that hold tensors."""
    return [name for name, item in value.fields if holds_tensor(item)]
