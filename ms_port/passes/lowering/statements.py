"""Statements: kept one for one; what can't be kept is dropped only where no tensor, return or write is lost."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from ms_port.ir.tree import copy, names_stored, nid
from ms_port.ir.values import ObjectValue, holds_tensor
from ms_port.passes.decided import choices
from ms_port.passes.lowering.assignments import annotated, assign, augmented
from ms_port.passes.lowering.call_statements import expression
from ms_port.passes.lowering.container_statements import changes_tensors, container_statement, deletion, rebinding
from ms_port.passes.lowering.expressions import lower
from ms_port.passes.lowering.grad_modes import context, detached
from ms_port.passes.lowering.instead import instead, split
from ms_port.passes.lowering.isinstance_branches import isinstance_branch, merged_branches
from ms_port.passes.lowering.mask_writes import mask_write
from ms_port.passes.lowering.names import of_class
from ms_port.passes.lowering.scope import DifferentNames, Scope, Untranslatable, truth
from ms_port.passes.lowering.state_writes import state_write


def lower_block(scope: Scope, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """A list of statements. Raises Untranslatable where one that matters can't be kept."""
    kept: list[ast.stmt] = []
    starts: list[tuple[int, dict[str, str]]] = []
    for index, statement in enumerate(statements):
        starts.append((len(kept), dict(scope.poisoned)))
        try:
            lowered = lower_statement(scope, statement)
        except DifferentNames as error:
            lowered = _by_class(scope, statement, error)
        except Untranslatable as error:
            try:
                lowered = _instead(scope, statement, error)
            except Untranslatable as last:
                left = _always_left(scope, statements[:index]) if _never_ran(scope, statement) else None
                if left is None:
                    raise
                count, scope.poisoned = starts[left]
                return [*kept[:count], *_without_rest(scope, statements[left:], last)]
        for new in lowered:
            ast.copy_location(new, statement)
            new.never_ran = _never_ran(scope, statement)  # type: ignore[attr-defined]
        kept.extend(lowered)
    return kept


def _never_ran(scope: Scope, statement: ast.stmt) -> bool:
    return nid(statement) >= 0 and nid(statement) not in scope.facts.ran


def _always_left(scope: Scope, statements: Sequence[ast.stmt]) -> int | None:
    """The ``if`` by which every run of a constructor's function left it, so that nothing after it ran."""
    if not scope.host or scope.strict:
        return None
    found = (i for i, s in enumerate(statements) if isinstance(s, ast.If) and _leaving(scope, s) is not None)
    return next(found, None)


def _leaving(scope: Scope, statement: ast.stmt) -> list[ast.stmt] | None:
    """What every run did from here, without the conditions, if it left the function by it."""
    if isinstance(statement, ast.Return | ast.Raise):
        return [statement]
    if isinstance(statement, ast.If) and (verdict := truth(scope.values(statement.test))) is not None:
        taken = statement.body if verdict else statement.orelse
        if taken and (end := _leaving(scope, taken[-1])) is not None:
            return [*taken[:-1], *end]
    return None


def _without_rest(scope: Scope, statements: Sequence[ast.stmt], error: Untranslatable) -> list[ast.stmt]:
    """The way by which every run left, without its conditions: what comes after it can't be kept and never ran."""
    first, *rest = statements
    assert isinstance(first, ast.If)
    for test in (n.test for n in ast.walk(first) if isinstance(n, ast.If)):
        if (verdict := truth(scope.values(test))) is not None:
            scope.drop(test, f"always {verdict}; {error.reason}")
            scope.work.decided.update(choices(scope.function, test, rest))
    return lower_block(scope, _leaving(scope, first) or [])


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
    return [isinstance_branch(error.name, made, kinds) for made, kinds in versions.values()]


def _instead(scope: Scope, statement: ast.stmt, error: Untranslatable) -> list[ast.stmt]:
    """What stands for a statement that can't be kept: its parts, each for itself, if it has any."""
    if not scope.strict and (parts := split(statement)) is not None:
        return lower_block(scope, parts)
    return instead(scope, statement, error)


# --- kinds ----------------------------------------------------------------------------------------------------------


def _return(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    assert isinstance(statement, ast.Return)
    if statement.value is None:
        return [ast.Return(None)]
    value = _without_objects(scope, statement.value) if scope.root else statement.value
    return [ast.Return(detached(scope, value, lower(scope, value)))]


def _without_objects(scope: Scope, node: ast.expr) -> ast.expr:
    """What the root returns, but for parts of a tuple that are objects of Python and hold no tensor of the graph."""
    if not isinstance(node, ast.Tuple):
        return node
    kept = []
    for part in node.elts:
        seen = scope.values(part)
        if seen and all(isinstance(v, ObjectValue) and v.kind in ("opaque", "config") for v in seen):
            scope.flag(
                part,
                "MSP306",
                f"`{ast.unparse(part)}` of the output is no tensor but a {seen[0]}: the port leaves it out",
                "Return the tensors that it was made from.",
            )
            continue
        kept.append(part)
    if len(kept) == len(node.elts) or not kept:
        return node
    made = ast.copy_location(ast.Tuple(kept, ast.Load()), node)
    return made


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
        return merged_branches(_made_if(test, body, orelse))
    taken = statement.body if verdict else statement.orelse
    other = statement.orelse if verdict else statement.body
    poisoned = dict(scope.poisoned)
    try:
        test = lower(scope, statement.test)
        if _is_constant(test) and not _is_constant(statement.test):
            raise Untranslatable(statement.test, f"`{ast.unparse(test)}` in the port")
        with scope.strictly():
            unused = lower_block(scope, other)
    except Untranslatable as error:
        scope.poisoned = poisoned
        scope.drop(statement.test, f"always {verdict}; {error.reason}")
        scope.work.decided.update(choices(scope.function, statement.test, other))
        return lower_block(scope, taken)
    kept = lower_block(scope, taken)
    return _made_if(test, kept, unused) if verdict else _made_if(test, unused, kept)


def _is_constant(test: ast.expr) -> bool:
    inner = test.operand if isinstance(test, ast.UnaryOp) else test
    return isinstance(inner, ast.Constant)


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
    if scope.host and not any(map(scope.ran, statement.body)):
        return _never_entered(scope, statement, iterated, new_target)
    if (pairs := getattr(iterated, "pairs", None)) is not None:
        # `for m in self.modules()` -> `for _, m in self.cells_and_names()`
        iterated = pairs
        new_target = ast.Tuple([ast.Name("_", ast.Store()), new_target], ast.Store())
    body = lower_block(scope, statement.body)
    if not body:
        return []
    return [ast.For(new_target, iterated, body, lower_block(scope, statement.orelse))]


def _never_entered(scope: Scope, statement: ast.For, iterated: ast.expr, target: ast.expr) -> list[ast.stmt]:
    """A constructor's loop over nothing: kept where its body can be told by name."""
    poisoned = dict(scope.poisoned)
    try:
        with scope.strictly():
            body = lower_block(scope, statement.body)
            return [ast.For(target, iterated, body, lower_block(scope, statement.orelse))] if body else []
    except Untranslatable as error:
        scope.poisoned = poisoned
        scope.drop(statement.iter, f"always empty; {error.reason}")
        scope.work.decided.update(choices(scope.function, statement.iter, statement.body))
        return []


def _while(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    assert isinstance(statement, ast.While)
    body = lower_block(scope, statement.body)
    return [ast.While(lower(scope, statement.test), body, lower_block(scope, statement.orelse))]


def _with(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    """The body inlined: ``no_grad`` cuts the gradient of what it binds, autocast is flagged, the rest says nothing."""
    assert isinstance(statement, ast.With)
    kinds = [context(scope, item.context_expr) for item in statement.items]
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


def _assert(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    assert isinstance(statement, ast.Assert)
    loops = ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp | ast.Lambda
    if not scope.host and any(isinstance(n, loops) for n in ast.walk(statement.test)):
        scope.drop(statement, "a loop inside an assertion finds no function of the file in GRAPH_MODE")
        return []
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
    body = lower_block(within, inner.body) or [ast.Pass()]
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
    ast.Assign: assign,
    ast.AnnAssign: annotated,
    ast.AugAssign: augmented,
    ast.Expr: expression,
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
