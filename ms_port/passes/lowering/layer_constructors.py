"""A constructor for a class that has only its torch layer's, where the port must keep settings that the cell lacks."""

from __future__ import annotations

import ast
from dataclasses import replace

from ms_port.ir.program import EMPTY_FACTS, CallFact, Facts, FunctionDef, ModuleInstance
from ms_port.ir.tree import literal, statement
from ms_port.ir.values import ClassValue, FunctionValue, Literal, ModuleValue, PartialValue, Value
from ms_port.opmap.signature import MISSING, Parameter
from ms_port.passes.lowering.base_layers import layer_base
from ms_port.passes.lowering.call_statements import FILLED
from ms_port.passes.lowering.held import container_base
from ms_port.passes.lowering.inherited import find_method
from ms_port.passes.lowering.kept_settings import line, settings_read
from ms_port.passes.lowering.scope import Work


def give_constructors(work: Work) -> None:
    """Add ``__init__(self, in_channels, ...)``, which hands its arguments to the layer, to each such class."""
    for key, cell in list(work.program.cells.items()):
        base = layer_base(work.program, key)
        if base is None or not any(b.startswith("torch.nn.") for b in cell.bases) or work.opmap.row(base) is None:
            continue
        if any(m.name == "__init__" for m in cell.methods) or not settings_read(work, key):
            continue
        if (made := _constructor(work, key, base)) is not None:
            cells = {**work.program.cells, key: replace(cell, methods=(made, *cell.methods))}
            work.program = replace(work.program, cells=cells)
            work.all_functions[made.key] = made


def _constructor(work: Work, cls: str, base: str) -> FunctionDef | None:
    row = work.opmap.row(base)
    instances = [m for m in work.program.modules.values() if cls in line(work, m.cls)]
    if row is None or any(not m.arguments for m in instances):
        return None
    signature = [p for p in row.overloads[0].signature if p.kind == "positional"]
    count = max(_given(work, {m.cls for m in instances}, instances, signature), default=0)
    wanted = signature[:count]
    values = {p.name: tuple(_value(m, p) for m in instances) for p in wanted}
    names: list[ast.expr] = [_numbered(ast.Name(p.name, ast.Load()), i) for i, p in enumerate(wanted, 1)]
    func = ast.Attribute(ast.Call(ast.Name("super", ast.Load()), [], []), "__init__", ast.Load())
    call = _numbered(ast.Call(func, names, []), 0)
    owners = tuple(ModuleValue(m.cls, m.path) for m in instances)
    facts = tuple(
        CallFact(
            FunctionValue(f"{base}.__init__", True, owner),
            tuple(values[p.name][i] for p in wanted),
            (),
            Literal(None),
            "init",
        )
        for i, owner in enumerate(owners)
    )
    seen = {i: values[p.name] for i, p in enumerate(wanted, 1)}
    defaults = [literal(p.default) for p in wanted if p.default is not MISSING]
    arguments = ast.arguments([], [ast.arg(n) for n in ["self", *values]], None, [], [], None, defaults)
    loc = work.program.cells[cls].loc
    return FunctionDef(
        key=f"{cls}.__init__",
        name="__init__",
        node=ast.FunctionDef("__init__", arguments, [], [], None, lineno=loc.line),
        body=(ast.copy_location(ast.Expr(call), ast.Pass(lineno=loc.line, col_offset=0)),),
        facts=Facts(len(instances), {0: frozenset(["init"])}, seen, {0: facts}, {"self": owners, **values}, {}),
        loc=loc,
        owner=cls,
        kind="method",
        during_init=True,
    )


def filled_container(work: Work, cls: str) -> FunctionDef | None:
    """``__init__(self, cells)`` of a ModuleList or ModuleDict that is called: in the port a Cell that takes them."""
    loop = FILLED.get(container_base(work.program, cls) or "")
    forward = find_method(work.program, cls, "forward")
    if loop is None or forward is None or forward.owner != cls:
        return None
    given = ast.arguments([], [ast.arg("self"), ast.arg("cells")], None, [], [], None, [])
    loc = work.program.cells[cls].loc
    body = (statement("super().__init__()"), statement(loop.format(given="cells")))
    node = ast.FunctionDef("__init__", given, [], [], None, lineno=loc.line)
    return FunctionDef(
        f"{cls}.__init__ (cells)", "__init__", node, body, EMPTY_FACTS, loc, cls, "method", during_init=True
    )


def _numbered(node: ast.expr, number: int) -> ast.expr:
    node.nid = number  # type: ignore[attr-defined]
    return node


def _value(module: ModuleInstance, parameter: Parameter) -> Value:
    given = dict(module.arguments)
    return given.get(parameter.name, Literal(None if parameter.default is MISSING else parameter.default))


def _given(work: Work, classes: set[str], instances: list[ModuleInstance], signature: list[Parameter]) -> list[int]:
    """How many of torch's parameters are needed: one number a call or instance."""
    counts = [
        i
        for m in instances
        for i, p in enumerate(signature, 1)
        if p.default is MISSING or _value(m, p) != Literal(p.default)
    ]
    names = [p.name for p in signature]
    for function in work.all_functions.values():
        for fact in (f for calls in function.facts.calls.values() for f in calls):
            callee = fact.callee.func if isinstance(fact.callee, PartialValue) else fact.callee
            if isinstance(callee, ClassValue) and callee.name in classes:
                counts += [len(fact.args), *(names.index(k) + 1 for k, _ in fact.kwargs if k in names)]
    return counts
