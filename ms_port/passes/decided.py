"""Decided: options whose other side the port lacks.

Where a condition on an option (a flag, a word, None) was decided because its other side never ran and could not be
kept, the option must not stay: whoever set it would be ignored. Its other reads become the value that was seen, and
with nothing left that reads it the parameter or field goes. Numbers stay: they are sizes first of all.
"""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ms_port.ir.program import Choice, FunctionDef, Program
from ms_port.ir.tree import copy, literal, names_stored, nid
from ms_port.ir.values import DictValue, Literal, ObjectValue, SequenceValue, Value
from ms_port.passes.rewrite import all_functions, map_functions, parameters


def choices(function: FunctionDef, test: ast.expr, lost: Sequence[ast.stmt] = ()) -> Iterator[Choice]:
    """The options that a condition of a function reads; none where what was ``lost`` only raises or warns."""
    if lost and all(isinstance(s, ast.Raise | ast.Expr | ast.Pass | ast.Assert) for s in lost):
        return
    parameters = {a.arg for a in [*function.node.args.args, *function.node.args.kwonlyargs]}
    for node in ast.walk(test):
        value = _option(function.facts.values.get(nid(node), ()))
        if value is None:
            continue
        if isinstance(node, ast.Name) and node.id in parameters:
            yield Choice("parameter", function.key, node.id, value)
        elif isinstance(node, ast.Attribute):
            base = function.facts.values.get(nid(node.value), ())
            if base and isinstance(base[0], ObjectValue) and base[0].kind == "config":
                yield Choice("field", base[0].cls, node.attr, value)
            elif isinstance(node.value, ast.Name) and node.value.id == "self" and function.owner:
                yield Choice("attribute", function.owner, node.attr, value)


def _option(values: tuple[Value, ...]) -> Literal | None:
    """The value, where it is always the same flag, word or None."""
    first = values[0] if values else None
    if not isinstance(first, Literal) or not (first.value is None or isinstance(first.value, bool | str)):
        return None
    return first if all(v == first for v in values) else None


def settle(program: Program) -> Program:
    """The program without the options that were decided."""
    wanted = {(c.kind, c.owner, c.name): c.value for c in program.decided}
    varied = {(c.kind, c.owner, c.name) for c in program.decided if wanted[c.kind, c.owner, c.name] != c.value}
    wanted = {k: v for k, v in wanted.items() if k not in varied and not _varies(program, k, v)}
    if not wanted:
        return program
    functions = {f.key: f for f in all_functions(program)}
    known = 0
    while known < len(wanted):
        known = len(wanted)
        for function in functions.values():
            if function.during_init:
                found = [*_behind_attributes(function, wanted), *_behind_calls(function, wanted, functions)]
                wanted |= {k: v for k, v in found if k not in wanted and not _varies(program, k, v)}
    read = frozenset(_read_attributes(program))
    return map_functions(program, lambda f: _settled(f, wanted, read))


def _read_attributes(program: Program) -> Iterator[str]:
    """Attributes that are read as values, not called; and names given to ``getattr``."""
    for function in all_functions(program):
        for statement in function.body:
            called = {id(n.func) for n in ast.walk(statement) if isinstance(n, ast.Call)}
            for node in ast.walk(statement):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and id(node) not in called:
                    if getattr(node, "of_configs", None) is None:
                        yield node.attr
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


def _behind_attributes(
    function: FunctionDef, wanted: dict[tuple[str, str, str], Literal]
) -> Iterator[tuple[tuple[str, str, str], Literal]]:
    """The parameter or field from which a decided attribute is set."""
    for name, value in (pair for statement in function.body for pair in _attribute_stores(statement)):
        decided = wanted.get(("attribute", function.owner or "", name))
        if decided is None:
            continue
        if isinstance(value, ast.Name):
            yield ("parameter", function.key, value.id), decided
        elif isinstance(value, ast.Attribute):
            yield from ((("field", cls, value.attr), decided) for cls in getattr(value, "of_configs", ()))


def _behind_calls(
    function: FunctionDef, wanted: dict[tuple[str, str, str], Literal], functions: Mapping[str, FunctionDef]
) -> Iterator[tuple[tuple[str, str, str], Literal]]:
    """The function's own parameters, and fields, that it hands on as a decided parameter of another function."""
    own = {a.arg for a in [*function.node.args.args, *function.node.args.kwonlyargs]}
    own -= {n for s in function.body for n in names_stored(s)}
    for node in (n for statement in function.body for n in ast.walk(statement) if isinstance(n, ast.Call)):
        called = [functions[key] for key in getattr(node, "callees", ()) if key in functions]
        bound = [{n for s in f.body for n in names_stored(s)} for f in called]
        for value, names in _handed_on(node, called):
            given = zip(called, names, bound, strict=True)
            decided = {
                wanted.get(("parameter", f.key, name)) if name not in again else None for f, name, again in given
            }
            literal_value = decided.pop() if len(decided) == 1 else None
            if literal_value is None:
                continue
            if isinstance(value, ast.Name) and value.id in own:
                yield ("parameter", function.key, value.id), literal_value
            elif isinstance(value, ast.Attribute):
                yield from ((("field", cls, value.attr), literal_value) for cls in getattr(value, "of_configs", ()))


def _handed_on(node: ast.Call, called: Sequence[FunctionDef]) -> Iterator[tuple[ast.expr, list[str]]]:
    """Each argument of a call, with the name that it has in each function that the call reaches."""
    if not called or any(isinstance(a, ast.Starred) for a in node.args):
        return
    positional = [parameters(f) for f in called]
    for i, argument in enumerate(node.args):
        if all(i < len(names) for names in positional):
            yield argument, [names[i] for names in positional]
    for keyword in node.keywords:
        if keyword.arg is not None:
            yield keyword.value, [keyword.arg for _ in called]


def _attribute_stores(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """``self.name = value``, also several in one statement."""
    for target in statement.targets if isinstance(statement, ast.Assign) else ():
        assert isinstance(statement, ast.Assign)
        value = statement.value
        both = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts)
        pairs = zip(target.elts, value.elts, strict=True) if both else [(target, value)]  # type: ignore[attr-defined]
        for part, given in pairs:
            if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
                yield part.attr, given


def _varies(program: Program, key: tuple[str, str, str], value: Literal) -> bool:
    """Whether some instance has another value, or the value comes from a tensor's place."""
    kind, owner, name = key
    if kind == "parameter":
        function = next((f for f in all_functions(program) if f.key == owner), None)
        return function is None or any(v != value for v in function.facts.parameters.get(name, ()))
    if kind == "field":
        return any(dict(o.fields).get(name, value) != value for o in config_objects(program) if o.cls == owner)
    return any(
        dict(m.attributes).get(name, value) != value for m in program.modules.values() if _is_a(program, m.cls, owner)
    )


def config_objects(program: Program) -> Iterator[ObjectValue]:
    """Every configuration object that a module or a function was given, also inside lists and other objects."""
    given = [v for m in program.modules.values() for _, v in m.arguments]
    given += [v for f in all_functions(program) for values in f.facts.parameters.values() for v in values]
    given += [v for _, v in program.factory_arguments]
    seen: set[int] = set()
    while given:
        value = given.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        match value:
            case ObjectValue(fields=fields):
                yield value
                given += [item for _, item in fields]
            case SequenceValue(items=items):
                given += items
            case DictValue(items=pairs):
                given += [item for _, item in pairs]


def _is_a(program: Program, cls: str, base: str) -> bool:
    cell = program.cells.get(cls)
    return cls == base or (cell is not None and any(_is_a(program, b, base) for b in cell.bases))


def _settled(function: FunctionDef, wanted: dict[tuple[str, str, str], Literal], read: frozenset[str]) -> FunctionDef:
    if not function.during_init:
        return function
    stored = Counter(
        n.id for s in function.body for n in ast.walk(s) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)
    )
    change = _Settle(function, wanted, stored)
    body = [copy(s) for s in function.body if not _is_unread_option(s, function.owner or "", wanted, read)]
    change.changed = len(body) < len(function.body)
    made = [s for statement in body for s in change.statement(statement)]
    return replace(function, body=tuple(made)) if change.changed else function


def _is_unread_option(
    statement: ast.stmt, owner: str, wanted: dict[tuple[str, str, str], Literal], read: frozenset[str]
) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
            return isinstance(value, ast.Name) and ("attribute", owner, name) in wanted and name not in read
    return False


class _Settle(ast.NodeTransformer):
    """Replaces the reads of decided options, and decides what becomes constant by it."""

    def __init__(
        self, function: FunctionDef, wanted: dict[tuple[str, str, str], Literal], stored: Counter[str]
    ) -> None:
        self._key, self._wanted, self._stored = function.key, wanted, stored
        self._parameters = set(parameters(function))
        self._depth = 0
        self._locals: dict[str, object] = {}
        """Names that are bound once, to what became constant."""
        self.changed = False

    def statement(self, statement: ast.stmt) -> list[ast.stmt]:
        before, self.changed = self.changed, False
        made = self.visit(statement)
        touched, self.changed = self.changed, self.changed or before
        if isinstance(made, ast.Assert) and touched and _constant(made.test) == (True,):
            return []
        match made:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if touched and self._is_bound_here(name):
                if (known := _constant(value)) is not None and type(known[0]) is bool:
                    self._locals[name] = known[0]
                    return []
        return made if isinstance(made, list) else [made]

    def _is_bound_here(self, name: str) -> bool:
        """Whether a statement of the function's own block binds the name, no other does, and it is no parameter."""
        return self._depth == 0 and self._stored[name] == 1 and name not in self._parameters

    def _replaced(self, node: ast.expr, kind: str, owners: Sequence[str], name: str) -> ast.expr:
        values = [self._wanted.get((kind, owner, name)) for owner in owners]
        value = values[0]
        if value is None or any(v != value for v in values):
            return node
        self.changed = True
        return literal(value.value)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if isinstance(node.ctx, ast.Load) and node.id in self._locals:
            self.changed = True
            return literal(self._locals[node.id])
        if not isinstance(node.ctx, ast.Load) or node.id in self._stored:
            return node
        return self._replaced(node, "parameter", [self._key], node.id)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if (owners := getattr(node, "of_configs", ())) and isinstance(node.ctx, ast.Load):
            made = self._replaced(node, "field", owners, node.attr)
            if made is not node:
                return made
        return self.generic_visit(node)

    def _decided(self, node: ast.AST) -> tuple[bool, ast.AST]:
        """Visit; whether something in it was replaced."""
        before, self.changed = self.changed, False
        made = self.generic_visit(node)
        touched, self.changed = self.changed, self.changed or before
        return touched, made

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        touched, _ = self._decided(node)
        if not touched:
            return node
        ends = isinstance(node.op, ast.Or)
        kept: list[ast.expr] = []
        for value in node.values:
            known = _constant(value)
            if known is not None and bool(known[0]) is not ends and value is not node.values[-1]:
                continue
            kept.append(value)
            if known is not None and bool(known[0]) is ends:
                break
        if len(kept) > 1 and (last := _constant(kept[-1])) is not None and bool(last[0]) is not ends:
            kept.pop()
        return kept[0] if len(kept) == 1 else ast.BoolOp(node.op, kept)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        return self._folded(node) if isinstance(node.op, ast.Not) else self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        return self._folded(node)

    def _folded(self, node: ast.expr) -> ast.AST:
        touched, _ = self._decided(node)
        known = _constant(node) if touched else None
        return node if known is None else literal(known[0])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """``"BatchNorm-2d".lower()``: words of a decided option are known to their end."""
        touched, _ = self._decided(node)
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr=name), args=args, keywords=[]):
                plain = all(isinstance(a, ast.Constant) for a in args)
                if touched and plain and name in ("lower", "upper", "replace", "strip", "split"):
                    return literal(getattr(text, name)(*(ast.literal_eval(a) for a in args)))
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return self._folded(node) if isinstance(node.ctx, ast.Load) else self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        touched, _ = self._decided(node)
        known = _constant(node.test) if touched else None
        return node if known is None else node.body if known[0] else node.orelse

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        before = ast.dump(node.test)
        node.test = self.visit(node.test)
        known = _constant(node.test) if ast.dump(node.test) != before else None
        self._depth += 1
        body = [s for x in node.body for s in self.statement(x)]
        orelse = [s for x in node.orelse for s in self.statement(x)]
        self._depth -= 1
        if known is not None:
            return body if known[0] else orelse
        if not body:
            return [ast.copy_location(ast.If(ast.UnaryOp(ast.Not(), node.test), orelse, []), node)] if orelse else []
        node.body, node.orelse = body, orelse
        return node


def _constant(node: ast.expr) -> tuple[object] | None:
    """The value of an expression of literals alone."""
    if any(isinstance(n, ast.Name | ast.Call | ast.Attribute | ast.Lambda | ast.JoinedStr) for n in ast.walk(node)):
        return None
    try:
        with warnings.catch_warnings(action="ignore", category=SyntaxWarning):  # `"sdpa" is not None`
            code = compile(ast.fix_missing_locations(ast.Expression(copy(node))), "<literal>", "eval")
        return (eval(code, {"__builtins__": {}}),)
    except Exception:
        return None
