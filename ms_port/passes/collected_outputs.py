"""Fields of an output object that hooks filled with what a loop's layers returned: the loop collects them itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ms_port.ir.program import CallFact, FunctionDef, Program
from ms_port.ir.tree import copy, names_stored, nid
from ms_port.ir.values import Literal, ObjectValue, SequenceValue, TensorValue, Value, holds_tensor
from ms_port.passes.rewrite import map_functions


def collect_outputs(program: Program) -> Program:
    """Write out what a decorator or a hook gathers: ``states = (h,)``, ``states += (h,)`` behind each layer.

    A field of a returned output object that its call does not give, and whose items are what a loop of the function
    computed one after the other, is gathered in that loop and given.
    """
    root = program.root

    def one(function: FunctionDef) -> FunctionDef:
        if function.during_init:
            return function
        is_root = function.owner == root and function.name == "forward"
        for made in _outputs_made(function):
            function = _with_fields(function, made, is_root)
        return function

    return map_functions(program, one)


def _outputs_made(function: FunctionDef) -> list[int]:
    """nids of calls in return statements that make an output object with tensors in fields that they don't give."""
    found = []
    for node in (n for s in function.body for n in ast.walk(s)):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Call):
            facts = function.facts.calls.get(nid(node.value), ())
            if facts and all(isinstance(f.result, ObjectValue) and f.result.kind == "output" for f in facts):
                found.append(nid(node.value))
    return found


def _with_fields(function: FunctionDef, made: int, is_root: bool) -> FunctionDef:
    """The function with each such field of one call collected, as far as a loop is found."""
    facts = function.facts.calls[made]
    call = _node(function, made)
    first = facts[0].result
    assert isinstance(first, ObjectValue)
    given = {k.arg for k in call.keywords} | {name for (name, _), _ in zip(first.fields, call.args, strict=False)}
    if None in given:
        return function
    for name, item in first.fields:
        if name in given or not holds_tensor(item):
            continue
        for loop in _loops(function):
            gathered = _gathered(facts, name, loop, is_root)
            if gathered is not None:
                function = _Writer(function, made, name, loop, gathered).written()
                break
    return function


def _node(function: FunctionDef, wanted: int) -> ast.Call:
    nodes = (n for s in function.body for n in ast.walk(s))
    return next(n for n in nodes if isinstance(n, ast.Call) and nid(n) == wanted)


@dataclass(frozen=True, slots=True)
class _Loop:
    """``for layer in layers: h = layer(h, ...)``."""

    index: int
    """Of the statement in the function's body."""
    name: str
    calls: tuple[CallFact, ...]


def _loops(function: FunctionDef) -> Iterator[_Loop]:
    for index, statement in enumerate(function.body):
        if not isinstance(statement, ast.For) or statement.orelse:
            continue
        for inner in statement.body:
            match inner:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[ast.Name(id=taken), *_]) as call) if (
                    name == taken
                ):
                    yield _Loop(index, name, function.facts.calls.get(nid(call), ()))


@dataclass(frozen=True, slots=True)
class _Gathered:
    """How a field follows from a loop."""

    initial: bool
    """Whether what goes into the first layer is the first item."""
    last: str | None
    """The field that stands for the last item, where that is not the last layer's result."""
    values: tuple[Value, ...]
    """The field, one for each run of the function."""


def _gathered(facts: Sequence[CallFact], field: str, loop: _Loop, is_root: bool) -> _Gathered | None:
    """How the field's items follow from the loop in every run; None where they do not."""
    found: set[tuple[bool, str | None]] = set()
    values: list[Value] = []
    layers, rest = divmod(len(loop.calls), len(facts))
    if not layers or rest:
        return None
    for run, fact in enumerate(facts):
        fields = dict(fact.result.fields) if isinstance(fact.result, ObjectValue) else {}
        held = fields.get(field)
        calls = loop.calls[run * layers : (run + 1) * layers]
        if not isinstance(held, SequenceValue) or held.kind != "tuple" or len(held.items) - layers not in (0, 1):
            return None
        initial = len(held.items) > layers
        computed: list[Value] = [*([calls[0].args[0]] if initial and calls[0].args else []), *(c.result for c in calls)]
        if len(computed) != len(held.items) or (is_root and Literal(None) in held.items):
            return None
        wrong = [i for i, pair in enumerate(zip(held.items, computed, strict=True)) if not _same_tensor(*pair)]
        last = next((n for n, item in fields.items() if n != field and item == held.items[-1]), None) if wrong else None
        if wrong and (wrong != [len(computed) - 1] or last is None):
            return None
        found.add((initial, last))
        values.append(held)
    return _Gathered(*found.pop(), tuple(values)) if len(found) == 1 else None


def _same_tensor(item: Value, computed: Value) -> bool:
    """Whether an item is what was computed there; a hook that keeps some of them leaves None for the others."""
    if item == Literal(None):
        return True
    return isinstance(item, TensorValue) and isinstance(computed, TensorValue) and item.key == computed.key


class _Writer:
    """Writes the collecting statements into a function, with facts for what it adds."""

    def __init__(self, function: FunctionDef, made: int, field: str, loop: _Loop, gathered: _Gathered) -> None:
        self.function, self.made, self.field, self.loop, self.gathered = function, made, field, loop, gathered
        self.body = [copy(s) for s in function.body]
        taken = names_stored(ast.Module(self.body, [])) | {
            a.arg for a in ast.walk(function.node.args) if isinstance(a, ast.arg)
        }
        self.name = next(n for n in (f"all_{field}", f"collected_{field}", f"all_{field}_") if n not in taken)
        self.next = 1 + max(nid(n) for s in function.body for n in ast.walk(s))
        self.values: dict[int, tuple[Value, ...]] = {}
        self.ran: dict[int, frozenset[str]] = {}

    def written(self) -> FunctionDef:
        """The function that collects the field."""
        loop = self.body[self.loop.index]
        assert isinstance(loop, ast.For)
        modes = self.function.facts.ran.get(nid(loop), frozenset())
        layers = len(self.loop.calls) // len(self.gathered.values)
        inputs = tuple(c.args[0] for c in self.loop.calls[::layers])
        start: list[ast.expr] = [self._read(self.loop.name, inputs)] if self.gathered.initial else []
        before = ast.Assign([ast.Name(self.name, ast.Store())], ast.Tuple(start, ast.Load()))
        results = tuple(c.result for c in self.loop.calls)
        added = ast.Tuple([self._read(self.loop.name, results)], ast.Load())
        after = ast.AugAssign(ast.Name(self.name, ast.Store()), ast.Add(), added)
        loop.body.append(self._statement(after, loop.body[-1], modes))
        self.body.insert(self.loop.index, self._statement(before, loop, modes))
        self._give()
        facts = self.function.facts
        facts = replace(facts, values={**facts.values, **self.values}, ran={**facts.ran, **self.ran})
        return replace(self.function, body=tuple(self.body), facts=facts)

    def _give(self) -> None:
        """Hand the field to the call that makes the output."""
        call = next(n for s in self.body for n in ast.walk(s) if isinstance(n, ast.Call) and nid(n) == self.made)
        value: ast.expr = self._read(self.name, self.gathered.values)
        if self.gathered.last is not None:
            last = next((k.value for k in call.keywords if k.arg == self.gathered.last), None)
            if last is None:
                fields = self.function.facts.calls[self.made][0].result
                assert isinstance(fields, ObjectValue)
                last = call.args[[name for name, _ in fields.fields].index(self.gathered.last)]
            most = ast.Subscript(value, ast.Slice(None, ast.Constant(-1), None), ast.Load())
            value = ast.BinOp(most, ast.Add(), ast.Tuple([copy(last)], ast.Load()))
        call.keywords.append(ast.keyword(self.field, value))

    def _read(self, name: str, values: tuple[Value, ...]) -> ast.Name:
        node = ast.Name(name, ast.Load())
        node.nid = self.next  # type: ignore[attr-defined]
        self.values[self.next] = values
        self.next += 1
        return node

    def _statement(self, made: ast.stmt, beside: ast.stmt, modes: frozenset[str]) -> ast.stmt:
        ast.copy_location(made, beside)
        made.nid = self.next  # type: ignore[attr-defined]
        self.ran[self.next] = modes
        self.next += 1
        return made
