"""Functionalize: a write in place becomes a rebinding, and names that shared the written tensor follow it.

``x.add_(y)`` -> ``x = x.add_(y)`` (lowering drops the underscore); ``out += y`` -> ``out = out + y``; where an in-place
layer wrote into ``x`` and returned it as ``out``, later reads of ``x`` become ``out``.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from ms_port.ir.flags import Flag
from ms_port.ir.program import CallFact, FunctionDef, Program, SourceLoc
from ms_port.ir.tree import copy, names_stored, nid
from ms_port.ir.values import FunctionValue, TensorValue, Value
from ms_port.passes.rewrite import map_functions


def functionalize(program: Program) -> Program:
    """Rewrite every graph function so that no statement depends on a write through another name."""
    flags: list[Flag] = []

    def one(function: FunctionDef) -> FunctionDef:
        if function.during_init:
            return function
        work = _Functionalize(program, function, flags)
        return replace(function, body=tuple(work.block(function.body, {})))

    changed = map_functions(program, one)
    return replace(changed, flags=(*changed.flags, *flags))


@dataclass(slots=True)
class _Functionalize:
    program: Program
    function: FunctionDef
    flags: list[Flag]
    _held: dict[str, list[TensorValue]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, values in self.function.facts.parameters.items():
            self._held[name] = [v for v in values if isinstance(v, TensorValue)]

    def block(self, statements: Sequence[ast.stmt], alias: dict[str, str]) -> list[ast.stmt]:
        """``alias``: a name -> the name that holds its tensor's newest content."""
        result: list[ast.stmt] = []
        for index, statement in enumerate(statements):
            later = statements[index + 1 :]
            statement = _Rename(alias).visit(copy(statement)) if alias else statement
            self._note(statement)
            for name in names_stored(statement):
                if not _is_compound(statement):
                    alias.pop(name, None)
                    for key in [k for k, v in alias.items() if v == name]:
                        del alias[key]
            result.extend(self._statement(statement, later, alias))
        return result

    def _note(self, statement: ast.stmt) -> None:
        """Remember which tensors a name was bound to."""
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._held[name] = [v for v in self._values(value) if isinstance(v, TensorValue)]

    def _statement(self, statement: ast.stmt, later: Sequence[ast.stmt], alias: dict[str, str]) -> list[ast.stmt]:
        if _is_compound(statement):
            return [self._compound(statement, alias)]
        match statement:
            case ast.Expr(value=ast.Call() as call) if self._is_inplace_method(call):
                target = _store(self._written_receiver(call))
                if target is not None:
                    self._follow(statement, _root_name(target), later, alias)
                    return [ast.copy_location(ast.Assign([target], call), statement)]
            case ast.AugAssign(target=ast.Name() as target) if self._holds_tensor(statement):
                self._follow(statement, target.id, later, alias)
                load = ast.copy_location(ast.Name(target.id, ast.Load()), target)
                load.nid = nid(target)  # type: ignore[attr-defined]
                value = ast.copy_location(ast.BinOp(load, statement.op, statement.value), statement)
                return [ast.copy_location(ast.Assign([target], value), statement)]
        return self._hoist(statement, later, alias)

    def _written_receiver(self, call: ast.Call) -> ast.expr:
        """What ``x.add_(1).mul_(2)`` writes into: ``x``."""
        assert isinstance(call.func, ast.Attribute)
        receiver = call.func.value
        while isinstance(receiver, ast.Call) and self._is_inplace_method(receiver):
            assert isinstance(receiver.func, ast.Attribute)
            receiver = receiver.func.value
        return receiver

    def _compound(self, statement: ast.stmt, alias: dict[str, str]) -> ast.stmt:
        new = copy(statement)
        for part in ("body", "orelse", "finalbody"):
            inner = getattr(new, part, None)
            if inner:
                setattr(new, part, self.block(inner, alias))
        return new

    def _hoist(self, statement: ast.stmt, later: Sequence[ast.stmt], alias: dict[str, str]) -> list[ast.stmt]:
        """In-place calls inside an expression whose operand is read again."""
        before: list[ast.stmt] = []
        for call in [n for n in ast.walk(statement) if isinstance(n, ast.Call)]:
            for operand in self._written_names(call):
                if operand not in _read_after(call, statement, later):
                    continue
                target = self._returned_as(statement, call)
                if target is not None and target != operand:
                    alias[operand] = target
                elif target is None:
                    name = ast.Name(operand, ast.Store())
                    moved = ast.copy_location(ast.Assign([name], copy(call)), statement)
                    before.append(moved)
                    read = ast.Name(operand, ast.Load())
                    read.nid = nid(call)  # type: ignore[attr-defined]
                    statement = cast(ast.stmt, _Replace(call, read).visit(statement))
        return [*before, statement]

    def _written_names(self, call: ast.Call) -> list[str]:
        """Local names among the operands whose tensor the call wrote into."""
        facts = self.function.facts.calls.get(nid(call), ())
        written = {s for fact in facts for s in self._written(fact)}
        if not written:
            return []
        operands: list[ast.expr] = list(call.args)
        if isinstance(call.func, ast.Attribute):
            operands.append(call.func.value)
        names = []
        for operand in operands:
            if not isinstance(operand, ast.Name) or operand.id == "self":
                continue
            if any(isinstance(v, TensorValue) and v.storage in written for v in self._values(operand)):
                names.append(operand.id)
        return names

    def _written(self, fact: CallFact) -> set[int]:
        return {s for i in fact.torch_calls for s in self.program.ledger[i].writes}

    def _returned_as(self, statement: ast.stmt, call: ast.Call) -> str | None:
        """The name to which the call's result is bound by this statement."""
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is call:
                return name
        return None

    def _follow(
        self, statement: ast.stmt, written: str | None, later: Sequence[ast.stmt], alias: dict[str, str]
    ) -> None:
        """Names bound to the same tensor that are read later follow the written one; views are flagged."""
        if written is None:
            return
        seen = [*self._tensors(statement, written), *self._held.get(written, ())]
        for name, values in self._read_later(later).items():
            if name == written:
                continue
            if any(v.key in {s.key for s in seen} for v in values):
                alias[name] = written
            elif any(v.storage in {s.storage for s in seen} for v in values if v.storage):
                self._flag_view(statement, written, name)

    def _tensors(self, node: ast.AST, name: str) -> list[TensorValue]:
        return [
            v
            for n in ast.walk(node)
            if isinstance(n, ast.Name) and n.id == name
            for v in self._values(n)
            if isinstance(v, TensorValue)
        ]

    def _read_later(self, later: Sequence[ast.stmt]) -> dict[str, list[TensorValue]]:
        found: dict[str, list[TensorValue]] = {}
        for statement in later:
            for n in ast.walk(statement):
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load):
                    found.setdefault(n.id, []).extend(v for v in self._values(n) if isinstance(v, TensorValue))
        return found

    def _flag_view(self, statement: ast.stmt, written: str, other: str) -> None:
        self.flags.append(
            Flag(
                rule="MSP401",
                severity="warning",
                message=f"`{written}` is written in place while `{other}` shares its memory and is read later",
                module=self.function.owner or self.function.key,
                source=SourceLoc(self.function.loc.file, getattr(statement, "lineno", self.function.loc.line)),
                advice=f"Make `{other}` from the new `{written}`, or write into `{other}` explicitly.",
            )
        )

    def _is_inplace_method(self, call: ast.Call) -> bool:
        facts = self.function.facts.calls.get(nid(call), ())
        callee = facts[0].callee if facts else None
        if not (isinstance(callee, FunctionValue) and callee.torch and isinstance(call.func, ast.Attribute)):
            return False
        short = callee.name.rpartition(".")[2]
        return callee.name.startswith("torch.Tensor.") and short.endswith("_") and not short.endswith("__")

    def _holds_tensor(self, statement: ast.AugAssign) -> bool:
        values = [*self._values(statement.target), *self._values(statement.value)]
        return any(isinstance(v, TensorValue) for v in values)

    def _values(self, node: ast.AST) -> tuple[Value, ...]:
        return self.function.facts.values.get(nid(node), ())


def _is_compound(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If | ast.For | ast.While | ast.With | ast.Try)


def _store(node: ast.expr) -> ast.expr | None:
    """The receiver as a target; None for what can't be bound (a call's result)."""
    if isinstance(node, ast.Name | ast.Subscript | ast.Attribute):
        target = copy(node)
        target.ctx = ast.Store()
        return target
    return None


def _root_name(node: ast.expr) -> str | None:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) and node.id != "self" else None


def _read_after(call: ast.Call, statement: ast.stmt, later: Sequence[ast.stmt]) -> set[str]:
    """Names read after the call: elsewhere in its statement, or later before they are bound anew."""
    inside = {id(n) for n in ast.walk(call)}
    names = {
        n.id
        for n in ast.walk(statement)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and id(n) not in inside
    }
    rebound = names_stored(statement)
    for following in later:
        reads = {n.id for n in ast.walk(following) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        names |= reads - rebound
        if not _is_compound(following):
            rebound |= names_stored(following)
    return names


class _Rename(ast.NodeTransformer):
    def __init__(self, alias: dict[str, str]) -> None:
        self._alias = alias

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if isinstance(node.ctx, ast.Load) and node.id in self._alias:
            new = ast.copy_location(ast.Name(self._alias[node.id], node.ctx), node)
            new.nid = nid(node)  # type: ignore[attr-defined]
            return new
        return node


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.expr) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else super().visit(node)
