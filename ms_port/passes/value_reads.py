"""Value reads that change nothing: a branch that the port compiles both ways, a check that it leaves out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from ms_port.ir.flags import FIXED_SIZE, Flag
from ms_port.ir.program import Program
from ms_port.passes.lowering.mask_writes import STATIC
from ms_port.passes.prune import CHECK
from ms_port.passes.rewrite import all_functions


def settle_value_reads(program: Program) -> Program:
    """Lower the flags of such reads to information."""
    kept = set(_branches(program))
    checks = {(d.loc.file, d.loc.line) for d in program.drops if d.reason == CHECK}
    static = {(d.loc.file, d.loc.line) for d in program.drops if d.reason == STATIC}
    fixed = {f.source for f in program.flags if f.rule == "MSP201" and f.message == FIXED_SIZE}
    fixed -= {f.source for f in program.flags if f.rule == "MSP201" and f.severity != "info" and _is_read(f)}
    flags = []
    for flag in program.flags:
        if flag.rule == "MSP201" and flag.source in fixed:
            flag = replace(flag, severity="info")
        place = (flag.source.file, flag.source.line) if flag.source is not None else None
        if flag.rule == "MSP201" and flag.op == "torch.Tensor.__getitem__" and place in static:
            continue
        if flag.rule == "MSP301" and flag.op == "torch.Tensor.__bool__" and place is not None:
            if place in kept:
                message = "a branch on a tensor's value: the port compiles it both ways"
                flag = replace(flag, severity="info", message=message, advice="Nothing to do.")
            elif place in checks:
                message = "a check of tensor values: the port leaves it out"
                flag = replace(flag, severity="info", message=message, advice="Check the values outside the model.")
        flags.append(flag)
    return replace(program, flags=tuple(dict.fromkeys(flags)))


def _is_read(flag: Flag) -> bool:
    """Whether the trace saw the flag's read; a row only says what its op may do."""
    return flag.message.startswith("the size of what")


def _branches(program: Program) -> Iterator[tuple[str, int]]:
    """Places of the conditions that stand in the port."""
    for function in all_functions(program):
        for node in (n for statement in function.body for n in ast.walk(statement)):
            if isinstance(node, ast.If | ast.While | ast.IfExp):
                for part in [node, *ast.walk(node.test)]:
                    if (line := getattr(part, "lineno", None)) is not None:
                        yield function.loc.file, line
