"""Expressions: the source's own text, with what the output lacks replaced.

Text stays unless it is illegal in a graph or reads something that the output does not have. Nothing is folded merely
because its value happened to be constant.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from contextlib import suppress

from ms_port.ir.program import FunctionDef
from ms_port.ir.tree import copy, keep_place, literal, names_read, nid
from ms_port.ir.values import DType, Literal, ModuleValue, ObjectValue, TensorValue, Value, holds_tensor, is_whole
from ms_port.passes.decided import choices
from ms_port.passes.lowering.attributes import lower_attribute, output_fields
from ms_port.passes.lowering.base_layers import starts_layer
from ms_port.passes.lowering.children import of_registry
from ms_port.passes.lowering.keyword_display import writes_entries
from ms_port.passes.lowering.names import is_foreign, lower_name, of_value
from ms_port.passes.lowering.scope import Scope, Untranslatable, same, truth
from ms_port.passes.lowering.stepped import stepped_axes, without_steps
from ms_port.passes.lowering.tables import is_asked, membership, registry


def lower(scope: Scope, node: ast.expr) -> ast.expr:
    """The expression as it stands in the output, with its comments and its line. Raises Untranslatable."""
    made = _lowered(scope, node)
    if made is not node:
        keep_place(node, made)
    return made


def _lowered(scope: Scope, node: ast.expr) -> ast.expr:
    if getattr(node, "ported", False):
        return lower_children(scope, node)
    handler = _HANDLERS.get(type(node))
    try:
        if handler is not None:
            return handler(scope, node)
        return lower_children(scope, node)
    except Untranslatable as error:
        if isinstance(node, _FOLDABLE) and not starts_layer(scope, node):
            constant = scope.constant(node)
            if constant is not None:
                scope.flag_number(node, error.reason)
                return constant
        raise


_FOLDABLE = (
    ast.Compare,
    ast.BoolOp,
    ast.UnaryOp,
    ast.BinOp,
    ast.IfExp,
    ast.Subscript,
    ast.Call,
    ast.Tuple,
    ast.JoinedStr,
)


def lower_children(scope: Scope, node: ast.expr) -> ast.expr:
    """The same kind of node with its parts lowered."""
    new = node.__class__.__new__(node.__class__)
    for key, value in node.__dict__.items():
        if isinstance(value, ast.expr):
            new.__dict__[key] = lower(scope, value)
        elif isinstance(value, list):
            new.__dict__[key] = [_part(scope, item) for item in value]
        else:
            new.__dict__[key] = value
    return new


def _part(scope: Scope, item: object) -> object:
    if isinstance(item, ast.expr):
        return lower(scope, item)
    if isinstance(item, ast.comprehension):
        return ast.comprehension(
            lower(scope, item.target), lower(scope, item.iter), [lower(scope, i) for i in item.ifs], item.is_async
        )
    if isinstance(item, ast.keyword):
        return ast.keyword(item.arg, lower(scope, item.value))
    return item


def _call(scope: Scope, node: ast.expr) -> ast.expr:
    from ms_port.passes.lowering.calls import lower_call

    assert isinstance(node, ast.Call)
    return lower_call(scope, node)


def _name(scope: Scope, node: ast.expr) -> ast.expr:
    assert isinstance(node, ast.Name)
    return lower_name(scope, node)


def _attribute(scope: Scope, node: ast.expr) -> ast.expr:
    assert isinstance(node, ast.Attribute)
    return of_registry(scope, node) or lower_attribute(scope, node)


def _subscript(scope: Scope, node: ast.expr) -> ast.expr:
    """Indexing; a look-up in a registry that the output lacks becomes what it found."""
    assert isinstance(node, ast.Subscript)
    bases = scope.values(node.value)
    if isinstance(node.value, ast.Attribute) and node.value.attr == "_modules" and isinstance(node.ctx, ast.Load):
        # torch's registry of children: in the port they are attributes
        child = [lower(scope, node.value.value), lower(scope, node.slice)]
        return ast.Call(ast.Name("getattr", ast.Load()), child, [])
    match node:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key)), ctx=ast.Load()) if (
            name == scope.varkw and key.isidentifier() and not writes_entries(scope.function.body, name)
        ):
            scope.expanded.setdefault(key, literal(None))  # `kwargs["bias"]`: the entry is a parameter of its own
            return ast.Name(key, ast.Load())
    if bases and isinstance(bases[0], ObjectValue) and bases[0].kind == "output":
        return _output_index(scope, node, bases[0])
    if isinstance(node.slice, ast.Slice) and not scope.host and bases and all(map(_is_cell_list, bases)):
        # a part of a CellList is a new CellList, which names the parameters anew
        cells = ast.Call(ast.Name("list", ast.Load()), [lower(scope, node.value)], [])
        return ast.Subscript(cells, lower(scope, node.slice), node.ctx)
    try:
        lowered = lower_children(scope, node)
        if isinstance(lowered, ast.Subscript) and (axes := stepped_axes(scope, node)):
            return without_steps(scope, lowered, axes)
        return _entry(node, lowered) if scope.host and isinstance(node.ctx, ast.Load) else lowered
    except Untranslatable as error:
        values = scope.values(node)
        table: ast.expr | None = None
        known = scope.host and isinstance(node.ctx, ast.Load) and bool(values)
        if known and isinstance(node.value, ast.Name) and (is_asked(scope, node.slice) or not same(values)):
            with suppress(Untranslatable):
                table = registry(scope, node.value, values)
        if table is not None:
            return ast.Subscript(table, lower(scope, node.slice), ast.Load())
        if isinstance(node.ctx, ast.Load) and same(values) and not isinstance(values[0], TensorValue | ModuleValue):
            scope.flag_number(node, error.reason)
            return of_value(scope, node, values[0])
        raise


def _entry(node: ast.Subscript, lowered: ast.expr) -> ast.expr:
    """An entry of a list that became a literal (a name that the port has not) as what it is."""
    written = isinstance(node.value, ast.List | ast.Dict | ast.Tuple) or isinstance(node.slice, ast.Slice)
    if (
        not written
        and isinstance(lowered, ast.Subscript)
        and isinstance(lowered.value, ast.List | ast.Dict | ast.Tuple)
    ):
        with suppress(ValueError, KeyError, IndexError, TypeError):
            return literal(ast.literal_eval(lowered.value)[ast.literal_eval(lowered.slice)])
    return lowered


def _is_cell_list(value: Value) -> bool:
    return isinstance(value, ModuleValue) and value.cls in ("torch.nn.Sequential", "torch.nn.ModuleList")


def _output_index(scope: Scope, node: ast.Subscript, base: ObjectValue) -> ast.expr:
    kept = output_fields(base)
    present = [name for name, item in base.fields if getattr(item, "value", item) is not None]
    match node.slice:
        case ast.Constant(value=int(index)) if -len(present) <= index < len(present) and present[index] in kept:
            return ast.Subscript(lower(scope, node.value), literal(kept.index(present[index])), node.ctx)
        case ast.Constant(value=str(name)) if name in kept:
            return ast.Subscript(lower(scope, node.value), literal(kept.index(name)), node.ctx)
        case ast.Slice() if present == kept:
            return lower_children(scope, node)
    raise Untranslatable(node, "an output object is indexed by what is no tensor field")


def _if_expression(scope: Scope, node: ast.expr) -> ast.expr:
    """``a if c else b``: in a constructor both arms stay where they resolve; else the one that ran."""
    assert isinstance(node, ast.IfExp)
    verdict = truth(scope.values(node.test))
    if verdict is None:
        return lower_children(scope, node)
    try:
        return lower_children(scope, node)
    except Untranslatable:
        scope.drop(node.test, f"always {verdict}")
        if scope.host:
            scope.work.decided.update(choices(scope.function, node.test))
        return lower(scope, node.body if verdict else node.orelse)


def _bool_op(scope: Scope, node: ast.expr) -> ast.expr:
    assert isinstance(node, ast.BoolOp)
    try:
        lowered = lower_children(scope, node)
        assert isinstance(lowered, ast.BoolOp)
        return _without_constants(lowered)
    except Untranslatable:
        neutral = isinstance(node.op, ast.And)
        last = node.values[-1]
        ran = [v for v in node.values if isinstance(v, ast.Constant) or scope.ran(v)]
        kept = [v for v in ran if v is last or truth(scope.values(v)) is not neutral]
        if not kept or len(kept) == len(node.values):
            raise
        parts = [lower(scope, v) for v in kept]
        return parts[0] if len(parts) == 1 else ast.BoolOp(node.op, parts)


def _without_constants(node: ast.BoolOp) -> ast.expr:
    """``None or x`` is ``x``: an operand that became a constant decides nothing unless it ends the expression."""
    neutral = isinstance(node.op, ast.And)
    kept: list[ast.expr] = []
    for value in node.values:
        constant = isinstance(value, ast.Constant)
        if constant and bool(value.value) is not neutral:  # type: ignore[attr-defined]
            kept.append(value)
            break
        if not constant or value is node.values[-1]:
            kept.append(value)
    return ast.BoolOp(node.op, kept) if len(kept) > 1 else kept[0]


def _lambda(scope: Scope, node: ast.expr) -> ast.expr:
    """A lambda; in the graph its body is lowered by what was seen in its own calls."""
    assert isinstance(node, ast.Lambda)
    if scope.host:
        return ast.Lambda(copy(node.args), lower(scope, node.body))
    if (name := _bound_again(scope, node)) is not None:
        raise Untranslatable(node, f"a lambda that reads `{name}`, which is bound again before the lambda is called")
    body = lambda_body(scope, node)
    args = copy(node.args)
    args.defaults = [lower(scope, d) for d in node.args.defaults]
    return ast.Lambda(args, body)


def lambda_body(scope: Scope, node: ast.Lambda) -> ast.expr:
    """What a lambda of the graph returns, lowered with the names around it. Raises Untranslatable."""
    inner = lambda_function(scope, node)
    within = Scope(scope.work, inner)
    within.locals |= scope.locals
    within.baked, within.poisoned, within.inner = dict(scope.baked), dict(scope.poisoned), set(scope.inner)
    within.displays, within.around = dict(scope.displays), scope
    scope.work.claimed |= {e.index for e in scope.work.program.ledger if e.function == inner.key}
    (returned,) = inner.body
    assert isinstance(returned, ast.Return) and returned.value is not None
    return lower(within, returned.value)


def _bound_again(scope: Scope, node: ast.Lambda) -> str | None:
    """A name that changes between a lambda and its last call: torch's sees the new value, GRAPH_MODE's the old."""
    nodes = [n for s in scope.function.body for n in ast.walk(s)]
    assigned = next((n for n in nodes if isinstance(n, ast.Assign) and nid(n.value) == nid(node)), None)
    if assigned is None:
        return None
    names = {t.id for t in assigned.targets if isinstance(t, ast.Name)}
    calls = [n.lineno for n in nodes if isinstance(n, ast.Name) and n.id in names and isinstance(n.ctx, ast.Load)]
    free = names_read([ast.Expr(node.body)]) - {a.arg for a in node.args.args}
    last = max(calls, default=0)
    stores = (n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id in free)
    return next((n.id for n in stores if node.lineno < n.lineno < last), None)


def lambda_function(scope: Scope, node: ast.Lambda) -> FunctionDef:
    """The lambda as a function of the program. Raises Untranslatable where it never ran."""
    for function in scope.work.all_functions.values():
        if function.name == "<lambda>" and function.loc == scope.loc(node) and nid(function.body[0]) == nid(node):
            return function
    raise Untranslatable(node, "a lambda that never ran")


def _formatted(scope: Scope, node: ast.expr) -> ast.expr:
    """f-strings: kept, their expressions lowered."""
    assert isinstance(node, ast.JoinedStr)
    parts: list[ast.expr] = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            if any(holds_tensor(v) for v in scope.values(part.value)):
                raise Untranslatable(node, "a tensor's value in a string")
            parts.append(ast.FormattedValue(lower(scope, part.value), part.conversion, part.format_spec))
        else:
            parts.append(part)
    return ast.JoinedStr(parts)


def _compare(scope: Scope, node: ast.expr) -> ast.expr:
    """Comparisons stay; a device or an enum in one is decided by its value."""
    assert isinstance(node, ast.Compare)
    if (asked := _exact_class(scope, node)) is not None:
        return asked
    if len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq):
        for side in (node.left, node.comparators[0]):
            if any(isinstance(v, ObjectValue) and v.kind in ("device", "enum") for v in scope.values(side)):
                constant = scope.constant(node)
                if constant is not None:
                    return constant
    try:
        return lower_children(scope, node)
    except Untranslatable:
        if (asked_table := membership(scope, node)) is None:
            raise
        return ast.Compare(lower(scope, node.left), node.ops, [registry(scope, asked_table[0], (), asked_table[1])])


def _exact_class(scope: Scope, node: ast.Compare) -> ast.expr | None:
    """``type(m) is nn.Linear`` of a module as ``isinstance``, where that says the same of all modules seen there."""
    match node:
        case ast.Compare(
            left=ast.Call(func=ast.Name(id="type"), args=[subject]), ops=[operator], comparators=[cls]
        ) if isinstance(operator, ast.Is | ast.Eq | ast.IsNot | ast.NotEq) and not scope.host:
            pass
        case _:
            return None
    seen, wanted = scope.values(subject), scope.values(cls)
    if not seen or not all(isinstance(v, ModuleValue) for v in seen) or not same(wanted):
        return None
    name = getattr(wanted[0], "name", "")
    others = {v.cls for v in seen if isinstance(v, ModuleValue) and v.cls != name}
    from ms_port.passes.lowering.builtin_calls import is_derived, lower_isinstance

    if any(is_derived(scope.work.program, other, name) for other in others):
        return None
    asked = ast.copy_location(ast.Call(ast.Name("isinstance", ast.Load()), [subject, cls], []), node)
    made = lower_isinstance(scope, asked)
    return ast.UnaryOp(ast.Not(), made) if isinstance(operator, ast.IsNot | ast.NotEq) else made


def _walrus(scope: Scope, node: ast.expr) -> ast.expr:
    raise Untranslatable(node, "`:=` does not compile in GRAPH_MODE")


def _generator(scope: Scope, node: ast.expr) -> ast.expr:
    """A generator expression becomes a list: GRAPH_MODE knows list comprehensions only."""
    assert isinstance(node, ast.GeneratorExp)
    if scope.host:
        return lower_children(scope, node)
    return _listed(scope, ast.copy_location(ast.ListComp(node.elt, node.generators), node))


def _listed(scope: Scope, node: ast.expr) -> ast.expr:
    """A list comprehension; GRAPH_MODE knows those over one iterable: ``sum([[... for b in y] for a in x], [])``."""
    assert isinstance(node, ast.ListComp)
    if scope.host or len(node.generators) == 1:
        return lower_children(scope, node)
    first, *others = node.generators
    inner = _listed(scope, ast.copy_location(ast.ListComp(node.elt, others), node))
    outer = lower_children(scope, ast.copy_location(ast.ListComp(literal(0), [first]), node))
    assert isinstance(outer, ast.ListComp)
    return ast.Call(ast.Name("sum", ast.Load()), [ast.ListComp(inner, outer.generators), ast.List([], ast.Load())], [])


_SHIFTS: dict[type[ast.operator], str] = {ast.LShift: "bitwise_left_shift", ast.RShift: "bitwise_right_shift"}


def _binary(scope: Scope, node: ast.expr) -> ast.expr:
    """Operators stay, save shifts, which MindSpore's Tensor has not, and the sum of truth values, which is an or."""
    assert isinstance(node, ast.BinOp)
    lowered = lower_children(scope, node)
    if isinstance(node.op, ast.Add) and isinstance(lowered, ast.BinOp) and _are_truths(scope, node) and not scope.host:
        lowered.op = ast.BitOr()
        return lowered
    if not scope.host and isinstance(lowered, ast.BinOp) and (flags := _of_flags(scope, node, lowered)) is not None:
        return flags
    if not scope.host and isinstance(lowered, ast.BinOp) and _is_power_below_one(scope, node):
        number = lowered.left
        fixed = isinstance(number, ast.Constant) and isinstance(number.value, int)
        made = literal(float(number.value)) if fixed else ast.Call(ast.Name("float", ast.Load()), [number], [])  # type: ignore[attr-defined]
        lowered.left = made
        return lowered
    name = _SHIFTS.get(type(node.op))
    tensors = any(isinstance(v, TensorValue) for side in (node.left, node.right) for v in scope.values(side))
    if name is None or scope.host or not tensors or not isinstance(lowered, ast.BinOp):
        return lowered
    function = ast.Attribute(ast.Name("ops", ast.Load()), name, ast.Load())
    return ast.Call(function, [lowered.left, lowered.right], [])


def _is_power_below_one(scope: Scope, node: ast.BinOp) -> bool:
    """``dim ** -1`` of whole numbers, which is a fraction in Python and 0 in a graph."""
    values = scope.values(node)
    return (
        isinstance(node.op, ast.Pow)
        and bool(values)
        and any(isinstance(v, Literal) and type(v.value) is float for v in values)
        and _is_whole(scope, node.left)
        and _is_whole(scope, node.right)
    )


def _is_whole(scope: Scope, node: ast.expr) -> bool:
    try:
        return type(ast.literal_eval(node)) is int
    except ValueError:
        values = scope.values(node)
        return bool(values) and all(map(is_whole, values))


def _are_truths(scope: Scope, node: ast.BinOp) -> bool:
    """Whether both sides always were tensors of truth values."""
    values = [*scope.values(node.left), *scope.values(node.right)]
    return bool(values) and all(isinstance(v, TensorValue) and v.dtype == "bool" for v in values)


def _of_flags(scope: Scope, node: ast.BinOp, lowered: ast.BinOp) -> ast.expr | None:
    """``exists(a) ^ exists(b)`` of Python's True and False, for which a graph has no bitwise operators."""
    sides = [scope.values(node.left), scope.values(node.right)]
    if not all(values and all(isinstance(v, Literal) and type(v.value) is bool for v in values) for values in sides):
        return None
    match node.op:
        case ast.BitXor():
            return ast.Compare(lowered.left, [ast.NotEq()], [lowered.right])
        case ast.BitAnd() | ast.BitOr():
            both = ast.And() if isinstance(node.op, ast.BitAnd) else ast.Or()
            return ast.BoolOp(both, [lowered.left, lowered.right])
    return None


def _set(scope: Scope, node: ast.expr) -> ast.expr:
    """A set of constants, in the graph a tuple: it is only asked for members."""
    assert isinstance(node, ast.Set)
    if scope.host or not all(isinstance(e, ast.Constant) for e in node.elts):
        return lower_children(scope, node)
    return ast.Tuple(list(node.elts), ast.Load())


def _tuple(scope: Scope, node: ast.expr) -> ast.expr:
    """A tuple; in the graph with None for objects of Python (caches, devices), which nothing in the port reads."""
    assert isinstance(node, ast.Tuple)
    if scope.host or not isinstance(node.ctx, ast.Load):
        return lower_children(scope, node)
    parts = [ast.Constant(None) if _is_object(scope, part) else part for part in node.elts]
    return lower_children(scope, ast.copy_location(ast.Tuple(parts, ast.Load()), node))


def _is_object(scope: Scope, node: ast.expr) -> bool:
    seen = [v for v in scope.values(node) if isinstance(v, ObjectValue)]
    if not seen or len(seen) != len(scope.values(node)):
        return False
    if isinstance(node, ast.Name) and node.id in scope.locals:
        return all(is_foreign(scope, v) for v in seen)
    return all(v.kind == "device" for v in seen)


def dtype_of(scope: Scope, node: ast.expr) -> DType | None:
    """The element type that an expression evaluated to."""
    values = scope.values(node)
    return values[0] if values and isinstance(values[0], DType) else None


_HANDLERS: dict[type[ast.expr], Callable[[Scope, ast.expr], ast.expr]] = {
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Call: _call,
    ast.IfExp: _if_expression,
    ast.BoolOp: _bool_op,
    ast.Lambda: _lambda,
    ast.JoinedStr: _formatted,
    ast.Compare: _compare,
    ast.NamedExpr: _walrus,
    ast.GeneratorExp: _generator,
    ast.ListComp: _listed,
    ast.Set: _set,
    ast.BinOp: _binary,
    ast.Tuple: _tuple,
}
