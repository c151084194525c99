"""Output objects and named tuples made in the graph: tuples of the fields that hold tensors."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from ms_port.ir.program import CallFact
from ms_port.ir.tree import expression, literal, nid
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
    for name in kept:
        if name not in given and name not in unpacked:
            if not _is_set_later(scope, result.cls, name):
                raise Untranslatable(node, f"{result.cls} is not given its fields by name")
            unpacked[name] = literal(None)
    parts = {name: lower(scope, given[name]) if name in given else unpacked[name] for name in kept}
    if any(output_fields(f.result) != kept for f in facts if isinstance(f.result, ObjectValue)):
        return _by_mode(scope, node, facts, result, given)
    return ast.Tuple([*parts.values()], ast.Load())


def _is_set_later(scope: Scope, cls: str, field: str) -> bool:
    """Whether graph code sets the field of a made object, which has none before: ``out.values = v``."""
    functions = scope.work.all_functions
    if f"{cls.rpartition('.')[0]}:{cls.rpartition('.')[2]}.__post_init__" in functions:
        return False
    for function in functions.values():
        for node in (n for s in function.body for n in ast.walk(s)) if not function.during_init else ():
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr == field:
                held = function.facts.values.get(nid(node.value), ())
                if held and all(isinstance(v, ObjectValue) and v.cls == cls for v in held):
                    return True
    return False


def _by_mode(
    scope: Scope, node: ast.Call, facts: Sequence[CallFact], result: ObjectValue, given: Mapping[str, ast.expr]
) -> ast.expr:
    """What the model returns in training and in evaluation, where other fields hold tensors."""
    kept: dict[str, set[tuple[str, ...]]] = {"train": set(), "eval": set()}
    for fact in facts:
        if isinstance(fact.result, ObjectValue):
            kept[fact.mode].add(tuple(output_fields(fact.result)))
    if not scope.root or any(len(found) != 1 for found in kept.values()):
        raise Untranslatable(node, f"{result.cls} does not always hold the same fields")
    names = {mode: found.pop() for mode, found in kept.items()}
    if not given.keys() >= {name for found in names.values() for name in found}:
        raise Untranslatable(node, f"{result.cls} is not given its fields by name")
    made = {mode: ast.Tuple([lower(scope, given[name]) for name in found], ast.Load()) for mode, found in names.items()}
    return ast.IfExp(expression("self.training"), made["train"], made["eval"])


def replaced_fields(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr | None:
    """``o._replace(b=x)``, ``dataclasses.replace(o, b=x)``: the fields of ``o`` but for those given; else None."""
    if scope.host:
        return None
    match node:
        case ast.Call(func=ast.Attribute(value=held, attr="_replace"), args=[]):
            pass
        case ast.Call(args=[held]) if getattr(facts[0].callee, "name", "") == "dataclasses:replace":
            pass
        case _:
            return None
    olds, news = scope.values(held), [f.result for f in facts]
    if not olds or not all(isinstance(v, ObjectValue) and v.kind == "output" for v in [*olds, *news]):
        return None
    before = [output_fields(v) for v in olds if isinstance(v, ObjectValue)]
    after = [output_fields(v) for v in news if isinstance(v, ObjectValue)]
    given = {k.arg: k.value for k in node.keywords}
    if None in given or any(b != before[0] for b in before) or any(a != after[0] for a in after):
        raise Untranslatable(node, "the fields replaced are not always the same")
    parts: list[ast.expr] = []
    for name in after[0]:
        if name in given:
            parts.append(lower(scope, given[name]))
        else:
            parts.append(ast.Subscript(lower(scope, held), literal(before[0].index(name)), ast.Load()))
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
