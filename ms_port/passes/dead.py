"""Dead code: locals that nothing reads, attributes that nothing reads."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from ms_port.ir.program import FunctionDef, Program
from ms_port.ir.tree import copy, is_self_attribute, names_read, names_stored
from ms_port.ir.values import DictValue, Literal, Value
from ms_port.passes.equal_arms import says_the_same
from ms_port.passes.rewrite import all_functions, map_functions
from ms_port.passes.write_only import filled_attribute, write_only, written

_PURE = frozenset(
    "range len int float bool str tuple list dict set zip enumerate max min sum abs round sorted isinstance getattr "
    "hasattr".split()
)
_PURE_METHODS = frozenset("copy endswith format get item items join keys lower startswith tolist upper values".split())


def drop_dead(program: Program) -> Program:
    """Remove assignments to locals and attributes that nothing reads, until nothing is left to remove."""
    before = None
    while (about := _about(program)) != before:
        program, before = map_functions(program, partial(_clean, about=about)), about
    return program


@dataclass(frozen=True, slots=True)
class _About:
    """What decides in the whole program whether a statement is dead."""

    attributes: frozenset[str]
    """Attributes of cells that must stay."""
    fields: frozenset[str]
    """Fields of configurations that something reads."""
    empty: frozenset[str]
    """Helpers that do nothing."""
    inert: frozenset[str]
    """Functions of constructors that only compute."""


def _about(program: Program) -> _About:
    return _About(
        _kept_attributes(program),
        _read_fields(program),
        frozenset(f.key for f in all_functions(program) if _does_nothing(f)),
        _inert(program),
    )


def _does_nothing(function: FunctionDef) -> bool:
    """Whether a helper has nothing left to do: one of a constructor may hand back what it was given."""
    kept = ast.Name | ast.Constant | None if function.during_init else None
    return function.name not in ("__init__", "construct") and all(
        isinstance(s, ast.Pass) or (isinstance(s, ast.Return) and (s.value is None or isinstance(s.value, kept or ())))
        for s in function.body
    )


def _kept_attributes(program: Program) -> frozenset[str]:
    """Attributes that are read somewhere, or that are children, parameters or buffers of the model."""
    read: set[str] = set()
    for function in all_functions(program):
        for statement in function.body:
            filled = {
                id(n.value)
                for n in ast.walk(statement)
                if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)
            }
            filled |= {
                id(taken[0])
                for s in ast.walk(statement)
                if function.during_init and isinstance(s, ast.stmt) and (taken := filled_attribute(s)) is not None
            }
            for node in ast.walk(statement):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and id(node) not in filled:
                    if getattr(node, "of_configs", None) is not None:
                        continue  # a field of the configuration, not of a cell
                    read.add(node.attr)
                elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
                    read |= {a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    children = {name for module in program.modules.values() for name, _ in module.children}
    tensors = {path.rpartition(".")[2] for path in program.parameters}
    return frozenset(read | children | tensors)


def _read_fields(program: Program) -> frozenset[str]:
    """Fields of configuration objects that some function reads."""
    return frozenset(
        node.attr
        for function in all_functions(program)
        for statement in function.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and hasattr(node, "of_configs")
    )


def _clean(function: FunctionDef, about: _About) -> FunctionDef:
    body = [copy(s) for s in function.body]
    never_given = frozenset(n for n, seen in function.facts.parameters.items() if seen and all(map(_is_nothing, seen)))
    while True:
        cleaning = _Cleaning(function.during_init, about, body, never_given)
        body, _ = cleaning.block(body, set())
        if not cleaning.changed:
            return replace(function, body=tuple(body))


def _is_nothing(value: Value) -> bool:
    """None, or settings without an entry."""
    return value in (Literal(None), DictValue(())) or (isinstance(value, Literal) and value.value == {})


class _Cleaning:
    """One pass over a function, from its end to its start, with the names that what comes later reads."""

    def __init__(
        self, host: bool, about: _About, body: Sequence[ast.stmt], never_given: frozenset[str] = frozenset()
    ) -> None:
        self._host, self._about = host, about
        self._everything = names_read(list(body))
        self._late = _read_by_inner_functions(body)
        self._write_only = write_only(body, self._can_go, never_given)
        self._numbers = _numbers(body)
        self.changed = False

    def block(self, statements: Sequence[ast.stmt], live: set[str]) -> tuple[list[ast.stmt], set[str]]:
        """What is left of the statements, and the names that are read before they are bound again."""
        kept: list[ast.stmt] = []
        for statement in reversed(_up_to_the_end(statements)):
            if self._is_dead(statement, live | self._late) or _calls_nothing(statement, self._about.empty):
                self.changed = True
                continue
            if isinstance(statement, ast.If) and self._can_go(statement.test) and says_the_same(statement, kept):
                self.changed = True
                left, live = self.block(statement.body, live) if statement.orelse else ([], live)
                kept[:0] = left
                continue
            left, live = self._statement(statement, live)
            kept[:0] = left
        return kept, live

    def _statement(self, statement: ast.stmt, live: set[str]) -> tuple[list[ast.stmt], set[str]]:
        read = names_read([statement])
        match statement:
            case ast.If():
                return self._if(statement, live)
            case ast.For() | ast.While():
                statement.body, _ = self.block(statement.body, live | read)
                statement.orelse, _ = self.block(statement.orelse, live)
                if all(isinstance(s, ast.Pass) for s in [*statement.body, *statement.orelse]):
                    bound = names_stored(statement.target) if isinstance(statement, ast.For) else set()
                    if not bound & (live | self._late):
                        self.changed = True
                        return [], live
                statement.body = statement.body or [ast.Pass()]
                return [statement], live | read
            case ast.Return() | ast.Raise():
                return [statement], read
            case ast.Continue() | ast.Break():
                return [statement], set(self._everything)
            case ast.Assign(targets=targets) if all(isinstance(t, ast.Name | ast.Tuple) for t in targets):
                return [statement], (live - {n for t in targets for n in _names_bound(t)}) | read
            case ast.AugAssign(target=target):
                return [statement], live | read | names_stored(target)
        return [statement], live | read

    def _if(self, statement: ast.If, live: set[str]) -> tuple[list[ast.stmt], set[str]]:
        before = self.changed
        self.changed = False
        body, in_body = self.block(statement.body, live)
        one, self.changed = self.changed, False
        orelse, in_orelse = self.block(statement.orelse, live)
        two, self.changed = self.changed, before or one or self.changed
        if self._host:
            body = [] if one and _only_checks(body) else body
            orelse = [] if two and _only_checks(orelse) else orelse
        if isinstance(statement.test, ast.Constant):
            self.changed = True
            return (body, in_body) if statement.test.value else (orelse, in_orelse)
        if not body and not orelse:
            self.changed = True
            return [], live
        statement.body, statement.orelse = body, orelse
        if not body:
            from ms_port.passes.prune import negate

            statement.test, statement.body, statement.orelse = negate(statement.test), orelse, []
        return [statement], in_body | in_orelse | names_read([ast.Expr(statement.test)])

    def _can_go(self, value: ast.expr) -> bool:
        """Whether nothing is lost with an expression whose value is not used."""
        return _is_pure(value, self._about.inert) if self._host else not _calls_cell(value)

    def _is_dead(self, statement: ast.stmt, live: set[str]) -> bool:
        if isinstance(statement, ast.Assert):
            return _is_true(statement.test)
        if (put := written(statement)) is not None:
            return put[0] in self._write_only
        if self._host and (taken := filled_attribute(statement)) is not None:
            return taken[0].attr not in self._about.attributes and all(map(self._can_go, taken[1]))
        if isinstance(statement, ast.Assign):
            targets = statement.targets
            if isinstance(statement.value, ast.Name) and ast.unparse(targets[0]) == statement.value.id:
                return len(targets) == 1  # `x = x`
        elif isinstance(statement, ast.AnnAssign | ast.AugAssign):
            targets = [statement.target]
            never_ran = getattr(statement, "never_ran", False)
            if self._host and isinstance(statement, ast.AugAssign) and not self._is_count(statement) and not never_ran:
                return False  # `dims += [4]` changes the list, which may have another name
        else:
            return False
        value = statement.value
        if (
            value is not None
            and not self._can_go(value)
            and not (self._host and getattr(statement, "never_ran", False))
        ):
            return False
        parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
        return all(self._is_unread(part, live) for part in parts)

    def _is_count(self, statement: ast.AugAssign) -> bool:
        """Whether ``x += value`` binds a name and changes nothing else; an attribute that nothing reads counts too."""
        target = statement.target
        return not isinstance(target, ast.Name) or target.id in self._numbers or _is_number(statement.value)

    def _is_unread(self, target: ast.expr, live: set[str]) -> bool:
        match target:
            case ast.Name(id=name):
                return name not in live
            case ast.Attribute(attr=name) if getattr(target, "into_config", False):
                return self._host and name not in self._about.fields
            case ast.Subscript(value=ast.Attribute(attr=name) as holder) if is_self_attribute(holder):
                return self._host and name not in self._about.attributes
            case ast.Attribute(attr=name) if is_self_attribute(target):
                return name not in self._about.attributes
        return False


def _is_true(test: ast.expr) -> bool:
    """Whether a condition holds whatever its names hold: ``None in (None, "mean")``, what a decided option left."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) and any(map(_is_true, test.values)):
        return True
    match test:
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Constant(value=value), kinds]):
            return type(value).__name__ in {n.id for n in ast.walk(kinds) if isinstance(n, ast.Name)}
    if not all(isinstance(n, _PLAIN) for n in ast.walk(test)):
        return False
    try:
        return bool(eval(compile(ast.fix_missing_locations(ast.Expression(copy(test))), "<assert>", "eval"), {}))
    except TypeError:  # a comparison of things that have no order
        return False


_PLAIN = (
    ast.Constant,
    ast.Tuple,
    ast.List,
    ast.Set,
    ast.Compare,
    ast.BoolOp,
    ast.UnaryOp,
    ast.expr_context,
    ast.cmpop,
    ast.boolop,
    ast.unaryop,
)


def _up_to_the_end(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements up to the first after which none runs."""
    ends = (i for i, s in enumerate(statements) if isinstance(s, ast.Return | ast.Raise | ast.Continue | ast.Break))
    return list(statements[: next(ends, len(statements)) + 1])


def _names_bound(target: ast.expr) -> set[str]:
    """Names that an assignment to the target binds anew."""
    if isinstance(target, ast.Tuple):
        return {n for item in target.elts for n in _names_bound(item)}
    return {target.id} if isinstance(target, ast.Name) else set()


def _read_by_inner_functions(body: Sequence[ast.stmt]) -> set[str]:
    """Names that functions and lambdas inside read: they see the value at the time of their call."""
    inner = (n for s in body for n in ast.walk(s) if isinstance(n, ast.FunctionDef | ast.Lambda))
    return {
        n.id
        for function in inner
        for n in ast.walk(function)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    }


def _numbers(body: Sequence[ast.stmt]) -> set[str]:
    """Locals that hold what can't be changed in place: each ``x = ...`` gives a literal."""
    stores, plain = Counter[str](), Counter[str]()
    for node in (n for s in body for n in ast.walk(s)):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_number(value):
                plain[name] += 1
            case ast.AugAssign(target=ast.Name(id=name)):
                plain[name] += 1
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stores[node.id] += 1
    return {name for name, count in stores.items() if plain[name] == count}


def _is_number(value: ast.expr) -> bool:
    if isinstance(value, ast.UnaryOp):
        return _is_number(value.operand)
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in ("len", "int", "float", "bool", "str")
    return isinstance(value, ast.Constant | ast.JoinedStr)


def _only_checks(statements: Sequence[ast.stmt]) -> bool:
    """What is left of an arm that never ran once what it made is gone: checks of options that go with it."""
    return all(
        getattr(s, "never_ran", False)
        and (isinstance(s, ast.Raise | ast.Assert) or (isinstance(s, ast.If) and _only_checks([*s.body, *s.orelse])))
        for s in statements
    )


def _calls_nothing(statement: ast.stmt, empty: frozenset[str]) -> bool:
    """A statement that only calls a helper which does nothing."""
    callees = getattr(statement.value, "callees", ()) if isinstance(statement, ast.Expr) else ()
    return bool(callees) and all(key in empty for key in callees)


def _calls_cell(value: ast.expr) -> bool:
    """Whether a child of the cell is called: ``self.bn(x)``, ``layer(x)`` of a loop is not told apart and stays."""
    return any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and ast.unparse(n.func).startswith("self.")
        for n in ast.walk(value)
    )


def _is_pure(value: ast.AST, inert: frozenset[str]) -> bool:
    """Whether leaving the expression out of a constructor changes nothing: it makes no layer and draws nothing."""
    if isinstance(value, ast.Lambda) or (isinstance(value, ast.Call) and ast.unparse(value.func) == "partial"):
        return True  # what it would do when it is called
    return all(_is_pure_call(node, inert) for node in ast.walk(value) if isinstance(node, ast.Call))


def _is_pure_call(call: ast.Call, inert: frozenset[str]) -> bool:
    callees = getattr(call, "callees", ())
    if callees:
        return all(key in inert for key in callees)
    root = ast.unparse(call.func)
    return (
        root in _PURE
        or root.startswith(("np.", "math."))
        or root.endswith("Error")
        or root.rpartition(".")[2] in _PURE_METHODS
    )


def _inert(program: Program) -> frozenset[str]:
    """Functions of constructors that only compute: they make, change and draw nothing."""
    functions = {
        f.key: f
        for f in all_functions(program)
        if f.during_init and (f.name != "__init__" or all(isinstance(s, ast.Pass) for s in f.body))
    }
    found = frozenset(functions)
    while True:
        left = frozenset(key for key in found if _only_computes(functions[key], found))
        if left == found:
            return found
        found = left


def _only_computes(function: FunctionDef, inert: frozenset[str]) -> bool:
    given = {a.arg for a in [*function.node.args.args, *function.node.args.kwonlyargs]}
    made = {
        n.targets[0].id
        for s in function.body
        for n in ast.walk(s)
        if isinstance(n, ast.Assign)
        and isinstance(n.targets[0], ast.Name)
        and isinstance(n.value, ast.List | ast.ListComp)
    }
    own = {n.name for s in function.body for n in ast.walk(s) if isinstance(n, ast.FunctionDef)}
    for node in (n for s in function.body for n in ast.walk(s)):
        match node:
            case ast.Subscript(ctx=ast.Store(), value=ast.Name(id=name)) if name in made and name not in given:
                continue
            case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()) | ast.Global() | ast.Delete():
                return False
            case ast.AugAssign(target=ast.Name(id=name)) if name in given:
                return False
            case ast.Name(id="nn" | "ops" | "Parameter" | "Tensor" | "initializer"):
                return False
            case ast.Call(func=ast.Name(id=name)) if name in own:
                continue
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "extend")) if name not in given:
                continue
            case ast.Call() if not _is_pure_call(node, inert):
                return False
    return True
