"""Assignments: to names, attributes, items and buffers."""

from __future__ import annotations

import ast
from typing import cast

from ms_port.ir.tree import is_self_attribute, literal, names_stored
from ms_port.ir.values import FunctionValue, Literal, ModuleValue, ObjectValue, TensorValue, is_whole
from ms_port.passes.lowering.attributes import output_fields
from ms_port.passes.lowering.base_layers import layer_base
from ms_port.passes.lowering.chosen_functions import is_table
from ms_port.passes.lowering.expressions import lower
from ms_port.passes.lowering.grad_modes import detached
from ms_port.passes.lowering.host_writes import data_assignment, is_made_here
from ms_port.passes.lowering.keyword_display import keyword_display
from ms_port.passes.lowering.parameter_starts import filled_tensor
from ms_port.passes.lowering.scope import Scope, Untranslatable, dtype_expression, mark_functions


def assign(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    """An assignment. Raises Untranslatable where the value can't stand in the port or the target would be state."""
    assert isinstance(statement, ast.Assign)
    if scope.host and _chooses_forward(scope, statement):
        scope.drop(statement, "the port has the chosen method as its construct")
        return []
    if scope.host and ast.unparse(statement.targets[0]) == "self.forward" and not scope.ran(statement.value):
        message = f"{ast.unparse(statement.value)} is not part of the port"
        return [ast.parse(f"raise NotImplementedError({message!r})").body[0]]
    if not scope.host and any(is_self_attribute(t) for t in statement.targets):
        return _set_attribute_in_graph(scope, statement)
    if not scope.host:
        statement = _without_written_parts(scope, statement)
    if scope.host and _holds_unread_object(scope, statement):
        scope.drop(statement, "an object that nothing reads")
        return []
    match statement.targets:
        case [ast.Subscript(value=ast.Attribute(value=holder, attr="_modules"), slice=key)] if scope.host:
            given = [lower(scope, holder), lower(scope, key), lower(scope, statement.value)]
            return [as_assignment(ast.Call(ast.Name("setattr", ast.Load()), given, []))]
    if scope.host and (written := data_assignment(scope, statement)) is not None:
        return written
    values = scope.values(statement.value)
    if any(isinstance(v, ObjectValue) and v.kind == "config" for v in values) and not scope.host:
        raise Untranslatable(statement, "a configuration object in the graph")
    target = statement.targets[0]
    if isinstance(target, ast.Attribute):
        named = (target.value, ast.Constant(target.attr), statement.value)
        if (buffer := _buffer(scope, *named, {target.attr})) is not None:
            return [buffer]
    if is_table(scope, statement):
        scope.drop(statement, "a table of functions: each call says which one")
        return []
    if not scope.host and (rebuilt := _output_field(scope, statement)) is not None:
        return [rebuilt]
    if (entries := keyword_display(scope, statement)) is not None:
        return entries
    value = detached(scope, statement.value, _stored_value(scope, statement), statement.targets)
    if (entered := _child_of_sequential(scope, statement, value)) is not None:
        return [entered]
    for target in statement.targets:
        for name in names_stored(target):
            scope.poisoned.pop(name, None)
    targets = [lower(scope, t) for t in statement.targets]
    value = _as_item(scope, statement, value)
    if not scope.host and len(targets) == 1 and ast.unparse(targets[0]) == ast.unparse(value):
        scope.drop(statement, "binds the names to what they hold")  # `k, v = cache.update(k, v)`, `x = x.to(device)`
        return []
    target = statement.targets[0]
    is_none = isinstance(value, ast.Constant) and value.value is None
    if scope.host and is_none and isinstance(target, ast.Attribute):
        taken = bias_taken_away(scope, target.value, target.attr)
        if taken is not None:
            return [taken]
    return [ast.Assign(targets, value)]


_WITH_BIAS = frozenset({"nn.Dense", "nn.Conv1d", "nn.Conv2d", "nn.Conv3d"})


def bias_taken_away(scope: Scope, holder: ast.expr, name: str) -> ast.stmt | None:
    """``self.conv.bias = None`` -> ``take_bias_away(self.conv)``; None where it is no such layer."""
    classes = {v.cls if isinstance(v, ModuleValue) else "" for v in scope.values(holder)}
    rows = [scope.work.opmap.row(cls) for cls in classes]
    if name != "bias" or not rows or not all(row is not None and row.cell in _WITH_BIAS for row in rows):
        return None
    scope.work.op_functions.add("take_bias_away")
    func = mark_functions(ast.Name("take_bias_away", ast.Load()), frozenset(["take_bias_away"]))
    return ast.Expr(ast.Call(func, [lower(scope, holder)], []))


def _as_item(scope: Scope, statement: ast.Assign, value: ast.expr) -> ast.expr:
    """``self.pe[:, 0::2] = np.sin(...)`` in a constructor: a Tensor takes no array."""
    target = statement.targets[0]
    if not scope.host and isinstance(target, ast.Subscript):
        return _without_leading_ones(scope, target, statement.value, value)
    if not scope.host or not isinstance(target, ast.Subscript) or not is_self_attribute(target.value):
        return value
    held, given = scope.values(target.value), scope.values(statement.value)
    if not held or not given or not all(isinstance(v, TensorValue) for v in (*held, *given)):
        return value
    assert isinstance(held[0], TensorValue)
    return ast.Call(ast.Name("Tensor", ast.Load()), [value, dtype_expression(held[0].dtype)], [])


def _without_leading_ones(scope: Scope, target: ast.Subscript, source: ast.expr, value: ast.expr) -> ast.expr:
    """``out[:, t] = h`` with an h of (1, N, C): torch takes no notice of leading ones, MindSpore refuses them."""
    parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    plain = [_is_plain_index(scope, part) for part in parts]
    held, given = scope.values(target.value), scope.values(source)
    if None in plain or not held or not all(isinstance(v, TensorValue) for v in (*held, *given)):
        return value
    numbers = plain.count(True)
    pairs = [(h, g) for h in held for g in given if isinstance(h, TensorValue) and isinstance(g, TensorValue)]
    extra = {g.ndim - h.ndim + numbers for h, g in pairs}
    if len(extra) != 1 or (count := extra.pop()) <= 0:
        return value
    axes = literal(0) if count == 1 else literal(tuple(range(count)))
    return ast.Call(ast.Attribute(value, "squeeze", ast.Load()), [axes], [])


def _is_plain_index(scope: Scope, part: ast.expr) -> bool | None:
    """True for a number, which takes an axis away; False for a slice; None for other indices."""
    if isinstance(part, ast.Slice) or (isinstance(part, ast.Constant) and part.value is Ellipsis):
        return False
    seen = scope.values(part)
    return True if seen and all(map(is_whole, seen)) else None


def annotated(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    """An assignment with a type: the type stays in constructors."""
    assert isinstance(statement, ast.AnnAssign)
    if statement.value is None:
        return []
    plain = ast.copy_location(ast.Assign([statement.target], statement.value), statement)
    made = assign(scope, plain)
    from ms_port.passes.lowering.signature import lower_annotation

    annotation = lower_annotation(scope, statement.annotation)
    if scope.host and annotation is not None and made and isinstance(made[0], ast.Assign):
        target = cast(ast.Name | ast.Attribute | ast.Subscript, made[0].targets[0])
        return [ast.AnnAssign(target, annotation, made[0].value, statement.simple)]
    return made


def augmented(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    """``x += y``."""
    assert isinstance(statement, ast.AugAssign)
    if not scope.host and is_self_attribute(statement.target):
        counted = cast(ast.Attribute, statement.target)
        if counted.attr in scope.work.graph_reads:
            raise Untranslatable(statement, "state on the cell is changed in the graph")
        return _only_written(scope, statement, counted.attr)
    target = cast(ast.Name | ast.Attribute | ast.Subscript, lower(scope, statement.target))
    return [ast.AugAssign(target, statement.op, lower(scope, statement.value))]


def _holds_unread_object(scope: Scope, statement: ast.Assign) -> bool:
    """``self._master = SyncMaster(self.run)``: an object of Python's that no code of the port reads."""
    values = scope.values(statement.value)
    return (
        bool(values)
        and all(isinstance(v, ObjectValue) and v.kind in ("opaque", "config") for v in values)
        and all(is_self_attribute(t) and t.attr not in scope.work.reads for t in statement.targets)  # type: ignore[attr-defined]
    )


def _child_of_sequential(scope: Scope, statement: ast.Assign, value: ast.expr) -> ast.stmt | None:
    """``self.norm = layer`` of a Sequential: SequentialCell keeps a list of its cells that the child must enter too."""
    target, values = statement.targets[0], scope.values(statement.value)
    sequential = layer_base(scope.work.program, scope.function.owner or "") == "torch.nn.Sequential"
    if not (scope.host and sequential and isinstance(target, ast.Attribute) and is_self_attribute(target)):
        return None
    if not values or not all(isinstance(v, ModuleValue) for v in values):
        return None
    scope.work.op_functions.add("add_cell")
    args = [ast.Name("self", ast.Load()), ast.Constant(target.attr), value]
    return ast.Expr(ast.Call(ast.Name("add_cell", ast.Load()), args, []))


def _chooses_forward(scope: Scope, statement: ast.Assign) -> bool:
    """``self.forward = self.forward_fast``, where every instance holds that method."""
    values = scope.values(statement.value)
    functions = {v.name for v in values if isinstance(v, FunctionValue) and v.owner is not None}
    methods = {scope.work.all_functions[name].name for name in functions if name in scope.work.all_functions}
    return ast.unparse(statement.targets[0]) == "self.forward" and len(functions) == 1 and methods == {"forward"}


def _output_field(scope: Scope, statement: ast.Assign) -> ast.stmt | None:
    """``out.pooled = x`` of an output object, a tuple in the port -> ``out = (out[0], x)``."""
    target = statement.targets[0]
    if len(statement.targets) != 1 or not isinstance(target, ast.Attribute):
        return None
    bases = scope.values(target.value)
    if not bases or not all(isinstance(b, ObjectValue) and b.kind == "output" for b in bases):
        return None
    fields = {tuple(output_fields(b)) for b in bases if isinstance(b, ObjectValue)}
    names = fields.pop()
    if fields or target.attr not in names or not isinstance(target.value, ast.Name):
        raise Untranslatable(statement, f"`{ast.unparse(target)}` is no field that the port's tuple has")
    whole = target.value.id
    items: list[ast.expr] = [
        lower(scope, statement.value)
        if name == target.attr
        else ast.Subscript(ast.Name(whole, ast.Load()), ast.Constant(i), ast.Load())
        for i, name in enumerate(names)
    ]
    return ast.Assign([ast.Name(whole, ast.Store())], ast.Tuple(items, ast.Load()))


def _stored_value(scope: Scope, statement: ast.Assign) -> ast.expr:
    """The value; a tensor kept as a plain attribute is computed by numpy, or comes with the weights."""
    values = scope.values(statement.value)
    plain = scope.host and any(is_self_attribute(t) for t in statement.targets)
    if plain and values and all(isinstance(v, TensorValue) for v in values):
        from ms_port.passes.lowering.tensors import host_tensor, is_parameter_call

        made = not is_parameter_call(scope, statement.value)
        if made and any(_is_filled_later(scope, t.attr) for t in statement.targets if isinstance(t, ast.Attribute)):
            raise Untranslatable(statement, "it is filled later: its values come with the weights")
        if made and (isinstance(statement.value, ast.Call | ast.BinOp) or _is_computed_here(scope, statement.value)):
            return host_tensor(scope, statement.value, values)
    return lower(scope, statement.value)


def _is_filled_later(scope: Scope, name: str) -> bool:
    """Whether the constructor then fills a plain tensor that the graph reads (``nn.init.normal_(self.w)``)."""
    calls = (n for s in scope.function.body for n in ast.walk(s) if isinstance(n, ast.Call))
    filled = (filled_tensor(scope, call) for call in calls if scope.calls(call))
    return name in scope.work.graph_reads and any(
        isinstance(t, ast.Attribute) and is_self_attribute(t) and t.attr == name for t in filled
    )


def _is_computed_here(scope: Scope, node: ast.expr) -> bool:
    """A local that the function only ever binds to what it computes, no parameter: an array in the port."""
    own = any(getattr(v, "parameter", None) is not None for v in scope.values(node))
    return isinstance(node, ast.Name) and not own and node.id not in scope.parameters and is_made_here(scope, node.id)


def _set_attribute_in_graph(scope: Scope, statement: ast.Assign) -> list[ast.stmt]:
    """GRAPH_MODE keeps no state on the cell: an attribute that is only written is dropped."""
    names = [t.attr for t in statement.targets if isinstance(t, ast.Attribute)]
    if any(name in scope.work.graph_reads for name in names) or len(names) != len(statement.targets):
        raise Untranslatable(statement, f"`self.{names[0]}` is written and read in the graph")
    if all(_is_left_behind(scope, name) for name in names):
        scope.drop(statement, "a counter that MindSpore's layer does not have")
        return []
    return _only_written(scope, statement, names[0])


def _without_written_parts(scope: Scope, statement: ast.Assign) -> ast.Assign:
    """``x, self.attn = attention(q, k, v)``: what no graph code reads is bound to ``_``."""
    match statement.targets:
        case [ast.Tuple(elts=parts)] if any(is_self_attribute(part) for part in parts):
            kept: list[ast.expr] = []
            for part in parts:
                if not isinstance(part, ast.Attribute) or not is_self_attribute(part):
                    kept.append(part)
                    continue
                if part.attr in scope.work.graph_reads:
                    raise Untranslatable(statement, f"`self.{part.attr}` is written and read in the graph")
                _only_written(scope, statement, part.attr)
                kept.append(ast.copy_location(ast.Name("_", ast.Store()), part))
            target = ast.copy_location(ast.Tuple(kept, ast.Store()), statement)
            return ast.copy_location(ast.Assign([target], statement.value), statement)
    return statement


def _only_written(scope: Scope, statement: ast.stmt, name: str) -> list[ast.stmt]:
    """Nothing stands for a write to an attribute that no graph code reads."""
    scope.flag(
        statement,
        "MSP402",
        f"`self.{name}` is set in forward; GRAPH_MODE keeps no state on a cell, so the port does not set it",
        "Return the value, or keep it in a Parameter.",
        severity="info",
    )
    scope.drop(statement, "sets an attribute in the graph that nothing in it reads")
    return []


def _is_left_behind(scope: Scope, name: str) -> bool:
    """Whether the name is a tensor of the torch layer below that its op-map row drops (``num_batches_tracked``)."""
    base = layer_base(scope.work.program, scope.function.owner or "")
    row = scope.work.opmap.row(base) if base is not None else None
    return row is not None and any(rule.torch == name and rule.mindspore is None for rule in row.weights)


def _buffer(scope: Scope, owner: ast.expr, name: ast.expr, value: ast.expr, names: set[str]) -> ast.stmt | None:
    """``self.x = nn.Buffer(t)`` or ``setattr(self, "x", nn.Buffer(t))`` -> ``self.register_buffer("x", ...)``."""
    facts = scope.calls(value) if isinstance(value, ast.Call) else ()
    if not facts or getattr(facts[0].callee, "name", "") != "torch.nn.Buffer":
        return None
    from ms_port.passes.lowering.module_methods import register

    assert isinstance(value, ast.Call)
    given = dict(zip(("data", "persistent"), value.args, strict=False)) | {k.arg: k.value for k in value.keywords}
    saved = "persistent" not in given or ast.unparse(given["persistent"]) == "True"
    made = register(scope, lower(scope, owner), lower(scope, name), given["data"], saved, names)
    return as_assignment(made)


def set_buffer(scope: Scope, statement: ast.Expr) -> ast.stmt | None:
    """``setattr(self, name, nn.Buffer(t))``."""
    match statement.value:
        case ast.Call(func=ast.Name(id="setattr"), args=[owner, name, value]) as call:
            names = {str(f.args[1].value) for f in scope.calls(call) if isinstance(f.args[1], Literal)}
            return _buffer(scope, owner, name, value, names)
    return None


def as_assignment(lowered: ast.expr) -> ast.stmt:
    """``setattr(self, "name", value)`` with a plain name is an assignment."""
    match lowered:
        case ast.Call(func=ast.Name(id="setattr"), args=[target, ast.Constant(value=str(name)), value]) if (
            name.isidentifier()
        ):
            return ast.Assign([ast.Attribute(target, name, ast.Store())], value)
    return ast.Expr(lowered)
