"""``x[:, 0::2]``: a stepped slice of an inner axis is taken with that axis in front.

On CPU the gradient of such a slice fails unless it is the only one and of the first or the last axis.
"""

from __future__ import annotations

import ast

from ms_port.ir.tree import literal
from ms_port.ir.values import TensorValue
from ms_port.passes.lowering.scope import Scope, mark_functions


def stepped_axes(scope: Scope, node: ast.Subscript) -> list[int]:
    """Axes of a tensor that are sliced with a step in a way that has no gradient; empty where all is well."""
    ranks = {v.ndim if isinstance(v, TensorValue) else -1 for v in scope.values(node.value)}
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if scope.host or not isinstance(node.ctx, ast.Load) or len(ranks) != 1 or -1 in ranks:
        return []
    rank = ranks.pop()
    taking = [p for p in parts if not (isinstance(p, ast.Constant) and p.value in (None, Ellipsis))]
    axis, found = 0, []
    for part in parts:
        if isinstance(part, ast.Constant) and part.value is None:
            continue
        if isinstance(part, ast.Constant) and part.value is Ellipsis:
            axis += rank - len(taking)
            continue
        if any(isinstance(v, TensorValue) for v in scope.values(part)):
            return []
        if isinstance(part, ast.Slice) and part.step is not None and ast.unparse(part.step) != "1":
            found.append(axis)
        axis += 1
    return [] if len(found) == 1 and found[0] in (0, rank - 1) else found


def without_steps(scope: Scope, lowered: ast.Subscript, axes: list[int]) -> ast.expr:
    """``every(x, 1, 2)`` for ``x[:, 0::2]``, with what else the index does behind it."""
    parts = list(lowered.slice.elts) if isinstance(lowered.slice, ast.Tuple) else [lowered.slice]
    scope.work.op_functions.add("every")
    made = lowered.value
    remaining = iter(axes)
    for index, part in enumerate(parts):
        if not (isinstance(part, ast.Slice) and part.step is not None and ast.unparse(part.step) != "1"):
            continue
        every = mark_functions(ast.Name("every", ast.Load()), frozenset(["every"]))
        start = part.lower is not None and ast.unparse(part.lower) != "0"
        given = [("start", part.lower if start else None), ("stop", part.upper)]
        ends = [ast.keyword(word, end) for word, end in given if end is not None]
        made = ast.Call(every, [made, literal(next(remaining)), part.step], ends)
        parts[index] = ast.Slice()
    while parts and (ast.unparse(parts[-1]) in (":", "...")):
        parts.pop()
    if not parts or all(ast.unparse(p) in (":", "...") for p in parts):
        return made
    index_of_rest: ast.expr = ast.Tuple(parts, ast.Load()) if len(parts) > 1 else parts[0]
    return ast.Subscript(made, index_of_rest, ast.Load())
