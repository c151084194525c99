"""A call of a torch API without a row: torch's own expansion, each op by its row, as a named function."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ms_port.ir.program import EMPTY_FACTS, CallFact, FunctionDef
from ms_port.ir.tree import is_place, literal
from ms_port.ir.values import DictValue, DType, Literal, SequenceValue, TensorValue, Value
from ms_port.opmap import Argument, Call, Lowering, NoLowering
from ms_port.passes.lowering.expansion import Expansion, NotExpandable, Step, expand
from ms_port.passes.lowering.scope import Scope, Untranslatable, dtype_expression
from ms_port.passes.name import RESERVED

EXPANDED = "expanded"
"""``FunctionDef.kind`` of these functions: they stand in functions.py."""


def expand_call(scope: Scope, node: ast.Call, facts: Sequence[CallFact], call: Call) -> ast.expr:
    """The call of a function made of simpler ops. Raises Untranslatable where that can't be done."""
    given = [*([call.receiver] if call.receiver else []), *call.args]
    if any(isinstance(a.expression, ast.Starred) for a in given):
        raise Untranslatable(node, "a starred argument")
    runs: dict[object, _Run] = {}
    keys: dict[str, int] = {}
    for index in range(len(facts)):
        args = tuple(_by_source(_at(node, a, index), a.expression, keys) for a in given)
        run = _Run(args, tuple((k, _by_source(_at(node, a, index), a.expression, keys)) for k, a in call.keywords))
        runs.setdefault((_values(run.args), tuple((k, _bare(v)) for k, v in run.kwargs)), run)
    bodies = [_expanded(scope, node, call.api, run) for run in runs.values()]
    texts = {body.text() for body in bodies}
    if len(texts) != 1:
        raise Untranslatable(node, "its expansion differs between the runs of this call")
    body, text = bodies[0], texts.pop()
    first = next(iter(runs.values()))
    expressions = _places(first.args, [a.expression for a in given]) | _places(
        tuple(v for _, v in first.kwargs), [a.expression for _, a in call.keywords]
    )
    name = _name(scope, call.api, text)
    key = f"expanded:{name}"
    scope.work.generated.setdefault(key, body.function(name, key))
    for rule, message in body.notes:
        scope.flag(node, rule, message, "", call.api)
    scope.flag(
        node,
        "MSP106",
        f"{call.api} has no row for this call: torch's expansion stands in `{name}`",
        "It holds for the traced sizes.",
        call.api,
        "info",
    )
    arguments = [expressions[t.key] for t in body.expansion.inputs]
    return ast.Call(ast.Name(name, ast.Load()), arguments, [])


@dataclass(frozen=True)
class _Run:
    """The values of one evaluation of the call; a receiver stands first."""

    args: tuple[Value, ...]
    kwargs: tuple[tuple[str, Value], ...]


def _at(node: ast.Call, argument: Argument, index: int) -> Value:
    """An argument's value in one run. Raises Untranslatable where it is not known."""
    if not argument.values:
        raise Untranslatable(node, "an argument's value is not known")
    return argument.values[index if index < len(argument.values) else 0]


def _by_source(value: Value, made: ast.expr, keys: dict[str, int]) -> Value:
    """The value with one identity for each source text: two names may hold one tensor in the first run alone."""
    match value:
        case TensorValue():
            # what is computed twice may differ, by its draws
            text = f"{ast.unparse(made)} {'' if is_place(made, items=True) else len(keys)}"
            return replace(value, key=keys.setdefault(text, len(keys) + 1))
        case SequenceValue(kind=kind, items=items):
            return SequenceValue(kind, tuple(_by_source(v, _item(made, i), keys) for i, v in enumerate(items)))
        case DictValue(items=pairs):
            parts = ((k, ast.Subscript(made, literal(k), ast.Load()), v) for k, v in pairs)
            return DictValue(tuple((k, _by_source(v, part, keys)) for k, part, v in parts))
    return value


def _expanded(scope: Scope, node: ast.Call, api: str, run: _Run) -> _Body:
    """With ops that have rows kept whole, or, where a row refuses its arguments, expanded to the core."""
    opmap = scope.work.opmap
    errors = []
    for has_row in (opmap.__contains__, lambda name: False):
        try:
            body = _Body(scope, node, api, expand(api, run.args, run.kwargs, has_row))
            body.text()
            return body
        except (NotExpandable, NoLowering) as error:
            errors.append(str(error))
    raise Untranslatable(node, errors[-1])


def _values(args: tuple[Value, ...]) -> tuple[Value, ...]:
    return tuple(map(_bare, args))


def _bare(value: Value) -> Value:
    """A value without the identity of its tensors."""
    match value:
        case TensorValue(shape=shape, dtype=dtype):
            return TensorValue(shape, dtype)
        case SequenceValue(kind=kind, items=items):
            return SequenceValue(kind, _values(items))
        case DictValue(items=pairs):
            return DictValue(tuple((k, _bare(v)) for k, v in pairs))
    return value


def _places(values: Sequence[Value], expressions: Sequence[ast.expr]) -> dict[int, ast.expr]:
    """The source of each tensor among the arguments."""
    found: dict[int, ast.expr] = {}
    for value, made in zip(values, expressions, strict=False):
        match value:
            case TensorValue(key=key):
                found.setdefault(key, made)
            case SequenceValue(items=items):
                parts = [_item(made, i) for i in range(len(items))]
                found = {**_places(items, parts), **found}
            case DictValue(items=pairs):
                keyed: list[ast.expr] = [ast.Subscript(made, literal(k), ast.Load()) for k, _ in pairs]
                found = {**_places([v for _, v in pairs], keyed), **found}
    return found


def _item(made: ast.expr, index: int) -> ast.expr:
    if isinstance(made, ast.List | ast.Tuple) and not any(isinstance(e, ast.Starred) for e in made.elts):
        return made.elts[index]
    return ast.Subscript(made, literal(index), ast.Load())


def _name(scope: Scope, api: str, text: str) -> str:
    base = api.rpartition(".")[2].strip("_")
    taken = scope.work.opmap.function_names | {f.name for f in scope.work.all_functions.values()}
    taken |= {cell.name for cell in scope.work.program.cells.values()} | scope.locals | RESERVED
    name, number = f"{base}_expanded" if base in taken else base, 2
    while (known := scope.work.generated.get(f"expanded:{name}")) is not None or name in taken:
        if known is not None and name not in taken and "\n".join(map(ast.unparse, known.body)) == text:
            return name
        name, number = f"{base}_{number}", number + 1
    return name


class _Body:
    """Statements, one an op."""

    def __init__(self, scope: Scope, node: ast.Call, api: str, expansion: Expansion) -> None:
        self.expansion = expansion
        self.notes: list[tuple[str, str]] = []
        self._scope, self._node, self._api = scope, node, api
        self._parameters = ["x" if i == 0 else f"x{i}" for i in range(len(expansion.inputs))]
        self._names: dict[int, ast.expr] = {
            t.key: ast.Name(p, ast.Load()) for t, p in zip(expansion.inputs, self._parameters, strict=True)
        }
        self._body: list[ast.stmt] | None = None

    def text(self) -> str:
        """The body's source. Raises NoLowering."""
        return "\n".join(ast.unparse(s) for s in self.body())

    def body(self) -> list[ast.stmt]:
        if self._body is None:
            lines = [self._statement(step) for step in self.expansion.steps]
            self._body = [*lines, ast.Return(self._expression(self.expansion.result))]
        return self._body

    def function(self, name: str, key: str) -> FunctionDef:
        arguments = ast.arguments([], [ast.arg(p) for p in self._parameters], None, [], [], None, [])
        definition = ast.FunctionDef(name, arguments, [], [], None, lineno=self._node.lineno)
        sizes = ", ".join(f"{p} {t}" for p, t in zip(self._parameters, self.expansion.inputs, strict=True))
        doc = f"{self._api} in simpler ops, for {sizes}." if sizes else f"{self._api} in simpler ops."
        loc = self._scope.loc(self._node)
        return FunctionDef(key, name, definition, tuple(self.body()), EMPTY_FACTS, loc, kind=EXPANDED, docstring=doc)

    def _statement(self, step: Step) -> ast.stmt:
        made = self._lower(step)
        name = f"{step.name}_" if step.name in self._scope.work.opmap.function_names else step.name
        for index, tensor in enumerate(step.results):
            part: ast.expr = ast.Name(name, ast.Load())
            self._names[tensor.key] = part if step.single else ast.Subscript(part, literal(index), ast.Load())
        return ast.Assign([ast.Name(name, ast.Store())], made, lineno=0)

    def _lower(self, step: Step) -> ast.expr:
        reasons = []
        for api in step.apis:
            if api not in self._scope.work.opmap:
                continue
            try:
                return self._used(self._scope.work.opmap.lower(self._call(api, step)))
            except NoLowering as error:
                reasons.append(str(error))
        base = step.apis[-1].rpartition(".")[2]
        raise NoLowering(self._api, reasons[0] if reasons else f"it comes down to aten.{base}, which has no row")

    def _call(self, api: str, step: Step) -> Call:
        arguments = tuple(Argument(self._expression(a), (a,)) for a in step.args)
        keywords = tuple((k, Argument(self._expression(v), (v,))) for k, v in step.kwargs)
        if api.startswith("torch.Tensor."):
            return Call(api, arguments[1:], keywords, arguments[0])
        return Call(api, arguments, keywords)

    def _used(self, lowering: Lowering) -> ast.expr:
        if lowering.random is not None:
            raise NoLowering(self._api, "its expansion draws random numbers")
        self.notes += [(note.rule, note.message) for note in lowering.notes]
        return self._scope.use(lowering)

    def _expression(self, value: Value) -> ast.expr:
        match value:
            case TensorValue(key=key):
                return self._names[key]
            case Literal(value=plain):
                return literal(plain)
            case DType(name=name):
                return dtype_expression(name)
            case SequenceValue(kind=kind, items=items):
                parts = [self._expression(i) for i in items]
                return ast.List(parts, ast.Load()) if kind == "list" else ast.Tuple(parts, ast.Load())
            case DictValue(items=pairs):
                return ast.Dict([literal(k) for k, _ in pairs], [self._expression(v) for _, v in pairs])
        raise NoLowering(self._api, f"its expansion holds {value}")
