"""Parameters, defaults and type hints."""

from __future__ import annotations

import ast

from ms_port.ir.tree import copy, expression, keep_place, literal
from ms_port.ir.values import ClassValue, FunctionValue, Value
from ms_port.passes.lowering.scope import Scope, Untranslatable

TYPING = frozenset(
    "Any Callable Dict Iterable Iterator List Mapping NamedTuple Optional Sequence Set Tuple Type Union".split()
)
_BUILTIN_TYPES = frozenset("bool bytes complex dict float int list object set str tuple type".split())
_RENAMED = {
    "torch.Tensor": "Tensor",
    "torch.FloatTensor": "Tensor",
    "torch.LongTensor": "Tensor",
    "torch.BoolTensor": "Tensor",
    "torch.nn.Module": "nn.Cell",
    "torch.nn.Parameter": "Parameter",
    "torch.nn.Sequential": "nn.SequentialCell",
    "torch.nn.ModuleList": "nn.CellList",
    "torch.dtype": "ms.Type",
    "torch.Size": "Tuple[int, ...]",
    "builtins.NoneType": "None",
}


def lower_arguments(scope: Scope) -> ast.arguments:
    """The parameters with their defaults and hints; ``**kwargs`` became the keywords that were seen."""
    old = scope.function.node.args
    new = ast.arguments(
        posonlyargs=[],
        args=[_argument(scope, a) for a in [*old.posonlyargs, *old.args]] + [ast.arg(name) for name in scope.spread],
        vararg=_argument(scope, old.vararg) if old.vararg and not scope.spread else None,
        kwonlyargs=[_argument(scope, a) for a in old.kwonlyargs] + [ast.arg(name) for name in scope.expanded],
        kw_defaults=[None if d is None else _default(scope, d) for d in old.kw_defaults]
        + list(scope.expanded.values()),
        kwarg=None,
        defaults=[_default(scope, d) for d in old.defaults] + [d for d in scope.spread.values() if d is not None],
    )
    return new


def _argument(scope: Scope, arg: ast.arg) -> ast.arg:
    annotation = lower_annotation(scope, arg.annotation) if arg.annotation is not None else None
    made = ast.arg(arg.arg, annotation)
    keep_place(arg, made)
    if arg.annotation is not None and annotation is not None:
        keep_place(arg.annotation, annotation)
    return made


def _default(scope: Scope, node: ast.expr) -> ast.expr:
    """A default by its source; what the output lacks becomes None (the parameter is pruned if nothing reads it)."""
    from ms_port.passes.lowering.expressions import lower

    host, scope.host = scope.host, True
    try:
        return lower(scope, node)
    except Untranslatable:
        return literal(None)
    finally:
        scope.host = host


def lower_annotation(scope: Scope, node: ast.expr | None) -> ast.expr | None:
    """A type hint in the output's types; None where it names something that the output lacks."""
    try:
        return None if node is None else _hint(scope, node)
    except Untranslatable:
        return None


def _hint(scope: Scope, node: ast.expr) -> ast.expr:
    match node:
        case ast.Constant(value=str(text)):
            raise Untranslatable(node, f"the hint {text!r} is text")
        case ast.Constant():
            return copy(node)
        case ast.Subscript(value=ast.Name(id="Union") | ast.Attribute(attr="Union"), slice=ast.Tuple(elts=items)):
            return _union(scope, node, items)
        case ast.Subscript(value=ast.Name(id="Type" | "type") | ast.Attribute(attr="Type"), slice=inner) if (
            ast.unparse(_hint(scope, inner)) == "nn.Cell"
        ):
            return expression("Callable[..., nn.Cell]")  # what makes a cell: a class, or a partial with its defaults
        case ast.Subscript(value=base, slice=inner):
            return ast.Subscript(_hint(scope, base), _hint(scope, inner), ast.Load())
        case ast.Tuple(elts=items):
            return ast.Tuple([_hint(scope, i) for i in items], ast.Load())
        case ast.List(elts=items):
            return ast.List([_hint(scope, i) for i in items], ast.Load())
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return ast.BinOp(_hint(scope, left), ast.BitOr(), _hint(scope, right))
        case ast.Name() | ast.Attribute():
            return _named_hint(scope, node)
    raise Untranslatable(node, "a hint of another kind")


def _union(scope: Scope, node: ast.expr, items: list[ast.expr]) -> ast.expr:
    """``Union`` of the members that the port knows."""
    known = [hint for item in items if (hint := lower_annotation(scope, item)) is not None]
    if not known:
        return _unknown(node)
    if len(known) == 1:
        return known[0]
    return ast.Subscript(ast.Name("Union", ast.Load()), ast.Tuple(known, ast.Load()), ast.Load())


def _named_hint(scope: Scope, node: ast.expr) -> ast.expr:
    last = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    if last in TYPING:
        return ast.Name(last, ast.Load())
    values: tuple[Value, ...] = scope.values(node)
    value = values[0] if values else None
    if isinstance(value, FunctionValue) and value.name.startswith("typing"):
        return ast.Name(last, ast.Load()) if last in TYPING else _unknown(node)
    if isinstance(value, ClassValue):
        if value.name in _RENAMED:
            return expression(_RENAMED[value.name])
        if value.name in scope.work.cells:
            return ast.Name(scope.work.program.cells[value.name].name, ast.Load())
        if value.name.removeprefix("builtins.") in _BUILTIN_TYPES:
            return ast.Name(value.name.removeprefix("builtins."), ast.Load())
        row = scope.work.opmap.row(value.name) if value.is_module else None
        if row is not None and row.cell is not None and row.cell.startswith("nn."):
            return expression(row.cell)
        if value.name in scope.work.config_fields:
            return ast.Name(value.name.rpartition(".")[2], ast.Load())
    return _unknown(node)


def _unknown(node: ast.expr) -> ast.expr:
    raise Untranslatable(node, "a type that the port lacks")
