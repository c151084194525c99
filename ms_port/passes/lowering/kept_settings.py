"""Settings of a torch layer that a derived class reads (``self.ceil_mode``) and that MindSpore's cell lacks."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import nn

from ms_port.ir.program import FunctionDef, ModuleInstance
from ms_port.ir.tree import copy, literal, nid
from ms_port.ir.values import FunctionValue, Literal, ModuleValue, Value
from ms_port.opmap import Argument
from ms_port.passes.lowering.arguments import torch_arguments
from ms_port.passes.lowering.base_layers import layer_base, starts_layer
from ms_port.passes.lowering.layer_settings import CONVOLUTIONS, SETTINGS
from ms_port.passes.lowering.scope import Scope, Untranslatable, Work, same


@dataclass(frozen=True, slots=True)
class Setting:
    """One attribute of the layer below, with what each instance (by path) holds right after that was built."""

    name: str
    values: Mapping[str, Value]


def settings_read(work: Work, owner: str) -> list[Setting]:
    """The settings that the source reads of a class's instances, where the port's cell does not hold them as torch."""
    row = work.opmap.row(layer_base(work.program, owner) or "")
    instances = [m for m in work.program.modules.values() if owner in line(work, m.cls)]
    if row is None or not instances:
        return []
    kept = set(row.attributes or {}) | {rule.torch for rule in row.weights} | {"training"}
    kept |= SETTINGS if row.api in CONVOLUTIONS else set()
    names = [name for name, _ in instances[0].attributes if not name.startswith("_") and name not in kept]
    own = _set_by_source(work, instances)
    names = [name for name in names if name not in own or name in _of_layer(row.api)]
    found = []
    for name in names:
        reads = list(_reads(work, instances, name))
        values = _as_built(instances, reads, name, name in own)
        if reads and values:
            found.append(Setting(name, values))
    return found


def _of_layer(api: str) -> set[str]:
    """What torch's layer holds by its own account."""
    layer = getattr(nn, api.rpartition(".")[2], None)
    classes = layer.__mro__ if isinstance(layer, type) else ()
    held = {name for cls in classes for name in getattr(cls, "__annotations__", {})}
    return held.union(*(getattr(cls, "__constants__", ()) for cls in classes))


def line(work: Work, cls: str) -> list[str]:
    """A class and those that it derives from, of the person's own."""
    cell = work.program.cells.get(cls)
    return [cls, *(name for base in cell.bases for name in line(work, base))] if cell is not None else []


def layer_settings(scope: Scope, statement: ast.Expr, made: ast.expr) -> list[ast.stmt]:
    """``self.padding = (padding, padding)`` after ``super().__init__(...)``. Raises Untranslatable."""
    call, owner = statement.value, scope.function.owner or ""
    if not starts_layer(scope, call) or not isinstance(made, ast.Call) or not isinstance(call, ast.Call):
        return []
    settings = settings_read(scope.work, owner)
    if not settings:
        return []
    base = layer_base(scope.work.program, owner) or ""
    paths = [f.callee.owner.path for f in scope.calls(call) if isinstance(f.callee, FunctionValue) and f.callee.owner]
    row = scope.work.opmap.row(base)
    args, keywords = torch_arguments(scope, call, scope.calls(call), base)
    names = [p.name for p in row.overloads[0].signature] if row is not None else []
    given = dict(zip(names, args, strict=False)) | dict(keywords)
    return [_assignment(statement, setting, given.get(setting.name), paths) for setting in settings]


def _assignment(statement: ast.stmt, setting: Setting, given: Argument | None, paths: Sequence[str | None]) -> ast.stmt:
    """By the argument that the layer got, or by the value that all instances hold. Raises Untranslatable."""
    target = ast.Attribute(ast.Name("self", ast.Load()), setting.name, ast.Store())
    held = [setting.values[p] for p in paths if p is not None and p in setting.values]
    values = given.values or () if given is not None else ()
    if given is not None and not isinstance(given.expression, ast.Constant) and len(held) == len(paths) == len(values):
        for count in range(5):
            if all(_repeated(v, count) == h for v, h in zip(values, held, strict=True)):
                parts: list[ast.expr] = [copy(given.expression) for _ in range(count)]
                return ast.Assign([target], ast.Tuple(parts, ast.Load()) if count else copy(given.expression))
    if not same(list(setting.values.values())) or not isinstance(value := next(iter(setting.values.values())), Literal):
        raise Untranslatable(statement, f"`self.{setting.name}` of the layer below can't be told from its arguments")
    return ast.Assign([target], literal(value.value))


def _repeated(value: Value, count: int) -> Value:
    """torch keeps ``(3, 3)`` for 3; ``count`` 0 is the value itself."""
    return Literal((value.value,) * count) if count and isinstance(value, Literal) else value


def _as_built(
    instances: Sequence[ModuleInstance],
    reads: Sequence[tuple[FunctionDef, ast.AST, ast.Attribute]],
    name: str,
    changed: bool,
) -> dict[str, Value]:
    """What each instance held when the layer was built: by the first read, where the source changes it afterwards."""
    if not changed:
        return {m.path: value for m in instances for key, value in m.attributes if key == name}
    for function, _, node in reads:
        owners, values = function.facts.values.get(nid(node.value), ()), function.facts.values.get(nid(node), ())
        if function.during_init and len(owners) == len(values):
            pairs = zip(owners, values, strict=True)
            return {o.path: v for o, v in pairs if isinstance(o, ModuleValue) and o.path is not None}
    return {}


def _reads(
    work: Work, instances: Sequence[ModuleInstance], name: str
) -> Iterator[tuple[FunctionDef, ast.AST, ast.Attribute]]:
    """Where the source reads the attribute of one of the instances, with the node around it."""
    classes = {m.cls for m in instances}
    for function in work.all_functions.values():
        for parent in (n for statement in function.body for n in ast.walk(statement)):
            for node in ast.iter_child_nodes(parent):
                if isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Load):
                    owners = function.facts.values.get(nid(node.value), ())
                    if any(isinstance(v, ModuleValue) and v.cls in classes for v in owners):
                        yield function, parent, node


def _set_by_source(work: Work, instances: Sequence[ModuleInstance]) -> set[str]:
    """Attributes that the instances' own classes set."""
    classes = {base for m in instances for base in line(work, m.cls)}
    return {
        node.attr
        for cls in classes
        for method in (work.program.cells[cls].methods if cls in work.program.cells else ())
        for statement in method.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
