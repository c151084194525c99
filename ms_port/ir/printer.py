"""The program as text: what ``print(program)`` and ``--dump-ir STAGE`` show."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ms_port.ir.program import CellDef, FunctionDef, Program
from ms_port.ir.tree import nid
from ms_port.ir.values import Literal, Value


def render(program: Program) -> str:
    """Cells with their instances, statements with what each call was and gave, flags at the end."""
    lines = [f"program {program.name}: root {program.root}"]
    for spec in program.inputs:
        lines.append(f"  input {spec.name}: {spec.value}")
    for mode, value in program.outputs.items():
        lines.append(f"  output ({mode}): {value}")
    for name, statement in program.constants.items():
        lines.append(f"constant {name}: {ast.unparse(statement)}")
    for cell in program.cells.values():
        lines += ["", *_cell(cell)]
    for function in program.functions.values():
        lines += ["", *_function(function, "")]
    if program.factory is not None:
        lines += ["", "factory", *_function(program.factory, "")]
    for flag in program.flags:
        lines.append(f"flag {flag.rule} {flag.severity} {flag.source}: {flag.message}")
    return "\n".join(lines) + "\n"


def _cell(cell: CellDef) -> Iterator[str]:
    bases = ", ".join(b.rpartition(".")[2] for b in cell.bases)
    yield f"cell {cell.name}({bases})  # {cell.loc}"
    if cell.instances:
        shown = ", ".join(path or "(root)" for path in cell.instances[:6])
        more = f" and {len(cell.instances) - 6} more" if len(cell.instances) > 6 else ""
        yield f"  instances: {shown}{more}"
    for statement in cell.attributes:
        yield f"  {ast.unparse(statement)}"
    for method in cell.methods:
        yield from _function(method, "  ")


def _function(function: FunctionDef, indent: str) -> Iterator[str]:
    args = ast.unparse(function.node.args)
    runs = function.facts.activations
    yield f"{indent}{function.kind} {function.name}({args})  # {function.loc}, {runs} runs"
    for statement in function.body:
        yield from _statement(function, statement, indent + "  ")


def _statement(function: FunctionDef, statement: ast.stmt, indent: str) -> Iterator[str]:
    modes = function.facts.ran.get(nid(statement))
    only = (
        f"  [{'/'.join(sorted(modes))} only]" if modes and function.kind != "init" and _partial(function, modes) else ""
    )
    match statement:
        case ast.If(test=test, body=body, orelse=orelse):
            yield f"{indent}if {ast.unparse(test)}:{only}"
            yield from _block(function, body, indent)
            if orelse:
                yield f"{indent}else:"
                yield from _block(function, orelse, indent)
        case ast.For(target=target, iter=iterated, body=body):
            yield f"{indent}for {ast.unparse(target)} in {ast.unparse(iterated)}:{only}"
            yield from _block(function, body, indent)
        case ast.While(test=test, body=body):
            yield f"{indent}while {ast.unparse(test)}:{only}"
            yield from _block(function, body, indent)
        case ast.With(items=items, body=body):
            yield f"{indent}with {', '.join(ast.unparse(i) for i in items)}:{only}"
            yield from _block(function, body, indent)
        case _:
            text = ast.unparse(ast.fix_missing_locations(statement)).replace("\n", f"\n{indent}")
            notes = "; ".join(_calls(function, statement))
            yield f"{indent}{text}{only}" + (f"  # {notes}" if notes else "")


def _block(function: FunctionDef, body: list[ast.stmt], indent: str) -> Iterator[str]:
    for statement in body:
        yield from _statement(function, statement, indent + "  ")


def _partial(function: FunctionDef, modes: frozenset[str]) -> bool:
    seen = {mode for ran in function.facts.ran.values() for mode in ran}
    return modes != seen


def _calls(function: FunctionDef, statement: ast.stmt) -> Iterator[str]:
    """What each call of a statement resolved to, and what it gave."""
    for node in ast.walk(statement):
        facts = function.facts.calls.get(nid(node), ()) if isinstance(node, ast.Call) else ()
        if facts:
            callee = facts[0].entered or str(facts[0].callee)
            yield f"{callee} -> {_brief(facts[0].result)}"


def _brief(value: Value) -> str:
    text = str(value) if not isinstance(value, Literal) else repr(value.value)
    return text if len(text) <= 60 else text[:57] + "..."
