"""Names that a loop binds first and the code after it reads: GRAPH_MODE wants them bound before the loop."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from ms_port.ir.program import FunctionDef, Program
from ms_port.ir.tree import copy

_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def bind_before_loops(program: Program) -> Program:
    """``v = None`` before each loop that binds ``v`` first, where ``v`` is read after it or in its next round."""
    cells = {key: replace(cell, methods=tuple(_bound(m) for m in cell.methods)) for key, cell in program.cells.items()}
    functions = {key: _bound(function) for key, function in program.functions.items()}
    return replace(program, cells=cells, functions=functions)


def _bound(function: FunctionDef) -> FunctionDef:
    loops = (n for s in function.body for n in ast.walk(s) if isinstance(n, ast.For | ast.While))
    if function.during_init or next(loops, None) is None:
        return function
    arguments = function.node.args
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    body = _block([copy(s) for s in function.body], {a.arg for a in given if a is not None}, set())
    return replace(function, body=tuple(body))


def _block(statements: Sequence[ast.stmt], bound: set[str], live: set[str]) -> list[ast.stmt]:
    """The block with its loops' names bound; ``bound`` have values before it, ``live`` are read after it."""
    after: list[set[str]] = []
    for statement in reversed(statements):
        after.insert(0, live)
        live = _live_before(statement, live)
    made: list[ast.stmt] = []
    for statement, read in zip(statements, after, strict=True):
        if isinstance(statement, ast.For | ast.While):
            read = read | _live_before(statement, read)
            for name in sorted((_stored([statement]) & read) - bound):
                made.append(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None)), statement))
                bound.add(name)
        if isinstance(statement, ast.For | ast.While | ast.If):
            statement.body = _block(statement.body, set(bound), read)
            statement.orelse = _block(statement.orelse, set(bound), read)
        bound |= _stored([statement])
        made.append(statement)
    return made


def _live_before(statement: ast.stmt, live: set[str]) -> set[str]:
    """Names whose value before the statement may still be read."""
    match statement:
        case ast.Return() | ast.Raise():
            return _read(statement)
        case ast.If(test=test, body=body, orelse=orelse):
            return _read(test) | _live(body, live) | _live(orelse, live)
        case ast.For(target=target, iter=iterated, body=body, orelse=orelse):
            round_ = _live(body, live | _live(body, live)) - _stored([target])
            return _read(iterated) | round_ | _live(orelse, live) | live
        case ast.While(test=test, body=body, orelse=orelse):
            return _read(test) | _live(body, live | _read(test) | _live(body, live)) | _live(orelse, live)
        case ast.AugAssign(target=target):
            return live | _read(statement) | _stored([target])
        case ast.FunctionDef():
            return live | _read(statement)
    return (live - _stored([statement])) | _read(statement)


def _live(statements: Sequence[ast.stmt], live: set[str]) -> set[str]:
    for statement in reversed(statements):
        live = _live_before(statement, live)
    return live


def _read(node: ast.AST) -> set[str]:
    """Names read below the node, those of comprehensions and lambdas aside."""
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    names = set().union(*map(_read, ast.iter_child_nodes(node)))
    if isinstance(node, _Comprehension):
        return names - {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
    if isinstance(node, ast.Lambda):
        return names - {a.arg for a in node.args.args}
    return names


def _stored(nodes: Sequence[ast.AST]) -> set[str]:
    """Names bound below the nodes, those of comprehensions aside."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        if not isinstance(node, _Comprehension | ast.Lambda):
            names |= _stored(list(ast.iter_child_nodes(node)))
    return names
