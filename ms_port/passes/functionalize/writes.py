"""Which tensors the statements of one function write, as the trace saw it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ms_port.ir.program import CallFact, FunctionDef, LedgerEntry, Program
from ms_port.ir.tree import nid
from ms_port.ir.values import FunctionValue, TensorValue, Value
from ms_port.passes.functionalize.outs import gives_dtype_of_out, out_argument
from ms_port.passes.functionalize.syntax import calls_in_order, is_store
from ms_port.passes.holders import root_of


@dataclass(frozen=True, slots=True)
class Writes:
    """The writes of one function, by statement, call and evaluation."""

    program: Program
    function: FunctionDef
    bound: dict[str, list[TensorValue]]
    """Name -> the tensors that it was last bound to; kept by the pass."""

    def written_operand(self, call: ast.Call) -> ast.expr | None:
        """The name, attribute or element that a call writes in place and returns; None where it writes none."""
        facts = self.function.facts.calls.get(nid(call), ())
        written = {s for fact in facts for s in self.storages(fact)}
        if not written:
            return None
        if self.is_inplace_method(call):
            receiver = self.receiver(call)
            return receiver if isinstance(receiver, ast.Name | ast.Attribute | ast.Subscript) else None
        if (out := out_argument(call)) is not None:
            return out if all(map(gives_dtype_of_out, facts)) else None
        for index, operand in enumerate(call.args):
            if isinstance(operand, ast.Starred):
                return None
            if isinstance(operand, ast.Name) and all(self._hands_back(fact, index) for fact in facts):
                return operand
        return None

    def _hands_back(self, fact: CallFact, index: int) -> bool:
        """Whether this evaluation returned its argument, and wrote it if it wrote anything."""
        given = fact.args[index] if index < len(fact.args) else None
        if not (isinstance(given, TensorValue) and isinstance(fact.result, TensorValue)):
            return False
        written = self.storages(fact)
        return given.key == fact.result.key and (given.storage in written or not written)

    def receiver(self, call: ast.Call) -> ast.expr:
        """What ``x.add_(1).mul_(2)`` writes into: ``x``."""
        func = self.first_call(call).func
        assert isinstance(func, ast.Attribute)
        return func.value

    def first_call(self, call: ast.Call) -> ast.Call:
        """The innermost of a chain of in-place methods: ``x.add_(1)`` of ``x.add_(1).mul_(2)``."""
        while True:
            assert isinstance(call.func, ast.Attribute)
            receiver = call.func.value
            if not (isinstance(receiver, ast.Call) and self.is_inplace_method(receiver)):
                return call
            call = receiver

    def of(self, statement: ast.stmt) -> list[frozenset[int]]:
        """The storages that a plain statement writes, by evaluation where one call makes them."""
        calls = [[frozenset(self.storages(f)) for f in facts] for facts in self._writing(statement)]
        found = [storages for rows in calls for storages in rows]
        if is_store(statement):
            found += [entry.writes for entry in self.ledger(statement)]
        return found

    def times(self, statement: ast.stmt) -> list[tuple[int, frozenset[int]]]:
        """The torch calls of a plain statement that write: index and storages."""
        indices = [i for facts in self._writing(statement) for fact in facts for i in fact.torch_calls]
        found = [(i, self.program.ledger[i].writes) for i in indices if self.program.ledger[i].writes]
        if is_store(statement):
            found += [(entry.index, entry.writes) for entry in self.ledger(statement)]
        return found

    def _writing(self, statement: ast.stmt) -> list[tuple[CallFact, ...]]:
        """The outermost calls of a statement that write."""
        found: list[tuple[CallFact, ...]] = []
        seen: set[int] = set()
        for call, _ in reversed(list(calls_in_order(statement))):
            facts = self.function.facts.calls.get(nid(call), ())
            if id(call) not in seen and any(map(self.storages, facts)):
                found.append(facts)
                seen |= {id(n) for n in ast.walk(call)}
        return found

    def ledger(self, statement: ast.stmt) -> list[LedgerEntry]:
        """The torch calls of ``x += 1`` and ``x[i] = 1``, which are no calls in the source."""
        match statement:
            case ast.AugAssign(target=ast.Name(id=name)) if not self.bound.get(name):
                return []  # a number: another statement of the line writes
        lines = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
        assert isinstance(statement, ast.AugAssign | ast.Assign)
        place = statement.target if isinstance(statement, ast.AugAssign) else statement.targets[0]
        known = {t.storage for t in self.bound.get(root_of(place) or "", ())}
        return [
            entry
            for entry in self.program.ledger
            if entry.writes
            and entry.function == self.function.key
            and entry.loc.line in lines
            and (not known or known & entry.writes)
            and (entry.api == "torch.Tensor.__setitem__" or entry.api.endswith("_"))
        ]

    def ledger_operands(self, statement: ast.AugAssign | ast.Assign) -> list[TensorValue]:
        """What those calls write to."""
        operands = [entry.args[0] for entry in self.ledger(statement) if entry.args]
        return [v for v in operands if isinstance(v, TensorValue)]

    def storages(self, fact: CallFact) -> set[int]:
        """The storages that one evaluation of a call wrote."""
        return {s for i in fact.torch_calls for s in self.program.ledger[i].writes}

    def tensors(self, node: ast.AST) -> list[TensorValue]:
        """The tensors that an expression evaluated to."""
        return [v for v in self.values(node) if isinstance(v, TensorValue)]

    def is_inplace_method(self, call: ast.Call) -> bool:
        """``x.add_(1)``."""
        facts = self.function.facts.calls.get(nid(call), ())
        callee = facts[0].callee if facts else None
        if not (isinstance(callee, FunctionValue) and callee.torch and isinstance(call.func, ast.Attribute)):
            return False
        short = callee.name.rpartition(".")[2]
        return callee.name.startswith("torch.Tensor.") and short.endswith("_") and not short.endswith("__")

    def values(self, node: ast.AST) -> tuple[Value, ...]:
        """All that an expression evaluated to."""
        return self.function.facts.values.get(nid(node), ())
