"""``x + self.body(x)`` where the first layer of a Sequential writes ``x`` in place: that layer is called by itself.

``self.body(x)`` becomes ``after_first(self.body, self.body[0](x))``, whose inner call is an in-place call like others:
what reads ``x`` then gets what torch's has in its memory.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from ms_port.ir.program import CallFact, FunctionDef, ModuleInstance, Program
from ms_port.ir.tree import copy, nid, ported
from ms_port.ir.values import Literal, ModuleValue, TensorValue


def split_first_layer(program: Program, function: FunctionDef, call: ast.Call) -> FunctionDef | None:
    """Change the call as above; the function with the facts of both calls. None where it is no such call."""
    facts = function.facts.calls.get(nid(call), ())
    match call:
        case ast.Call(args=[ast.Name() as given], keywords=[]) if facts:
            firsts = [_first_in_place(program, fact) for fact in facts]
        case _:
            return None
    inner_facts = [_of_first(fact, first) for fact, first in zip(facts, firsts, strict=True) if first is not None]
    if len(inner_facts) != len(facts):
        return None
    first_of = ported(ast.Subscript(copy(call.func), ast.Constant(0), ast.Load()))
    inner = ast.copy_location(ast.Call(first_of, [copy(given)], []), call)
    inner.nid = _new_id(function)  # type: ignore[attr-defined]
    call.args = [inner]
    call.after_first = True  # type: ignore[attr-defined]  # lowering writes it so
    rest = tuple(replace(f, torch_calls=f.torch_calls[1:]) for f in facts)
    calls = {**function.facts.calls, nid(inner): tuple(inner_facts), nid(call): rest}
    values = {**function.facts.values, nid(inner): tuple(f.result for f in inner_facts)}
    return replace(function, facts=replace(function.facts, calls=calls, values=values))


def _first_in_place(program: Program, fact: CallFact) -> ModuleInstance | None:
    """The first layer of the Sequential called, where it alone writes what the call is given."""
    match fact:
        case CallFact(callee=ModuleValue(cls="torch.nn.Sequential", path=str(path)), args=(TensorValue() as given,)):
            children = program.modules[path].children
        case _:
            return None
    first = program.modules.get(children[0][1]) if len(children) > 1 else None
    if first is None or not first.is_torch or ("inplace", Literal(True)) not in first.attributes:
        return None
    writers = [i for i in fact.torch_calls if given.storage in program.ledger[i].writes]
    return first if writers == [*fact.torch_calls[:1]] else None


def _of_first(fact: CallFact, first: ModuleInstance) -> CallFact:
    return replace(
        fact, callee=ModuleValue(first.cls, first.path), result=fact.args[0], torch_calls=fact.torch_calls[:1]
    )


def _new_id(function: FunctionDef) -> int:
    known: Sequence[int] = [
        *function.facts.calls,
        *function.facts.values,
        *(nid(n) for s in function.body for n in ast.walk(s)),
    ]
    return max(known) + 1
