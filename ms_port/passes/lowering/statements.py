"""Statements: kept one for one; what can't be kept is dropped only where no tensor, return or write is lost."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import cast

from ms_port.ir.program import FunctionDef
from ms_port.ir.tree import copy, is_self_attribute, names_stored, nid
from ms_port.ir.tree import statement as parse_statement
from ms_port.ir.values import ClassValue, FunctionValue, Literal, ModuleValue, ObjectValue, TensorValue, holds_tensor
from ms_port.passes.decided import choices
from ms_port.passes.lowering.attributes import output_fields
from ms_port.passes.lowering.base_layers import layer_base
from ms_port.passes.lowering.container_statements import changes_tensors, container_statement, deletion, rebinding
from ms_port.passes.lowering.expressions import lower
from ms_port.passes.lowering.held import held_statements
from ms_port.passes.lowering.host_writes import host_write
from ms_port.passes.lowering.keyword_display import keyword_display
from ms_port.passes.lowering.mask_writes import mask_write
from ms_port.passes.lowering.names import of_class
from ms_port.passes.lowering.scope import DifferentNames, Scope, Untranslatable, truth
from ms_port.passes.lowering.state_writes import state_write
from ms_port.passes.lowering.ties import left_out, tie_statements


def lower_block(scope: Scope, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """A list of statements. Raises Untranslatable where one that matters can't be kept."""
    kept: list[ast.stmt] = []
    for statement in statements:
        try:
            lowered = lower_statement(scope, statement)
        except DifferentNames as error:
            lowered = _by_class(scope, statement, error)
        except Untranslatable as error:
            lowered = _instead(scope, statement, error)
        for new in lowered:
            ast.copy_location(new, statement)
            new.never_ran = nid(statement) >= 0 and nid(statement) not in scope.facts.ran  # type: ignore[attr-defined]
        kept.extend(lowered)
    return kept


def lower_statement(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    """One statement as it stands in the output (none, one or several)."""
    if not scope.host:
        if (same := container_statement(scope, statement)) is not None:
            return lower_block(scope, same)
        if (written := state_write(scope, statement)) is not None:
            return written
        if (masked := mask_write(scope, statement)) is not None:
            return masked
        if changes_tensors(scope, statement) and (rebound := rebinding(scope, statement)) is not None:
            return rebound
    handler = _HANDLERS.get(type(statement))
    if handler is None:
        raise Untranslatable(statement, f"a `{type(statement).__name__.lower()}` statement")
    return handler(scope, statement)


def _by_class(scope: Scope, statement: ast.stmt, error: DifferentNames) -> list[ast.stmt]:
    """``m.weight`` of layers that name it differently: one ``isinstance`` branch for each naming."""
    if not scope.host or not error.name or error.name in scope.narrowed:
        return _instead(scope, statement, error)
    versions: dict[str, tuple[list[ast.stmt], list[ast.expr]]] = {}
    for cls in error.classes:
        scope.narrowed[error.name] = (cls,)
        try:
            made = lower_statement(scope, statement)
            kind = of_class(scope, statement, cls)
        except Untranslatable as inner:
            return _instead(scope, statement, inner)
        finally:
            del scope.narrowed[error.name]
        key = "\n".join(ast.dump(s) for s in made)
        versions.setdefault(key, (made, []))[1].append(kind)
    return [_isinstance_branch(error.name, made, kinds) for made, kinds in versions.values()]


def _isinstance_branch(name: str, body: list[ast.stmt], kinds: list[ast.expr]) -> ast.stmt:
    match body:
        case [
            ast.If(test=ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=tested), _]), orelse=[]) as inner
        ] if tested == name:
            body = inner.body  # the test only widened what each branch now says
    test = ast.Call(
        ast.Name("isinstance", ast.Load()),
        [ast.Name(name, ast.Load()), kinds[0] if len(kinds) == 1 else ast.Tuple(kinds, ast.Load())],
        [],
    )
    return ast.If(test, body, [])


def _instead(scope: Scope, statement: ast.stmt, error: Untranslatable) -> list[ast.stmt]:
    """What stands for a statement that can't be kept. Raises the error again where it must not be lost."""
    if scope.strict:
        raise error
    parts = _split(statement)
    if parts is not None:
        return lower_block(scope, parts)
    if scope.host:
        return _instead_in_constructor(scope, statement, error)
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr | ast.Assert):
        value = getattr(statement, "value", None)
        tensors = value is not None and any(holds_tensor(v) for v in scope.values(value))
        if not scope.host and changes_tensors(scope, statement):
            raise error
        if not tensors and (not _stores_beyond_names(statement) or _changes_what_is_missing(scope, statement)):
            scope.poison(names_stored(statement), error.reason)
            scope.drop(statement, error.reason)
            return []
    if isinstance(statement, ast.Raise):
        scope.drop(statement, error.reason)
        return []
    raise error


def _instead_in_constructor(scope: Scope, statement: ast.stmt, error: Untranslatable) -> list[ast.stmt]:
    if any(isinstance(n, ast.Return) for n in ast.walk(statement)):
        raise error  # what a helper returns must not be lost
    added = {name for n in ast.walk(statement) for name in scope.facts.effects.get(nid(n), ())}
    made = held_statements(scope, statement, added, error)
    if made is None:
        if _makes_modules(scope, statement):
            raise error
        made = []
    stored = names_stored(statement) | {name for s in ast.walk(statement) if (name := _changed_container(s))}
    scope.poison(stored, error.reason)
    scope.work.poisoned += bool(stored)
    scope.drop(statement, error.reason)
    return made


def _changed_container(statement: ast.AST) -> str | None:
    """The local name of a container that a statement changes: ``layers`` in ``layers.append(x)``."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method))) if (
            method in _CONTAINER_CHANGES and name != "self"
        ):
            return name
    return None


_CONTAINER_CHANGES = frozenset("append extend insert update add pop remove clear".split())


def _makes_modules(scope: Scope, statement: ast.stmt) -> bool:
    """Whether a module of the model is made or stored by the statement."""
    return any(
        isinstance(fact.result, ModuleValue) and fact.result.path is not None
        for n in ast.walk(statement)
        if isinstance(n, ast.Call)
        for fact in scope.calls(n)
    )


def _stores_beyond_names(statement: ast.stmt) -> bool:
    return any(
        isinstance(n, ast.Attribute | ast.Subscript) and not isinstance(n.ctx, ast.Load) for n in ast.walk(statement)
    )


def _changes_what_is_missing(scope: Scope, statement: ast.stmt) -> bool:
    """Whether a plain value is only put into objects that the port does not have: ``cache.is_updated[i] = True``."""
    if not isinstance(statement, ast.Assign):
        return False
    for target in statement.targets:
        if not isinstance(target, ast.Attribute | ast.Subscript):
            return False
        root: ast.expr = target
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        held = scope.values(root)
        if not held or not all(isinstance(v, ObjectValue) and v.kind != "output" for v in held):
            return False
        try:
            lower(scope, target.value)
        except Untranslatable:
            continue
        return False
    return True


def _split(statement: ast.stmt) -> list[ast.stmt] | None:
    """``a, b = x, y`` as two assignments, where neither reads what the other binds."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(targets) == len(
            values
        ) and not any(isinstance(e, ast.Starred) for e in [*targets, *values]):
            bound = {n for t in targets for n in names_stored(t)}
            read = {n.id for v in values for n in ast.walk(v) if isinstance(n, ast.Name)}
            if bound & read:
                return None
            pairs = zip(targets, values, strict=True)
            return [ast.copy_location(ast.Assign([t], v), statement) for t, v in pairs]
    return None


# --- kinds ----------------------------------------------------------------------------------------------------------


def _assign(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    assert isinstance(statement, ast.Assign)
    if scope.host and _chooses_forward(scope, statement):
        scope.drop(statement, "the port has the chosen method as its construct")
        return []
    if scope.host and ast.unparse(statement.targets[0]) == "self.forward" and not scope.ran(statement.value):
        message = f"{ast.unparse(statement.value)} is not part of the port"
        return [ast.parse(f"raise NotImplementedError({message!r})").body[0]]
    if not scope.host and any(is_self_attribute(t) for t in statement.targets):
        return _set_attribute_in_graph(scope, statement)
    match statement.targets:
        case [ast.Subscript(value=ast.Attribute(value=holder, attr="_modules"), slice=key)] if scope.host:
            given = [lower(scope, holder), lower(scope, key), lower(scope, statement.value)]
            return [_as_assignment(ast.Call(ast.Name("setattr", ast.Load()), given, []))]
    values = scope.values(statement.value)
    if any(isinstance(v, ObjectValue) and v.kind == "config" for v in values) and not scope.host:
        raise Untranslatable(statement, "a configuration object in the graph")
    target = statement.targets[0]
    if isinstance(target, ast.Attribute):
        named = (target.value, ast.Constant(target.attr), statement.value)
        if (buffer := _buffer(scope, *named, {target.attr})) is not None:
            return [buffer]
    if not scope.host and (rebuilt := _output_field(scope, statement)) is not None:
        return [rebuilt]
    if not scope.host and (entries := keyword_display(scope, statement)) is not None:
        return entries
    value = _detached(scope, statement.value, _stored_value(scope, statement))
    if (entered := _child_of_sequential(scope, statement, value)) is not None:
        return [entered]
    for target in statement.targets:
        for name in names_stored(target):
            scope.poisoned.pop(name, None)
    targets = [lower(scope, t) for t in statement.targets]
    if not scope.host and len(targets) == 1 and ast.unparse(targets[0]) == ast.unparse(value):
        scope.drop(statement, "binds the names to what they hold")  # `k, v = cache.update(k, v)`, `x = x.to(device)`
        return []
    return [ast.Assign(targets, value)]


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
    return _as_assignment(made)


def _set_buffer(scope: Scope, statement: ast.Expr) -> ast.stmt | None:
    """``setattr(self, name, nn.Buffer(t))``."""
    match statement.value:
        case ast.Call(func=ast.Name(id="setattr"), args=[owner, name, value]) as call:
            names = {str(f.args[1].value) for f in scope.calls(call) if isinstance(f.args[1], Literal)}
            return _buffer(scope, owner, name, value, names)
    return None


def _stored_value(scope: Scope, statement: ast.Assign) -> ast.expr:
    """The value; a tensor kept as a plain attribute is computed by numpy, or comes with the weights."""
    values = scope.values(statement.value)
    plain = scope.host and any(is_self_attribute(t) for t in statement.targets)
    if plain and values and all(isinstance(v, TensorValue) for v in values):
        from ms_port.passes.lowering.tensors import host_tensor, is_parameter_call

        if not is_parameter_call(scope, statement.value) and isinstance(statement.value, ast.Call | ast.BinOp):
            return host_tensor(scope, statement.value, values)
    return lower(scope, statement.value)


def _set_attribute_in_graph(scope: Scope, statement: ast.Assign) -> list[ast.stmt]:
    """GRAPH_MODE keeps no state on the cell: an attribute that is only written is dropped."""
    names = [t.attr for t in statement.targets if isinstance(t, ast.Attribute)]
    if any(name in scope.work.graph_reads for name in names) or len(names) != len(statement.targets):
        raise Untranslatable(statement, f"`self.{names[0]}` is written and read in the graph")
    if all(_is_left_behind(scope, name) for name in names):
        scope.drop(statement, "a counter that MindSpore's layer does not have")
        return []
    scope.flag(
        statement,
        "MSP402",
        f"`self.{names[0]}` is set in forward; GRAPH_MODE keeps no state on a cell, so the port does not set it",
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


def _annotated(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    assert isinstance(statement, ast.AnnAssign)
    if statement.value is None:
        return []
    plain = ast.copy_location(ast.Assign([statement.target], statement.value), statement)
    made = _assign(scope, plain)
    from ms_port.passes.lowering.signature import lower_annotation

    annotation = lower_annotation(scope, statement.annotation)
    if scope.host and annotation is not None and made and isinstance(made[0], ast.Assign):
        target = cast(ast.Name | ast.Attribute | ast.Subscript, made[0].targets[0])
        return [ast.AnnAssign(target, annotation, made[0].value, statement.simple)]
    return made


def _augmented(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    assert isinstance(statement, ast.AugAssign)
    if not scope.host and is_self_attribute(statement.target):
        raise Untranslatable(statement, "state on the cell is changed in the graph")
    target = cast(ast.Name | ast.Attribute | ast.Subscript, lower(scope, statement.target))
    return [ast.AugAssign(target, statement.op, lower(scope, statement.value))]


def _expression(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    assert isinstance(statement, ast.Expr)
    if isinstance(statement.value, ast.Constant):
        return []
    if scope.host and left_out(scope, statement):
        scope.drop(statement, "has no effect in the port")
        return tie_statements(scope)
    if scope.host and _contributes_nothing(scope, statement):
        scope.drop(statement, "adds nothing to the module")
        return []
    if not scope.host and _sets_grad_mode(scope, statement.value):
        return []
    if scope.host and (written := host_write(scope, statement)) is not None:
        return written
    if scope.host and (buffer := _set_buffer(scope, statement)) is not None:
        return [buffer]
    lowered = lower(scope, statement.value)
    if scope.host and (filled := _filled_container(scope, statement.value, lowered)) is not None:
        return filled
    match statement.value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="detach_")):
            return [ast.Assign([ast.Name(name, ast.Store())], lowered)]
    if isinstance(lowered, ast.Constant | ast.Name | ast.Attribute):
        lost = (
            _changed_container(statement) is not None
            if scope.host
            else (changes_tensors(scope, statement) or _may_change_arguments(scope, statement.value))
        )
        if lost and not isinstance(lowered, ast.Name):
            raise Untranslatable(statement, f"`{ast.unparse(statement)}` changes a container")
        scope.drop(statement, "has no effect in the port")
        return []
    return [_as_assignment(lowered)]


_NAMED = "for __name__, cell in __given__.items(): setattr(self, __name__, cell)"
_NUMBERED = "for __name__, cell in enumerate(__given__): setattr(self, str(__name__), cell)"


def _filled_container(scope: Scope, source: ast.expr, lowered: ast.expr) -> list[ast.stmt] | None:
    """``super().__init__(layers)`` of a ModuleDict or ModuleList with a forward: a Cell that takes the children."""
    base = layer_base(scope.work.program, scope.function.owner or "")
    form = {"torch.nn.ModuleDict": _NAMED, "torch.nn.ModuleList": _NUMBERED}.get(base or "")
    cell = scope.work.program.cells.get(scope.function.owner or "")
    if form is None or cell is None or not any(m.name == "forward" for m in cell.methods):
        return None
    match source, lowered:
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")))), ast.Call(args=[given]):
            name = "name" if form is _NAMED else "i"
            loop = parse_statement(form.replace("__name__", name).replace("__given__", ast.unparse(given)))
            return [ast.Expr(ast.Call(lowered.func, [], [])), loop]
    return None


def _as_assignment(lowered: ast.expr) -> ast.stmt:
    """``setattr(self, "name", value)`` with a plain name is an assignment."""
    match lowered:
        case ast.Call(func=ast.Name(id="setattr"), args=[target, ast.Constant(value=str(name)), value]) if (
            name.isidentifier()
        ):
            return ast.Assign([ast.Attribute(target, name, ast.Store())], value)
    return ast.Expr(lowered)


def _contributes_nothing(scope: Scope, statement: ast.Expr) -> bool:
    """In a constructor: a call into user code that made, changed, drew and returned nothing (logging, registration)."""
    facts = scope.calls(statement.value) if isinstance(statement.value, ast.Call) else ()
    if not facts or scope.facts.effects.get(nid(statement)):
        return False
    return all(f.result == Literal(None) and _is_inert(scope, f.entered, set()) for f in facts)


def _is_inert(scope: Scope, key: str | None, seen: set[str]) -> bool:
    """Whether a user function and all that it calls leave modules, tensors and containers as they are."""
    function = scope.work.all_functions.get(key or "")
    if function is None or function.name == "__init__":
        return False
    if function.key in seen:
        return True
    seen.add(function.key)
    if any(function.facts.effects.values()):
        return False
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
                return False
            if isinstance(node, ast.Call) and not _is_inert_call(scope, function, node, seen):
                return False
    return True


def _is_inert_call(scope: Scope, function: FunctionDef, node: ast.Call, seen: set[str]) -> bool:
    for fact in function.facts.calls.get(nid(node), ()):
        callee = fact.callee
        if fact.entered is not None:
            if not _is_inert(scope, fact.entered, seen):
                return False
        elif isinstance(callee, FunctionValue):
            writes = callee.name.rpartition(".")[2] in _MUTATORS
            if (callee.torch and callee.name not in ("torch._C._log_api_usage_once",)) or writes:
                return False
        elif not isinstance(callee, ClassValue):
            return False
    return True


_MUTATORS = frozenset("append extend insert update add pop remove clear setdefault setattr".split())


def _return(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    assert isinstance(statement, ast.Return)
    if statement.value is None:
        return [ast.Return(None)]
    return [ast.Return(_detached(scope, statement.value, lower(scope, statement.value)))]


def _if(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    assert isinstance(statement, ast.If)
    verdict = truth(scope.values(statement.test))
    if verdict is None and scope.host and not scope.ran(statement.test):
        verdict = None
    if not scope.host:
        return _if_in_graph(scope, statement)
    if verdict is None:
        test = lower(scope, statement.test)
        body, orelse = lower_block(scope, statement.body), lower_block(scope, statement.orelse)
        return _made_if(test, body, orelse)
    taken = statement.body if verdict else statement.orelse
    other = statement.orelse if verdict else statement.body
    poisoned = dict(scope.poisoned)
    try:
        test = lower(scope, statement.test)
        with scope.strictly():
            unused = lower_block(scope, other)
    except Untranslatable as error:
        scope.poisoned = poisoned
        scope.drop(statement.test, f"always {verdict}; {error.reason}")
        scope.work.decided.update(choices(scope.function, statement.test, other))
        return lower_block(scope, taken)
    kept = lower_block(scope, taken)
    return _made_if(test, kept, unused) if verdict else _made_if(test, unused, kept)


def _if_in_graph(scope: Scope, statement: ast.If) -> list[ast.stmt]:
    """Where nothing is left of the arms (they filled a cache, say) the test need not be there."""
    test: ast.expr | Untranslatable
    try:
        test = lower(scope, statement.test)
    except Untranslatable as error:
        test = error
    body, orelse = lower_block(scope, statement.body), lower_block(scope, statement.orelse)
    if isinstance(test, Untranslatable):
        if not _binds_plain_values(scope, statement, [*body, *orelse]):
            raise test
        scope.poison([n for s in [*body, *orelse] for n in names_stored(s)], test.reason)
        scope.drop(statement.test, test.reason)
        return []
    return _made_if(test, body, orelse)


def _binds_plain_values(scope: Scope, source: ast.If, kept: Sequence[ast.stmt]) -> bool:
    """Whether all that is left of the arms binds names to what is no tensor."""
    simple = all(
        isinstance(n, ast.Assign) and all(isinstance(t, ast.Name) for t in n.targets)
        for statement in kept
        for n in ast.walk(statement)
        if isinstance(n, ast.stmt) and not isinstance(n, ast.If)
    )
    names = {n for statement in kept for n in names_stored(statement)}
    bound = [n.value for n in ast.walk(source) if isinstance(n, ast.Assign) and names & set(names_stored(n))]
    return simple and not any(holds_tensor(v) for value in bound for v in scope.values(value))


def _made_if(test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt]) -> list[ast.stmt]:
    if not body and not orelse:
        return []
    if not body:
        from ms_port.passes.prune import negate

        return [ast.If(negate(copy(test)), orelse, [])]
    return [ast.If(test, body, orelse)]


def _for(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    assert isinstance(statement, ast.For)
    target = statement.target
    for name in names_stored(target):
        scope.poisoned.pop(name, None)
    iterated = lower(scope, statement.iter)
    new_target = lower(scope, target)
    if (pairs := getattr(iterated, "pairs", None)) is not None:
        # `for m in self.modules()` -> `for _, m in self.cells_and_names()`
        iterated = pairs
        new_target = ast.Tuple([ast.Name("_", ast.Store()), new_target], ast.Store())
    body = lower_block(scope, statement.body)
    if not body:
        return []
    return [ast.For(new_target, iterated, body, lower_block(scope, statement.orelse))]


def _while(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    assert isinstance(statement, ast.While)
    body = lower_block(scope, statement.body)
    return [ast.While(lower(scope, statement.test), body, lower_block(scope, statement.orelse))]


def _with(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    """The body inlined: ``no_grad`` cuts the gradient of what it binds, autocast is flagged, the rest says nothing."""
    assert isinstance(statement, ast.With)
    kinds = [_context(scope, item.context_expr) for item in statement.items]
    if "autocast" in kinds:
        scope.flag(
            statement,
            "MSP503",
            "an autocast block: the port computes it in the types that the trace saw without autocast",
            "Set mixed precision in config.yaml, or cast by hand here.",
        )
    before = scope.detaching
    scope.detaching = scope.detaching or "no_grad" in kinds
    try:
        return lower_block(scope, statement.body)
    finally:
        scope.detaching = before


def _context(scope: Scope, node: ast.expr) -> str:
    """What a ``with`` block does, told by the object that was entered."""
    values = scope.values(node)
    cls = getattr(values[0], "cls", "") if values else ast.unparse(node)
    if "autocast" in cls:
        enabled = [k.value for k in getattr(node, "keywords", []) if k.arg == "enabled"]
        off = bool(enabled) and scope.constant(enabled[0]) is not None and ast.unparse(enabled[0]) == "False"
        return "plain" if off else "autocast"
    if "no_grad" in cls or "inference_mode" in cls:
        return "no_grad"
    if "set_grad_enabled" in cls:
        return _grad_mode(scope, node)
    return "plain"


def _grad_mode(scope: Scope, node: ast.expr) -> str:
    """``set_grad_enabled(flag)``: by the flag where it never varied."""
    facts = scope.calls(node) if isinstance(node, ast.Call) else ()
    flags = {f.args[0] for f in facts if f.args}
    if flags == {Literal(True)}:
        return "plain"
    if flags != {Literal(False)}:
        scope.flag(
            node,
            "MSP306",
            "whether gradients flow here changes while the model runs; the port lets them flow",
            "Wrap what must not train in ops.stop_gradient.",
        )
        return "plain"
    return "no_grad"


def _may_change_arguments(scope: Scope, node: ast.expr) -> bool:
    """Whether a user function was given a container of tensors that it may have changed."""
    if not isinstance(node, ast.Call) or not any(f.entered for f in scope.calls(node)):
        return False
    given = [*node.args, *(k.value for k in node.keywords)]
    return any(
        not isinstance(v, TensorValue) and holds_tensor(v) and getattr(v, "kind", "dict") in ("list", "dict", "set")
        for argument in given
        for v in scope.values(argument)
    )


def _sets_grad_mode(scope: Scope, node: ast.expr) -> bool:
    """``torch.set_grad_enabled(flag)`` as a statement: it holds for what follows."""
    facts = scope.calls(node) if isinstance(node, ast.Call) else ()
    if not facts or "set_grad_enabled" not in getattr(facts[0].callee, "name", ""):
        return False
    scope.detaching = _grad_mode(scope, node) == "no_grad"
    return True


def _detached(scope: Scope, source: ast.expr, value: ast.expr) -> ast.expr:
    """Under ``no_grad`` the value's gradient is cut."""
    seen = scope.values(source)
    if not scope.detaching or scope.host or not any(holds_tensor(v) for v in seen):
        return value
    if isinstance(value, ast.Tuple):
        items: list[ast.expr] = [ast.Call(_stop_gradient(), [item], []) for item in value.elts]
        return ast.Tuple(items, ast.Load())
    if not all(isinstance(v, TensorValue) for v in seen):
        raise Untranslatable(source, "several tensors bound at once under no_grad")
    return ast.Call(_stop_gradient(), [value], [])


def _stop_gradient() -> ast.expr:
    return ast.Attribute(ast.Name("ops", ast.Load()), "stop_gradient", ast.Load())


def _assert(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    assert isinstance(statement, ast.Assert)
    message = None
    if statement.msg is not None:
        try:
            message = lower(scope, statement.msg)
        except Untranslatable:
            message = None
    return [ast.Assert(lower(scope, statement.test), message)]


def _raise(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    assert isinstance(statement, ast.Raise)
    return [ast.Raise(lower(scope, statement.exc) if statement.exc is not None else None, None)]


def _function_def(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    """A function defined inside: its body is lowered with the names around it."""
    from ms_port.passes.lowering.signature import lower_arguments

    assert isinstance(statement, ast.FunctionDef)
    suffix = f"<locals>.{statement.name}"
    inner = next(
        (
            f
            for key, f in scope.work.all_functions.items()
            if key.endswith(suffix) and f.loc.file == scope.function.loc.file and f.loc.line == statement.lineno
        ),
        None,
    )
    if inner is None or statement.decorator_list:
        raise Untranslatable(statement, f"the function `{statement.name}` defined inside did not run")
    within = Scope(scope.work, inner)
    within.host = scope.host
    within.locals |= scope.locals
    within.baked, within.poisoned = dict(scope.baked), dict(scope.poisoned)
    within.inner = scope.inner | {statement.name}
    body = lower_block(within, inner.body)
    scope.inner.add(statement.name)
    scope.work.claimed |= {e.index for e in scope.work.program.ledger if e.function == inner.key}
    return [ast.FunctionDef(statement.name, lower_arguments(within), body, [], None)]


def _same(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    return [copy(statement)]


def _nothing(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    return []


def _try(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    assert isinstance(statement, ast.Try)
    scope.drop(statement, "try inlined: nothing was raised")
    return lower_block(scope, [*statement.body, *statement.orelse, *statement.finalbody])


def _delete(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    """``del x`` says nothing to a graph; an item or an attribute that goes is a change that must stay."""
    assert isinstance(statement, ast.Delete)
    made: list[ast.stmt] = []
    for target in statement.targets:
        if isinstance(target, ast.Name | ast.Tuple):
            continue
        if scope.host:
            made.append(ast.Delete([lower(scope, target)]))
        elif (rebound := deletion(scope, target)) is not None:
            made.append(rebound)
        else:
            raise Untranslatable(statement, f"`del {ast.unparse(target)}` in the graph")
    return made


_HANDLERS: dict[type[ast.stmt], Callable[[Scope, ast.stmt], list[ast.stmt]]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Expr: _expression,
    ast.Return: _return,
    ast.If: _if,
    ast.For: _for,
    ast.While: _while,
    ast.With: _with,
    ast.Assert: _assert,
    ast.Raise: _raise,
    ast.Try: _try,
    ast.FunctionDef: _function_def,
    ast.Pass: _same,
    ast.Break: _same,
    ast.Continue: _same,
    ast.Import: _nothing,
    ast.ImportFrom: _nothing,
    ast.Global: _nothing,
    ast.Nonlocal: _nothing,
    ast.Delete: _delete,
}
