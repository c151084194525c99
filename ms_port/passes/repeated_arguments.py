"""Layers that are written out one by one: what all calls of one class repeat stands once, in a ``partial``.

Where the source builds its layers by what can't be translated (an object that decodes strings), the port writes them
out. A colleague would not repeat five arguments in twenty lines.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from ms_port.ir.program import FunctionDef, Program
from ms_port.ir.tree import copy, names_read
from ms_port.passes.finish import local_names
from ms_port.passes.rewrite import map_functions

_FEWEST = 3
"""Calls of one class from which on it pays."""
_PAYS = 60
"""Characters that it must spare."""


def state_once(program: Program) -> Program:
    """The program with shared arguments of layers that are written out stated once."""
    return map_functions(program, lambda function: _stated(program, function))


def _stated(program: Program, function: FunctionDef) -> FunctionDef:
    # `held`: a statement that was written from what the instances hold (passes/lowering/held.py)
    if not any(getattr(s, "held", False) for s in function.body):
        return function
    cells = {cell.name for cell in program.cells.values()}
    taken = cells | {f.name for f in program.functions.values()} | set(program.constants) | local_names(function)
    body: list[ast.stmt] = []
    for statement in function.body:
        if getattr(statement, "held", False):
            made = copy(statement)
            body += [*_locals(made, taken), *_partials(made, cells, taken), made]
        else:
            body.append(statement)
    return replace(function, body=tuple(body))


def _locals(statement: ast.stmt, taken: set[str]) -> list[ast.stmt]:
    """The statements that bind a long argument to its own name: ``norm_layer = partial(nn.BatchNorm2d, eps=1e-3)``."""
    made: list[ast.stmt] = []
    while (found := _commonest([statement, *made], taken)) is not None:
        name, keywords = found
        taken.add(name)
        bound = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], keywords[0].value), statement)
        for keyword in keywords:
            keyword.value = ast.Name(name, ast.Load())
        first = (i for i, other in enumerate(made) if name in names_read([other]))
        made.insert(next(first, len(made)), bound)
    return made


def _commonest(statements: Sequence[ast.stmt], taken: set[str]) -> tuple[str, list[ast.keyword]] | None:
    """The longest value that is given often enough under a name that is free, and where."""
    uses: dict[tuple[str, str], list[ast.keyword]] = defaultdict(list)
    for call in (n for s in statements for n in ast.walk(s) if isinstance(n, ast.Call)):
        for keyword in call.keywords:
            if isinstance(keyword.value, ast.Call) and _makes_nothing(keyword.value) and keyword.arg not in taken:
                uses[keyword.arg or "", ast.dump(keyword.value)].append(keyword)
    often = {key: keywords for key, keywords in uses.items() if key[0] and len(keywords) >= _FEWEST}
    if not often:
        return None
    key = max(often, key=lambda k: (len(k[1]), len(often[k])))
    return key[0], often[key]


def _partials(statement: ast.stmt, cells: set[str], taken: set[str]) -> list[ast.stmt]:
    """The statements that bind the partials; the calls are changed in place."""
    groups: dict[str, list[ast.Call]] = defaultdict(list)
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in cells:
            groups[node.func.id].append(node)
    made: list[ast.stmt] = []
    for cls, calls in groups.items():
        shared, alike = _most_alike(calls)
        if (len(alike) - 1) * sum(len(ast.unparse(k)) for k in shared) < _PAYS:
            continue
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls).lower()
        if name in taken:
            continue
        taken.add(name)
        value = ast.Call(ast.Name("partial", ast.Load()), [ast.Name(cls, ast.Load())], shared)
        made.append(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), statement))
        for call in alike:
            call.func = ast.Name(name, ast.Load())
            call.keywords = [k for k in call.keywords if k.arg not in {s.arg for s in shared}]
    return made


def _most_alike(calls: Sequence[ast.Call]) -> tuple[list[ast.keyword], list[ast.Call]]:
    """The keywords to state once, and the calls that give them all: where that spares the most.

    None of them makes a layer: the calls would share it.
    """
    given = [k for call in calls for k in call.keywords if k.arg is not None and _makes_nothing(k.value)]
    counts = Counter(map(_text, given))
    best: tuple[list[ast.keyword], list[ast.Call]] = ([], [])
    for often in sorted({n for n in counts.values() if n >= _FEWEST}, reverse=True):
        kept = {_text(k): k for k in given if counts[_text(k)] >= often}
        alike = [call for call in calls if kept.keys() <= {_text(k) for k in call.keywords}]
        if len(kept) * len(alike) > len(best[0]) * len(best[1]) and len(kept) > 1:
            best = ([copy(k) for k in alike[0].keywords if _text(k) in kept], alike)
    return best


def _text(keyword: ast.keyword) -> str:
    return f"{keyword.arg}={ast.dump(keyword.value)}"


def _makes_nothing(value: ast.expr) -> bool:
    calls = (n for n in ast.walk(value) if isinstance(n, ast.Call))
    return all(isinstance(c.func, ast.Name) and (c.func.id == "partial" or hasattr(c, "config")) for c in calls)
