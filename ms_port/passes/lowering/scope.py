"""What the lowering of one function knows and collects."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from ms_port.ir.flags import Flag, Severity
from ms_port.ir.program import CallFact, Choice, Drop, FunctionDef, Program, SourceLoc, Stub
from ms_port.ir.tree import is_self_attribute, literal, nid
from ms_port.ir.values import ClassValue, DType, Literal, ModuleValue, ObjectValue, TensorValue, Value
from ms_port.opmap import Lowering, OpMap

if TYPE_CHECKING:
    from ms_port.passes.lowering.held import HeldClass


class Untranslatable(Exception):
    """An expression can't stand in the output; the statement around it decides what to do."""

    def __init__(self, node: ast.AST, reason: str) -> None:
        super().__init__(reason)
        self.node = node
        self.reason = reason


class DifferentNames(Untranslatable):
    """An attribute that is called differently in the classes that a name holds: the statement is split by class."""

    def __init__(self, node: ast.AST, reason: str, name: str, classes: Sequence[str]) -> None:
        super().__init__(node, reason)
        self.name = name
        self.classes = tuple(classes)


def _copied(value: Any) -> Any:
    """Containers, and the dicts in them, copied; all else as it is."""
    if isinstance(value, dict):
        copy = value.copy()  # a defaultdict stays one
        copy.update({k: v.copy() for k, v in value.items() if isinstance(v, dict)})
        return copy
    return value.copy() if isinstance(value, list | set) else value


@dataclass(slots=True)
class Work:
    """What one run of the lowering over the whole program collects."""

    program: Program
    opmap: OpMap
    lowered: dict[str, FunctionDef] = field(default_factory=dict)
    failed: dict[str, Untranslatable] = field(default_factory=dict)
    active: set[str] = field(default_factory=set)
    """Functions being lowered now (recursion)."""
    cells: set[str] = field(default_factory=set)
    """Keys of classes that the output needs."""
    flags: list[Flag] = field(default_factory=list)
    drops: list[Drop] = field(default_factory=list)
    op_functions: set[str] = field(default_factory=set)
    constants: dict[str, ast.stmt] = field(default_factory=dict)
    config_fields: dict[str, dict[str, Value]] = field(default_factory=lambda: defaultdict(dict))
    class_attributes: set[tuple[str, str]] = field(default_factory=set)
    """(class key, attribute) of class-level names that something reads."""
    stubs: dict[str, Stub] = field(default_factory=dict)
    generated: dict[str, FunctionDef] = field(default_factory=dict)
    """Flat functions made where source could not be kept."""
    held: set[str] = field(default_factory=set)
    """Classes whose constructor is written from what their instances hold."""
    allocated: set[tuple[str, str]] = field(default_factory=set)
    """(class, name) of buffers whose values come with the weights."""
    held_classes: dict[str, HeldClass] = field(default_factory=dict)
    claimed: set[int] = field(default_factory=set)
    """Ledger indices that stand in flat functions."""
    freeze: bool = False
    """Print shapes as numbers."""
    poisoned: int = 0
    """Constructor statements so far whose names could not be kept."""
    all_functions: dict[str, FunctionDef] = field(default_factory=dict)
    decided: set[Choice] = field(default_factory=set)
    """Options of constructors on which a condition was decided."""
    graph_reads: set[str] = field(default_factory=set)
    """Attributes of ``self`` that some graph function reads."""

    unbatched: frozenset[str] = frozenset()
    """Paths of convolutions that torch's own code calls without a batch."""
    reads: set[str] = field(default_factory=set)
    """Attributes that any function reads, those of constructors too."""
    attributes_set: set[str] = field(default_factory=set)
    """Attributes that any function sets on an object that is no module."""
    layer_bases: dict[str, str] = field(default_factory=dict)
    """Class that derives from a layer -> the MindSpore class whose constructor it calls."""
    listed: dict[str, dict[str, str]] = field(default_factory=dict)
    """Class -> lists of children that its constructor sets for graph code: attribute -> expression."""
    graph_made: set[str] = field(default_factory=set)
    """Classes of plain objects that forward itself makes (a cache): state of one call, no configuration."""

    def __post_init__(self) -> None:
        self.all_functions.update(self.program.functions)
        for cell in self.program.cells.values():
            self.all_functions.update((m.key, m) for m in cell.methods)
        self.graph_made.update(
            fact.result.cls
            for function in self.all_functions.values()
            for facts in function.facts.calls.values()
            for fact in facts
            if fact.mode != "init" and isinstance(fact.callee, ClassValue) and isinstance(fact.result, ObjectValue)
        )
        self.reads.update(
            node.attr
            for function in self.all_functions.values()
            for statement in function.body
            for node in ast.walk(statement)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
        )
        for function in self.all_functions.values():
            self.attributes_set |= set(_set_on_objects(function))
        self.graph_reads.update(
            node.attr
            for function in self.all_functions.values()
            if not function.during_init
            for statement in function.body
            for node in _outside_counters(statement)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
        )

    @contextmanager
    def attempted(self) -> Iterator[None]:
        """Lowering that leaves nothing behind where it turns out that it can't be: then Untranslatable goes on."""
        before = {f.name: _copied(getattr(self, f.name)) for f in fields(self)}
        try:
            yield
        except Untranslatable:
            drops = self.drops  # why it can't be
            for name, value in before.items():
                setattr(self, name, value)
            self.drops = drops
            raise

    def need(self, key: str, node: ast.AST | None = None) -> None:
        """Have a function lowered too, since lowered code refers to it. Raises Untranslatable where it can't be."""
        from ms_port.passes.lowering.functions import lower_function

        if key in self.lowered or key in self.active:
            return
        if key in self.failed:
            raise Untranslatable(node or self.failed[key].node, self.failed[key].reason)
        function = self.all_functions.get(key)
        if function is None:
            raise Untranslatable(node or ast.Pass(), f"the source of {key} is not there")
        self.active.add(key)
        try:
            self.lowered[key] = lower_function(self, function)
        except Untranslatable as error:
            self.failed[key] = error
            raise
        except (
            ArithmeticError,
            AssertionError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            self._stumbled(function, error)
            self.failed[key] = Untranslatable(function.node, f"{type(error).__name__} while translating: {error}")
            raise self.failed[key] from error
        finally:
            self.active.discard(key)

    def _stumbled(self, function: FunctionDef, error: Exception) -> None:
        """A fault of the translator: one function less must not end the conversion, and must not be hidden."""
        self.flags.append(
            Flag(
                rule="MSP110",
                severity="warning",
                message=f"ms-port stumbled over {function.key}: {type(error).__name__}: {error}",
                module=function.owner,
                source=function.loc,
                advice="Compare this function with its source, and report the message.",
            )
        )


def _outside_counters(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement, save those of ``self.n = self.n + 1``: a counter that only counts is not read."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value) if all(
                isinstance(n, ast.Attribute) and n.attr == name for n in ast.walk(value) if is_self_attribute(n)
            ):
                yield from (n for n in ast.walk(value) if not is_self_attribute(n))
                continue
        yield node
        pending.extend(ast.iter_child_nodes(node))


def _set_on_objects(function: FunctionDef) -> Iterator[str]:
    """Attributes that a function sets on what is no module; names that it computes count as every name."""
    for node in (n for s in function.body for n in ast.walk(s)):
        match node:
            case ast.Attribute(value=base, attr=name, ctx=ast.Store() | ast.Del()) if not _is_module(function, base):
                yield name
            case ast.Call(func=ast.Name(id="setattr"), args=[base, name, _]) if not _is_module(function, base):
                yield name.value if isinstance(name, ast.Constant) else EVERY_ATTRIBUTE  # type: ignore[misc]
            case ast.Attribute(value=base, attr="__dict__") if not _is_module(function, base):
                yield EVERY_ATTRIBUTE
            case ast.Call(func=ast.Name(id="vars")):
                yield EVERY_ATTRIBUTE


def _is_module(function: FunctionDef, node: ast.expr) -> bool:
    seen = function.facts.values.get(nid(node), ())
    if not seen and isinstance(node, ast.Name):
        seen = function.facts.parameters.get(node.id, ())
    return all(isinstance(v, ModuleValue) for v in seen)  # also of what never ran


EVERY_ATTRIBUTE = "*"
"""In ``Work.attributes_set``: some function sets attributes by computed names."""


class Scope:
    """One function while it is lowered: its facts, its local names, and which of them can't be used any more."""

    def __init__(self, work: Work, function: FunctionDef, *, root: bool = False) -> None:
        self.work = work
        self.function = function
        self.facts = function.facts
        self.host = function.during_init
        self.root = root
        self.poisoned: dict[str, str] = {}
        self.expanded: dict[str, ast.expr] = {}
        """Keywords of ``**kwargs`` that became parameters, with their defaults."""
        self.spread: dict[str, ast.expr | None] = {}
        """Parameters that stand for ``*args`` (and for entries of ``**kwargs``), with their defaults."""
        arguments = function.node.args
        self.parameters = [a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]]
        self.varargs = arguments.vararg.arg if arguments.vararg else None
        self.varkw = arguments.kwarg.arg if arguments.kwarg else None
        stored = {
            n.id
            for statement in function.body
            for n in ast.walk(statement)
            if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)
        }
        inner = {n.name for s in function.body for n in ast.walk(s) if isinstance(n, ast.FunctionDef)}
        lambdas = {a.arg for s in function.body for n in ast.walk(s) if isinstance(n, ast.Lambda) for a in n.args.args}
        self.stored = stored
        self.locals = stored | inner | lambdas | set(self.parameters) | {self.varargs or "", self.varkw or ""}
        self.baked: dict[str, Value] = {}
        self.inner: set[str] = set()
        """Functions defined inside this one."""
        self.narrowed: dict[str, tuple[str, ...]] = {}
        """Name -> the classes that it can hold inside an ``isinstance`` branch made here."""
        self.displays: dict[str, dict[str, ast.expr]] = {}
        """Name -> the entries, as the source writes them, of a dict that is only handed on as ``**name``."""
        self.around: Scope | None = None
        """The scope in which a lambda stands, where its entries of ``displays`` were written."""
        self.strict = False
        """In an arm that never ran: nothing may be dropped or replaced, the arm goes as a whole."""
        self.detaching = False
        """Inside ``torch.no_grad()``."""
        self.detached_whole = False
        """The function is decorated with it."""

    def use(self, lowering: Lowering) -> ast.expr:
        """The expression of a lowering; what it needs from op_maps/functions is noted, and its names are marked."""
        self.work.op_functions |= lowering.functions
        return mark_functions(lowering.expression, lowering.functions)

    # --- facts ----------------------------------------------------------------------------------------------------

    def values(self, node: ast.AST) -> tuple[Value, ...]:
        """What the expression evaluated to; empty where it never ran."""
        seen = self.facts.values.get(nid(node))
        if seen:
            return seen
        static = self.facts.statics.get(nid(node))
        return (static,) if static is not None else ()

    def ran(self, node: ast.AST) -> bool:
        """Whether the statement or expression ran at all."""
        key = nid(node)
        return key in self.facts.ran or bool(self.facts.values.get(key)) or bool(self.facts.calls.get(key))

    def calls(self, node: ast.Call) -> tuple[CallFact, ...]:
        """Evaluations of a call."""
        return self.facts.calls.get(nid(node), ())

    def constant(self, node: ast.AST) -> ast.expr | None:
        """The literal to which the expression evaluated every time; None where it varied or is no literal."""
        if isinstance(node, ast.Constant):
            return node
        return constant_of(self.values(node))

    @contextmanager
    def strictly(self) -> Iterator[None]:
        """Lower an arm that never ran."""
        before, self.strict = self.strict, True
        try:
            yield
        finally:
            self.strict = before

    # --- collecting -----------------------------------------------------------------------------------------------

    def loc(self, node: ast.AST) -> SourceLoc:
        """The node's place in the person's source."""
        return SourceLoc(self.function.loc.file, getattr(node, "lineno", self.function.loc.line))

    def flag_number(self, node: ast.expr, reason: str) -> None:
        """Note that a number stands in the port where its expression could not (MSP202)."""
        value = self.values(node)[0]
        if isinstance(value, Literal) and _holds_number(value.value):
            self.flag(
                node,
                "MSP202",
                f"`{ast.unparse(node)}` is {value.value!r} in the port: {reason}",
                "Another size or depth of the model needs another number: convert again, or write the expression.",
                severity="info",
            )

    def drop(self, node: ast.AST, reason: str) -> None:
        """Note that a piece of source is left out."""
        text = ast.unparse(node).split("\n")[0][:160]
        self.work.drops.append(Drop(self.function.key, self.loc(node), text, reason))

    def flag(
        self, node: ast.AST, rule: str, message: str, advice: str, op: str = "", severity: Severity = "warning"
    ) -> None:
        """Note that the port may differ from torch here."""
        flag = Flag(
            rule=rule,
            severity=severity,
            message=message,
            op=op or None,
            module=self.function.owner or self.function.key,
            source=self.loc(node),
            advice=advice,
        )
        if flag not in self.work.flags:
            self.work.flags.append(flag)

    def poison(self, names: Iterable[str], reason: str) -> None:
        """From here on the names may only be used where their value is a constant."""
        self.poisoned.update(dict.fromkeys(names, reason))


def mark_functions(expression: ast.expr, names: frozenset[str]) -> ast.expr:
    """Mark the names that the op map wrote: a local of the same name must not shadow them."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Name) and node.id in names and not hasattr(node, "nid"):
            node.op_function = True  # type: ignore[attr-defined]
    return expression


def same(values: Sequence[Value]) -> bool:
    """Whether all values are one value."""
    return bool(values) and all(v == values[0] for v in values[1:])


def _holds_number(value: object) -> bool:
    """Whether it is a number, or a container with one in it: what another configuration would change."""
    if isinstance(value, list | tuple):
        return any(map(_holds_number, value))
    if isinstance(value, dict):
        return any(map(_holds_number, value.values()))
    return isinstance(value, int | float) and not isinstance(value, bool)


def constant_of(values: Sequence[Value]) -> ast.expr | None:
    """Source of the one literal that all values are."""
    if not same(values):
        return None
    match values[0]:
        case Literal(value=value):
            try:
                return literal(value)
            except ValueError:
                return None
        case DType(name=name):
            return dtype_expression(name)
    return None


def dtype_expression(name: str) -> ast.expr:
    """``ms.float32``; torch's ``bool`` is ``ms.bool_``."""
    return ast.Attribute(ast.Name("ms", ast.Load()), {"bool": "bool_"}.get(name, name), ast.Load())


def truth(values: Sequence[Value]) -> bool | None:
    """The truth value that all values share; None where they differ or a tensor's value decides."""
    found: set[bool] = set()
    for value in values:
        match value:
            case TensorValue():
                return None
            case Literal(value=literal_value):
                found.add(bool(literal_value))
            case _:
                items = getattr(value, "items", None)
                found.add(bool(items) if isinstance(items, tuple) else True)
    return found.pop() if len(found) == 1 else None
