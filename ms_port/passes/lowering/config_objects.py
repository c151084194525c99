"""Configuration objects that a constructor makes or changes: ``Config(width=2 * n)``, ``replace(config, depth=1)``."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from ms_port.ir.program import CallFact
from ms_port.ir.tree import expression
from ms_port.ir.values import Literal, ModuleValue, ObjectValue
from ms_port.passes.lowering.arguments import user_arguments
from ms_port.passes.lowering.configs import argument_value
from ms_port.passes.lowering.expressions import lower
from ms_port.passes.lowering.scope import Scope, Untranslatable, same


def make_config(scope: Scope, node: ast.Call, facts: Sequence[CallFact], result: ObjectValue) -> ast.expr:
    """The call as the source writes it where the class only stores its arguments; else what came out of it."""
    known = scope.work.program.config_classes.get(result.cls)
    starred = any(isinstance(a, ast.Starred) for a in node.args)
    if known is None or not known.stores or starred:
        if not same([f.result for f in facts]) and len({_literals(f) for f in facts}) != 1:
            raise Untranslatable(node, f"{result.cls} is made with several settings")
        return argument_value(scope.work, result)
    args, keywords = user_arguments(scope, node, facts)
    given: dict[str | None, ast.expr] = dict(zip((name for name, _ in known.fields), args, strict=False))
    given.update({k.arg: k.value for k in keywords})
    for name, value in result.fields:
        if name not in given and not isinstance(value, Literal):
            given[name] = argument_value(scope.work, value)
    return _config_call(scope, result.cls, result.cls.rpartition(".")[2], [], given)


def replaced_config(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr:
    """``replace(config, depth=1)``: kept for the fields that something reads."""
    result = facts[0].result
    if not isinstance(result, ObjectValue) or result.kind != "config":
        raise Untranslatable(node, "dataclasses.replace of what is no configuration")
    args, keywords = user_arguments(scope, node, facts)
    return _config_call(scope, result.cls, "replace", args, {k.arg: k.value for k in keywords})


def copied(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr:
    """``copy.copy(config)`` -> ``replace(config)``; a copy of plain values is one by their type."""
    result, given = facts[0].result, lower(scope, node.args[0])
    match result:
        case ModuleValue() if getattr(facts[0].callee, "name", "") == "copy:deepcopy":
            # A copied cell has parameters of its own, which are named by where it is put.
            return ast.Call(expression("copy.deepcopy"), [given], [])
        case ObjectValue(kind="config"):
            return ast.Call(ast.Name("replace", ast.Load()), [given], [])
        case Literal(value=list() | dict() | set()):
            return ast.Call(ast.Name(type(result.value).__name__, ast.Load()), [given], [])
        case Literal():
            return given
    raise Untranslatable(node, f"a copy of {result}")


def _config_call(
    scope: Scope, cls: str, name: str, args: list[ast.expr], given: Mapping[str | None, ast.expr]
) -> ast.expr:
    scope.work.config_fields[cls]
    call = ast.Call(ast.Name(name, ast.Load()), args, [ast.keyword(k, v) for k, v in given.items()])
    call.fields_of = cls  # type: ignore[attr-defined]
    return call


def _literals(fact: CallFact) -> str:
    return repr(fact.result.fields) if isinstance(fact.result, ObjectValue) else ""
