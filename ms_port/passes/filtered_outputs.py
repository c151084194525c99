"""Fields of an output object that a decorator takes out again: the port's method does not return them."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any

from ms_port.capture.recording import Recording
from ms_port.ir.program import FunctionDef, Program
from ms_port.ir.tree import nid
from ms_port.ir.values import Literal, ObjectValue, Value
from ms_port.passes.rewrite import map_functions
from ms_port.passes.wrapped_methods import WrappedMethod, wrapped_methods


def without_filtered_fields(program: Program, recording: Recording) -> Program:
    """The program as if each method had made its output without what every run of its decorator took out."""
    taken = {m.key: names for m in wrapped_methods(recording) if (names := _taken_out(m))}
    filtered: dict[str, frozenset[str]] = {}

    def cut(function: FunctionDef) -> FunctionDef:
        names = taken.get(function.key)
        made = _without(function, names) if names is not None else None
        if names is None or made is None:
            return function
        filtered[function.key] = names
        return made

    return replace(map_functions(program, cut), filtered=filtered) if taken else program


def output_items(result: Any) -> Mapping[str, Any]:
    """The fields of an output object by name; nothing of anything else."""
    if isinstance(result, dict):
        return dict(result)
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return {f.name: getattr(result, f.name) for f in dataclasses.fields(result)}
    return {}


def _taken_out(method: WrappedMethod) -> frozenset[str]:
    """The fields that the method gave and its wrapper did not, if these are the same and the only difference always."""
    found: set[frozenset[str]] = set()
    for wrapper, run in method.runs():
        if run is None or wrapper.raised or run.raised or type(wrapper.result) is not type(run.result):
            return frozenset()
        inner, outer = output_items(run.result), output_items(wrapper.result)
        if any(item is not inner.get(name) for name, item in outer.items() if item is not None):
            return frozenset()
        found.add(frozenset(name for name, item in inner.items() if item is not None and outer.get(name) is None))
    return found.pop() if len(found) == 1 else frozenset()


def _without(function: FunctionDef, names: Set[str]) -> FunctionDef | None:
    """The method whose output lacks these fields; None unless each of its outputs is made where it is returned."""
    facts, cut = function.facts, dict(function.facts.calls)
    for node in (n for s in function.body for n in ast.walk(s)):
        if isinstance(node, ast.Return) and nid(node) in facts.ran:
            made = facts.calls.get(nid(node.value), ()) if isinstance(node.value, ast.Call) else ()
            if not made or not all(isinstance(f.result, ObjectValue) and f.result.kind == "output" for f in made):
                return None
            assert node.value is not None
            cut[nid(node.value)] = tuple(replace(fact, result=_cut(fact.result, names)) for fact in made)
    return replace(function, facts=replace(facts, calls=cut))


def _cut(value: Value, names: Set[str]) -> Value:
    if not isinstance(value, ObjectValue):
        return value
    return replace(value, fields=tuple((n, Literal(None) if n in names else item) for n, item in value.fields))
