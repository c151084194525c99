"""The ledger: every traced torch call is claimed by a kept statement, a flat function or a listed drop."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from ms_port.ir.flags import Flag
from ms_port.ir.program import LedgerEntry, Program
from ms_port.ir.values import DictValue, ObjectValue, SequenceValue, TensorValue, Value
from ms_port.passes.rewrite import all_functions


def check_ledger(program: Program) -> Program:
    """Flag torch calls of the graph that reach an output and that nothing in the port stands for."""
    kept = _kept_lines(program)
    dropped = {(d.function, d.loc.line) for d in program.drops}
    flags: list[Flag] = []
    for entry in needed_calls(program)[0]:
        if entry.index in program.claimed or entry.function is None:
            continue
        lines = kept.get(entry.function)
        if (lines is not None and entry.loc.line in lines) or (entry.function, entry.loc.line) in dropped:
            continue
        flag = Flag(
            rule="MSP109",
            severity="error" if lines is not None else "warning",
            op=entry.api,
            message=f"{entry.api} was traced here and no statement of the port stands for it",
            module=entry.function,
            source=entry.loc,
            advice="Compare the generated code with this line, and write the call in if it matters.",
        )
        if flag not in flags:
            flags.append(flag)
    return replace(program, flags=(*program.flags, *flags))


def _kept_lines(program: Program) -> dict[str, set[int]]:
    """Function -> lines of its source that stand in the port; of a compound statement only its header counts."""
    lines: dict[str, set[int]] = defaultdict(set)
    for function in all_functions(program):
        _add_lines(function.body, lines[function.key])
    return lines


def _add_lines(statements: Sequence[ast.stmt], lines: set[int]) -> None:
    for statement in statements:
        parts: list[ast.AST] = [statement]
        if isinstance(statement, ast.If | ast.While):
            parts = [statement.test]
        elif isinstance(statement, ast.For):
            parts = [statement.target, statement.iter]
        elif isinstance(statement, ast.FunctionDef):
            parts = []
        for inner in (getattr(statement, name, None) for name in ("body", "orelse")):
            if inner:
                _add_lines(inner, lines)
        for part in parts:
            for node in ast.walk(part):
                first = getattr(node, "lineno", None)
                if first is not None:
                    lines |= set(range(first, (getattr(node, "end_lineno", None) or first) + 1))


def needed_calls(program: Program) -> tuple[list[LedgerEntry], set[int]]:
    """Calls of the graph whose results reach an output, and the keys of all tensors that do."""
    live: set[int] = set()
    for value in program.outputs.values():
        live |= tensor_keys(value)
    needed = []
    for entry in reversed(program.ledger):
        if entry.mode == "init":
            continue
        if tensor_keys(entry.result) & live or entry.writes:
            for value in [*entry.args, *(v for _, v in entry.kwargs)]:
                live |= tensor_keys(value)
            needed.append(entry)
    return needed, live


def tensor_keys(value: Value) -> set[int]:
    """Identities of the tensors in a value."""
    match value:
        case TensorValue(key=key):
            return {key}
        case SequenceValue(items=items):
            return set().union(*map(tensor_keys, items)) if items else set()
        case DictValue(items=pairs):
            return set().union(*(tensor_keys(v) for _, v in pairs)) if pairs else set()
        case ObjectValue(fields=fields):
            return set().union(*(tensor_keys(v) for _, v in fields)) if fields else set()
    return set()
