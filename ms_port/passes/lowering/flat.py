"""Flat functions: where source is missing or refused, the traced torch calls stand for one call."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from ms_port.ir.program import EMPTY_FACTS, CallFact, FunctionDef, LedgerEntry
from ms_port.ir.tree import copy, expression, is_place, literal
from ms_port.ir.values import (
    DictValue,
    DType,
    Literal,
    ModuleValue,
    ObjectValue,
    SequenceValue,
    TensorValue,
    Value,
    holds_tensor,
)
from ms_port.opmap import Argument, Call, NoLowering
from ms_port.passes.lowering.held import parameter_path
from ms_port.passes.lowering.layer_settings import without_height
from ms_port.passes.lowering.scope import Scope, Untranslatable, dtype_expression

_BINARY = {
    "add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "truediv": ast.Div, "div": ast.Div, "floordiv": ast.FloorDiv,
    "mod": ast.Mod, "pow": ast.Pow, "matmul": ast.MatMult, "and": ast.BitAnd, "or": ast.BitOr, "xor": ast.BitXor,
}  # fmt: skip
_COMPARE = {"eq": ast.Eq, "ne": ast.NotEq, "lt": ast.Lt, "le": ast.LtE, "gt": ast.Gt, "ge": ast.GtE}
_UNARY = {"neg": ast.USub, "invert": ast.Invert, "pos": ast.UAdd}


def flat_call(scope: Scope, node: ast.Call, facts: Sequence[CallFact], error: Untranslatable) -> ast.expr:
    """A call of a function made of the torch calls that ran for it. Raises where that can't be done either."""
    if (single := _single_call(scope, node, facts)) is not None:
        return single
    if (name := _sets_state(scope, facts)) is not None:
        raise Untranslatable(node, f"{error.reason}; `self.{name}`, which the graph reads, is set inside")
    evaluated = [f for f in facts if f.mode == "eval"] or list(facts)
    made, text = _flat_function(scope, node, evaluated, error, _short(node))
    name = ast.unparse(made.func)
    for fact in facts:
        scope.work.claimed |= set(fact.torch_calls)
    scope.flag(
        node,
        "MSP103",
        f"the source of this call could not be kept ({error.reason}): its traced calls stand in `{name}`",
        "It holds for the traced sizes and mode; rewrite it by hand if that is not enough.",
    )
    trained = [f for f in facts if f.mode == "train"] if "self" in scope.facts.parameters else []
    try:
        other = _flat_function(scope, node, trained, error, f"{_short(node)}_training", text) if trained else None
    except Untranslatable:
        return made
    return made if other is None or other[1] == text else ast.IfExp(expression("self.training"), other[0], made)


def _flat_function(
    scope: Scope, node: ast.Call, facts: Sequence[CallFact], error: Untranslatable, base: str, known: str | None = None
) -> tuple[ast.Call, str]:
    """The call of the flat function that these calls are alike, and its text; none is made where that is ``known``."""
    bodies = [_Flat(scope, node, fact) for fact in facts]
    try:
        texts = {body.text() for body in bodies}
    except Untranslatable as second:
        raise Untranslatable(node, f"{error.reason}; flat: {second.reason}") from error
    if len(texts) != 1:
        raise Untranslatable(node, f"{error.reason}; flat: its calls differ between instances")
    if len({tuple(map(ast.unparse, body.inputs.values())) for body in bodies}) != 1:  # a loop over cells, say
        raise Untranslatable(node, f"{error.reason}; flat: its tensors differ between the times it ran")
    first, text = bodies[0], texts.pop()
    name = _unique(scope, f"{base}_flat", text)
    if text != known:
        scope.work.generated.setdefault(f"flat:{name}", first.function(name, f"flat:{name}", scope))
    return ast.Call(ast.Name(name, ast.Load()), [first.inputs[p] for p in first.inputs], []), text


def _single_call(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr | None:
    """A layer that is no part of the model, such as an activation of a library's registry, as the one call it makes."""
    if not all(isinstance(f.callee, ModuleValue) and f.callee.path is None for f in facts):
        return None
    try:
        bodies = [_Flat(scope, node, fact) for fact in facts]
        if len({body.text() for body in bodies}) != 1:
            return None
    except Untranslatable:
        return None
    match bodies[0].body():
        case [ast.Assign(value=made), ast.Return(value=ast.Name(id="t0"))] if _reads_once(made, bodies[0].inputs):
            scope.work.claimed |= {index for f in facts for index in f.torch_calls}
            return cast(ast.expr, _Filled(bodies[0].inputs).visit(copy(made)))
    return None


def _reads_once(made: ast.expr, inputs: Mapping[str, ast.expr]) -> bool:
    """Whether no argument that is more than a name would be computed twice, with its draws and statistics."""
    names = [n.id for n in ast.walk(made) if isinstance(n, ast.Name)]
    return all(names.count(name) < 2 or is_place(given) for name, given in inputs.items())


class _Filled(ast.NodeTransformer):
    """Arguments in place of the names of a flat function's parameters."""

    def __init__(self, given: Mapping[str, ast.expr]) -> None:
        self._given = given

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy(self._given[node.id]) if node.id in self._given else node


def _sets_state(scope: Scope, facts: Sequence[CallFact]) -> str | None:
    """An attribute of a cell that a method called here sets and that graph code reads: a flat function sets none."""
    for key in sorted({f.entered for f in facts if f.entered}):
        function = scope.work.all_functions.get(key)
        for statement in function.body if function is not None else ():
            for n in ast.walk(statement):
                if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) and n.attr in scope.work.graph_reads:
                    return n.attr
    return None


def _short(node: ast.Call) -> str:
    func = node.func
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else "call"


def _unique(scope: Scope, base: str, text: str) -> str:
    name, number = base, 2
    while (known := scope.work.generated.get(f"flat:{name}")) is not None:
        if "\n".join(ast.unparse(s) for s in known.body) == text:
            return name
        name, number = f"{base}_{number}", number + 1
    return name


class _Flat:
    """The body of one flat function, from the ledger entries of one call."""

    def __init__(self, scope: Scope, node: ast.Call, fact: CallFact) -> None:
        self._scope, self._node, self._fact = scope, node, fact
        self.inputs: dict[str, ast.expr] = {}
        self._names: dict[int, ast.expr] = {}
        self._outside: dict[int, tuple[str, ast.expr]] = {}
        self._body: list[ast.stmt] | None = None
        self._collect_inputs()

    def _collect_inputs(self) -> None:
        from ms_port.passes.lowering.expressions import lower

        for index, (arg, value) in enumerate(zip(self._node.args, self._fact.args, strict=False)):
            if not isinstance(arg, ast.Starred):
                self._offer(f"a{index}", arg, value, lower)
        named = {k.arg: k.value for k in self._node.keywords if k.arg}
        for name, value in self._fact.kwargs:
            if name in named:
                self._offer(name, named[name], value, lower)
        entries = [self._scope.work.program.ledger[i] for i in self._fact.torch_calls]
        made = {tensor.key for entry in entries for _, tensor in _tensors(entry.result)} - self._outside.keys()
        made |= {tensor.key for _, tensor in _tensors(self._fact.result)} - self._outside.keys()
        seen: dict[str, ast.Name] = {}
        for statement in self._scope.function.body:
            for n in ast.walk(statement):
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in self._scope.locals:
                    for value in self._scope.values(n):
                        if isinstance(value, TensorValue) and value.key not in self._outside.keys() | made:
                            self._outside[value.key] = (n.id, seen.setdefault(n.id, ast.Name(n.id, ast.Load())))

    def _offer(self, name: str, node: ast.expr, value: Value, lower: object) -> None:
        assert callable(lower)
        try:
            expression = lower(self._scope, node)
        except Untranslatable:
            return
        for path, tensor in _tensors(value):
            made = expression
            for step in path:
                made = ast.Subscript(made, literal(step), ast.Load())
            label = "_".join([name, *map(str, path)])
            self._outside.setdefault(tensor.key, (label, made))

    def text(self) -> str:
        """The body's source."""
        return "\n".join(ast.unparse(s) for s in self.body())

    def body(self) -> list[ast.stmt]:
        """Statements, one a torch call that the result needs. Raises Untranslatable."""
        if self._body is None:
            entries = [self._scope.work.program.ledger[i] for i in self._fact.torch_calls]
            needed = _needed(entries, self._fact.result)
            lines: list[ast.stmt] = []
            if any(e.writes for e in entries):
                raise Untranslatable(self._node, "it writes a tensor in place")
            for number, entry in enumerate(e for e in entries if e.index in needed):
                made = self._lower(entry)
                name = f"t{number}"
                lines.append(ast.Assign([ast.Name(name, ast.Store())], made, lineno=0))
                self._bind(entry.result, ast.Name(name, ast.Load()))
            lines.append(ast.Return(self._expression(self._fact.result)))
            self._body = lines
        return self._body

    def function(self, name: str, key: str, scope: Scope) -> FunctionDef:
        """The function of the program."""
        arguments = ast.arguments([], [ast.arg(p) for p in self.inputs], None, [], [], None, [])
        node = ast.FunctionDef(name, arguments, [], [], None, lineno=self._node.lineno)
        place = scope.loc(self._node)
        doc = f"Traced calls of {ast.unparse(self._node.func)} ({Path(place.file).name}:{place.line})."
        return FunctionDef(key, name, node, tuple(self.body()), EMPTY_FACTS, scope.loc(self._node), docstring=doc)

    def _bind(self, value: Value, expression: ast.expr) -> None:
        for path, tensor in _tensors(value):
            made = expression
            for step in path:
                made = ast.Subscript(made, literal(step), ast.Load())
            self._names[tensor.key] = made

    def _lower(self, entry: LedgerEntry) -> ast.expr:
        short = entry.api.rpartition(".")[2].strip("_")
        args = [self._expression(a) for a in entry.args if not _is_device(a)]
        if entry.api == "torch.Tensor.__getitem__":
            return ast.Subscript(args[0], args[1], ast.Load())
        if entry.api.startswith("torch.Tensor.__"):
            operator = _operator(short, args)
            if operator is not None:
                return operator
        values = [a for a in entry.args if not _is_device(a)]
        arguments = tuple(Argument(e, (v,)) for e, v in zip(args, values, strict=True))
        keywords = tuple((k, Argument(self._expression(v), (v,))) for k, v in entry.kwargs if not _is_device(v))
        api = entry.api
        if api.endswith("_") and not api.endswith("__"):
            api = api[:-1]
        receiver = arguments[0] if api.startswith("torch.Tensor.") else None
        call = Call(api, arguments[1:] if receiver else arguments, keywords, receiver)
        try:
            lowering = self._scope.work.opmap.lower(call)
        except NoLowering as error:
            operator = _operator(short, args)
            if operator is not None:
                return operator
            raise Untranslatable(self._node, str(error)) from error
        if lowering.random is not None:
            raise Untranslatable(self._node, f"{entry.api} draws random numbers")
        for note in lowering.notes:
            self._scope.flag(self._node, note.rule, note.message, "", api)
        return self._scope.use(lowering)

    def _expression(self, value: Value) -> ast.expr:
        match value:
            case TensorValue(key=key):
                return self._tensor(value, key)
            case Literal(value=plain):
                return _index(plain)
            case DType(name=name):
                return dtype_expression(name)
            case SequenceValue(kind=kind, items=items):
                parts = [self._expression(i) for i in items]
                return ast.List(parts, ast.Load()) if kind == "list" else ast.Tuple(parts, ast.Load())
            case DictValue(items=pairs):
                return ast.Dict([literal(k) for k, _ in pairs], [self._expression(v) for _, v in pairs])
            case ObjectValue(kind="output", fields=fields):
                return ast.Tuple([self._expression(v) for _, v in fields if holds_tensor(v)], ast.Load())
        raise Untranslatable(self._node, f"{value} in a traced call")

    def _tensor(self, value: TensorValue, key: int) -> ast.expr:
        if key in self._names:
            return self._names[key]
        if key in self._outside:
            return self._take(key, *self._outside[key])
        if value.parameter is not None and (made := self._own_parameter(value.parameter)) is not None:
            return self._take(key, value.parameter.rpartition(".")[2], made)
        raise Untranslatable(self._node, f"a tensor {value} comes from elsewhere")

    def _take(self, key: int, name: str, made: ast.expr) -> ast.expr:
        """Make a tensor from outside a parameter of the flat function, under a name of its own."""
        unique, number = name, 2
        while unique in self.inputs and ast.dump(self.inputs[unique]) != ast.dump(made):
            unique, number = f"{name}_{number}", number + 1
        self.inputs[unique] = made
        self._names[key] = ast.Name(unique, ast.Load())
        return self._names[key]

    def _own_parameter(self, path: str) -> ast.expr | None:
        owners = self._scope.facts.parameters.get("self", ())
        owner = next((o for o in owners if isinstance(o, ModuleValue) and o.path is not None), None)
        if owner is None or not path.startswith(owner.path + "." if owner.path else ""):
            return None
        if len({o.path for o in owners if isinstance(o, ModuleValue)}) > 1 and owner.path is None:
            return None
        made = parameter_path(self._scope.work, path, (owner.path or "").count(".") + bool(owner.path), ast.Load())
        return without_height(self._scope.work.program, path, made)


def _needed(entries: Sequence[LedgerEntry], result: Value) -> set[int]:
    live = {t.key for _, t in _tensors(result)}
    kept: set[int] = set()
    for entry in reversed(entries):
        if any(t.key in live for _, t in _tensors(entry.result)):
            kept.add(entry.index)
            for value in [*entry.args, *(v for _, v in entry.kwargs)]:
                live |= {t.key for _, t in _tensors(value)}
    return kept


def _tensors(value: Value) -> list[tuple[tuple[object, ...], TensorValue]]:
    """The tensors in a value with the steps that lead to each."""
    match value:
        case TensorValue():
            return [((), value)]
        case SequenceValue(items=items):
            return [((i, *p), t) for i, item in enumerate(items) for p, t in _tensors(item)]
        case DictValue(items=pairs):
            return [((k, *p), t) for k, item in pairs for p, t in _tensors(item)]
        case ObjectValue(kind="output", fields=fields):
            kept = [item for _, item in fields if holds_tensor(item)]
            return [((i, *p), t) for i, item in enumerate(kept) for p, t in _tensors(item)]
    return []


def _is_device(value: Value) -> bool:
    return isinstance(value, ObjectValue) and value.kind in ("device", "generator")


def _operator(short: str, args: list[ast.expr]) -> ast.expr | None:
    if short in _UNARY and len(args) == 1:
        return ast.UnaryOp(_UNARY[short](), args[0])
    if len(args) != 2:
        return None
    if short in _BINARY:
        return ast.BinOp(args[0], _BINARY[short](), args[1])
    if short.startswith("r") and short[1:] in _BINARY:
        return ast.BinOp(args[1], _BINARY[short[1:]](), args[0])
    if short in _COMPARE:
        return ast.Compare(args[0], [_COMPARE[short]()], [args[1]])
    return None


def _index(plain: object) -> ast.expr:
    if isinstance(plain, slice):
        parts = [None if p is None else literal(p) for p in (plain.start, plain.stop, plain.step)]
        return ast.Slice(*parts)
    if isinstance(plain, tuple):
        return ast.Tuple([_index(p) for p in plain], ast.Load())
    return literal(plain)
