"""Statements that change a container of tensors in the graph, as ``append`` and rebinding.

GRAPH_MODE keeps the gradient of ``append``; it loses those of ``extend``, ``insert`` and ``pop``, and a list
comprehension may not change a list. Each form here leaves the container as Python's own would.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from ms_port.ir.tree import copy, names_stored, nid
from ms_port.ir.values import DictValue, FunctionValue, SequenceValue, holds_tensor
from ms_port.passes.functionalize.syntax import calls_in_order
from ms_port.passes.lowering.expressions import lower
from ms_port.passes.lowering.scope import Scope, Untranslatable

_CONTAINERS = frozenset("list dict set OrderedDict defaultdict collections.OrderedDict".split())
_CHANGES = frozenset("append extend insert reverse pop popitem remove clear sort update setdefault add discard".split())


def container_statement(scope: Scope, statement: ast.stmt) -> list[ast.stmt] | None:
    """The source statements that do the same with ``append``, or None where the statement is of no such form."""
    if (taken := _taken_before(scope, statement)) is not None:
        return taken
    match statement:
        case ast.Expr(value=ast.ListComp(elt=ast.Call() as call, generators=generators)):
            return _loop(scope, generators, ast.Expr(call))
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="extend"), args=[given]) as call):
            return _extended(scope, call, given) if _is_method(scope, call) else None
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=held, attr="add"), args=[item]) as call) if (
            _is_set_method(scope, call)
        ):
            # GRAPH_MODE has no set: the port's is a list without doubles
            append = ast.Call(ast.Attribute(held, "append", ast.Load()), [item], [])
            append.nid = nid(call)  # type: ignore[attr-defined]
            return [ast.If(ast.Compare(item, [ast.NotIn()], [held]), [ast.Expr(append)], [])]
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="update")) as call):
            return _updated(call) if _is_method(scope, call) else None
    return None


def _taken_before(scope: Scope, statement: ast.stmt) -> list[ast.stmt] | None:
    """``x = cat((x, skips.pop()))`` as ``skip = skips.pop()`` and the rest, where nothing else reads the list."""
    if not isinstance(statement, ast.Assign | ast.AugAssign | ast.Return | ast.Expr) or statement.value is None:
        return None
    found: list[ast.Call] = []
    for call, movable in calls_in_order(statement):
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name(), attr="pop")) if (
                call is not statement.value
                and movable
                and _is_method(scope, call)
                and any(map(holds_tensor, scope.values(call)))
            ):
                found.append(call)
    roots = [n.id for call in found for n in ast.walk(call.func) if isinstance(n, ast.Name)]
    reads = [n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and n.id in roots]
    if not found or len(reads) != len(found):
        return None
    made: list[ast.stmt] = []
    rest = copy(statement)
    names = {
        nid(call): _fresh(scope, f"{root.rstrip('s') or root}_last") for call, root in zip(found, roots, strict=True)
    }
    for call in found:
        assigned = ast.Assign([ast.Name(names[nid(call)], ast.Store())], copy(call))
        made.append(ast.copy_location(assigned, statement))
    return [*made, _Named(names).visit(rest)]


class _Named(ast.NodeTransformer):
    """Names in place of the calls that were made before."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if (name := self._names.get(nid(node))) is None:
            return self.generic_visit(node)
        read = ast.copy_location(ast.Name(name, ast.Load()), node)
        read.nid = nid(node)  # type: ignore[attr-defined]
        return read


def _fresh(scope: Scope, base: str) -> str:
    name, number = base, 2
    while name in scope.locals:
        name, number = f"{base}_{number}", number + 1
    scope.locals.add(name)
    return name


def _is_method(scope: Scope, call: ast.Call) -> bool:
    """Whether the call was one of Python's own containers' methods."""
    names = {f.callee.name for f in scope.calls(call) if isinstance(f.callee, FunctionValue)}
    return bool(names) and all(name.rpartition(".")[0] in _CONTAINERS for name in names)


def _is_set_method(scope: Scope, call: ast.Call) -> bool:
    return all(isinstance(f.callee, FunctionValue) and f.callee.name.startswith("set.") for f in scope.calls(call))


def rebinding(scope: Scope, statement: ast.stmt) -> list[ast.stmt] | None:
    """``insert``, ``reverse`` and ``pop`` of a list that only one name holds, as lowered assignments."""
    taker: ast.expr | None
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method), args=args)):
            taker = None
        case ast.Assign(
            targets=[taker],
            value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="pop" as method), args=args),
        ):
            pass
        case _:
            return None
    new = _new_list(scope, name, method, args)
    if new is None:
        return None
    if not _is_held_once(scope, name):
        raise Untranslatable(statement, f"`{name}` is changed in place and may have a second name")
    changed: list[ast.stmt] = [ast.Assign([ast.Name(name, ast.Store())], new)]
    if taker is not None:
        at = lower(scope, args[0]) if args else ast.Constant(-1)
        taken = ast.Subscript(ast.Name(name, ast.Load()), at, ast.Load())
        changed.insert(0, ast.Assign([lower(scope, taker)], taken))
    return changed


def deletion(scope: Scope, target: ast.expr) -> ast.stmt | None:
    """``del y[0]`` of a list that only one name holds, as a lowered assignment."""
    match target:
        case ast.Subscript(value=ast.Name(id=name), slice=at):
            new = _new_list(scope, name, "pop", [at])
            if new is None or not _is_held_once(scope, name):
                return None
            values = scope.values(target.value)
            if not values or getattr(values[0], "kind", "list") != "list" or isinstance(values[0], DictValue):
                return None
            return ast.Assign([ast.Name(name, ast.Store())], new)
    return None


def changes_tensors(scope: Scope, statement: ast.stmt) -> bool:
    """Whether a container that holds tensors, or takes one, is changed by the statement."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
            parts = [node.func.value, *node.args, *(k.value for k in node.keywords)]
            if any(holds_tensor(v) for part in parts for v in scope.values(part)):
                return True
    return False


def _new_list(scope: Scope, name: str, method: str, args: Sequence[ast.expr]) -> ast.expr | None:
    def part(lower_bound: ast.expr | None, upper: ast.expr | None, step: ast.expr | None = None) -> ast.expr:
        return ast.Subscript(ast.Name(name, ast.Load()), ast.Slice(lower_bound, upper, step), ast.Load())

    match method, args:
        case "insert", [ast.Constant(value=0), item]:
            return ast.BinOp(ast.List([lower(scope, item)], ast.Load()), ast.Add(), ast.Name(name, ast.Load()))
        case "insert", [ast.Constant(value=int(at)), item] if at > 0:
            front = ast.BinOp(part(None, ast.Constant(at)), ast.Add(), ast.List([lower(scope, item)], ast.Load()))
            return ast.BinOp(front, ast.Add(), part(ast.Constant(at), None))
        case "reverse", []:
            return part(None, None, ast.UnaryOp(ast.USub(), ast.Constant(1)))
        case "pop", [] | [ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1))]:
            return part(None, ast.UnaryOp(ast.USub(), ast.Constant(1)))
        case "pop", [ast.Constant(value=0)]:
            return part(ast.Constant(1), None)
    return None


def _is_held_once(scope: Scope, name: str) -> bool:
    """Whether every use of the name reads an item, iterates, passes or returns it, or calls a method of it."""
    if name in set(scope.parameters):
        return False
    harmless: set[int] = set()
    for statement in scope.function.body:
        for node in ast.walk(statement):
            match node:
                case ast.Attribute(value=ast.Name() as used) | ast.Subscript(value=ast.Name() as used):
                    harmless.add(id(used))
                case ast.For(iter=ast.Name() as used) | ast.comprehension(iter=ast.Name() as used):
                    harmless.add(id(used))
                case ast.Return(value=ast.Name() as used) | ast.Starred(value=ast.Name() as used):
                    harmless.add(id(used))
                case ast.Return(value=ast.Tuple(elts=parts)):
                    harmless |= {id(part) for part in parts}
                case ast.BinOp(left=left, op=ast.Add(), right=right):
                    harmless |= {id(left), id(right)}
                case ast.If(test=ast.Name() as used) | ast.While(test=ast.Name() as used):
                    harmless.add(id(used))
                case ast.Call(func=called, args=args) if not (
                    isinstance(called, ast.Attribute) and called.attr in _CHANGES
                ):
                    harmless |= {id(a) for a in args if isinstance(a, ast.Name)}
    uses = (n for s in scope.function.body for n in ast.walk(s) if isinstance(n, ast.Name) and n.id == name)
    return all(isinstance(n.ctx, ast.Store) or id(n) in harmless for n in uses)


def _loop(scope: Scope, generators: Sequence[ast.comprehension], body: ast.stmt) -> list[ast.stmt] | None:
    """The loop that a comprehension is; None where its targets have another use in the function."""
    targets = {name for g in generators for name in names_stored(g.target)}
    if targets & _bound_elsewhere(scope):
        return None
    for generator in reversed(generators):
        for test in reversed(generator.ifs):
            body = ast.If(test, [body], [])
        body = ast.For(generator.target, generator.iter, [body], [])
    return [body]


def _bound_elsewhere(scope: Scope) -> set[str]:
    """Names that a parameter or an assignment binds: a loop over them would change what is read later."""
    bound = set(scope.parameters)
    for statement in scope.function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
                bound |= set(names_stored(node))
    return bound


def _extended(scope: Scope, call: ast.Call, given: ast.expr) -> list[ast.stmt] | None:
    assert isinstance(call.func, ast.Attribute)
    container = call.func.value
    read = {ast.unparse(n) for n in ast.walk(given) if isinstance(n, ast.Name | ast.Attribute)}
    reads_itself = ast.unparse(container) in read

    def append(item: ast.expr) -> ast.stmt:
        method = ast.Attribute(container, "append", ast.Load())
        made = ast.Call(method, [item], [])
        made.nid = nid(call)  # type: ignore[attr-defined]  # it has the facts of `extend`: a method of a list
        return ast.Expr(made)

    match given:
        case ast.GeneratorExp(elt=elt, generators=generators):
            return _loop(scope, generators, append(elt))  # each item is made after the one before it was added
        case ast.ListComp(elt=elt, generators=generators) if not reads_itself:
            return _loop(scope, generators, append(elt))
        case ast.List(elts=elts) | ast.Tuple(elts=elts) if not reads_itself and not any(
            isinstance(e, ast.Starred) for e in elts
        ):
            return [append(e) for e in elts]
    made_before = isinstance(given, ast.Call) and all(isinstance(v, SequenceValue) for v in scope.values(given))
    if reads_itself and not made_before and not isinstance(given, ast.List | ast.Tuple | ast.ListComp):
        return None
    item = ast.Name("item", ast.Load())
    if "item" in _bound_elsewhere(scope):
        return None
    scope.locals.add("item")
    return [ast.For(ast.Name("item", ast.Store()), given, [append(item)], [])]


def _updated(call: ast.Call) -> list[ast.stmt] | None:
    """``d.update({"a": x}, b=y)`` as one item assignment for each key."""
    assert isinstance(call.func, ast.Attribute)
    pairs: list[tuple[ast.expr, ast.expr]] = []
    for given in call.args:
        if not isinstance(given, ast.Dict) or not all(isinstance(k, ast.Constant) for k in given.keys):
            return None
        pairs += [(k, v) for k, v in zip(given.keys, given.values, strict=True) if k is not None]
    for keyword in call.keywords:
        if keyword.arg is None:
            return None
        pairs.append((ast.Constant(keyword.arg), keyword.value))
    container = call.func.value
    return [ast.Assign([ast.Subscript(container, key, ast.Store())], value) for key, value in pairs]
