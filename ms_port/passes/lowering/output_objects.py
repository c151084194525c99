"""Output objects and named tuples made in the graph: tuples of the fields that hold tensors."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ms_port.ir.program import CallFact
from ms_port.ir.tree import copy, literal
from ms_port.ir.values import DictValue, ObjectValue, holds_tensor
from ms_port.passes.lowering.attributes import output_fields
from ms_port.passes.lowering.expressions import lower
from ms_port.passes.lowering.scope import Scope, Untranslatable


def output_tuple(scope: Scope, node: ast.Call, facts: Sequence[CallFact], result: ObjectValue) -> ast.expr:
    """``ModelOutput(a=x, b=None)`` -> ``(x,)``: the fields that hold tensors, in order."""
    kept = output_fields(result)
    given: dict[str, ast.expr] = {name: arg for (name, _), arg in zip(result.fields, node.args, strict=False)}
    given.update({k.arg: k.value for k in node.keywords if k.arg is not None})
    unpacked = {name: part for k in node.keywords if k.arg is None for name, part in _entries(scope, k.value).items()}
    if any(name not in given and name not in unpacked for name in kept):
        raise Untranslatable(node, f"{result.cls} is not given its fields by name")
    if any(output_fields(f.result) != kept for f in facts if isinstance(f.result, ObjectValue)):
        raise Untranslatable(node, f"{result.cls} does not always hold the same fields")
    parts = [lower(scope, given[name]) if name in given else unpacked[name] for name in kept]
    return ast.Tuple(parts, ast.Load())


def replaced_fields(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr | None:
    """``pair._replace(b=x)`` of a named tuple, a tuple in the port -> ``(pair[0], x)``."""
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "_replace" or scope.host:
        return None
    bases, result = scope.values(node.func.value), facts[0].result
    if not all(isinstance(v, ObjectValue) and v.kind == "output" for v in (*bases, *(f.result for f in facts))):
        return None
    assert isinstance(result, ObjectValue)
    kept = output_fields(result)
    fields = {tuple(output_fields(v)) for v in (*bases, *(f.result for f in facts)) if isinstance(v, ObjectValue)}
    if fields != {tuple(kept)}:
        raise Untranslatable(node, f"{result.cls} does not always hold the same fields")
    given = {k.arg: k.value for k in node.keywords}
    whole = lower(scope, node.func.value)
    parts = [
        lower(scope, given[name]) if name in given else ast.Subscript(copy(whole), literal(i), ast.Load())
        for i, name in enumerate(kept)
    ]
    return ast.Tuple(parts, ast.Load())


def _entries(scope: Scope, container: ast.expr) -> dict[str, ast.expr]:
    """The entries of a ``**container`` that hold tensors: of an output object, a tuple here, or of a dict."""
    values = scope.values(container)
    if not values or not isinstance(container, ast.Name):
        return {}
    match values[0]:
        case ObjectValue(kind="output"):
            names = output_fields(values[0])
            if any(not isinstance(v, ObjectValue) or output_fields(v) != names for v in values):
                return {}
            keys: list[object] = list(range(len(names)))
        case DictValue(items=pairs):
            names = [str(key) for key, item in pairs if holds_tensor(item)]
            keys = list(names)
        case _:
            return {}
    whole = lower(scope, container)
    return {name: ast.Subscript(whole, literal(key), ast.Load()) for name, key in zip(names, keys, strict=True)}
