"""Prune: what ran in no mode and no instance leaves a graph function; constant conditions are decided.

Constructors are ordinary Python and keep their arms where these resolve by name; that is decided while lowering them.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from ms_port.ir.program import Choice, Drop, FunctionDef, Program, SourceLoc
from ms_port.ir.tree import copy, nid
from ms_port.ir.values import (
    DictValue,
    FunctionValue,
    Literal,
    ModuleValue,
    SequenceValue,
    TensorValue,
    Value,
    holds_tensor,
)
from ms_port.passes.decided import choices
from ms_port.passes.lowering.scope import truth
from ms_port.passes.rewrite import map_functions
from ms_port.passes.tensor_branches import is_compilable

CHECK = "a check of tensor values"
"""Why asserts and ``if bad(x): raise`` are left out."""


def prune(program: Program) -> Program:
    """Drop dead statements and decide constant conditions in every function that runs in the graph."""
    drops: list[Drop] = []
    decided: list[Choice] = []

    def one(function: FunctionDef) -> FunctionDef:
        if function.during_init:
            return function
        return replace(function, body=tuple(_Prune(function, drops, decided).block(function.body)))

    pruned = map_functions(program, one)
    return replace(pruned, drops=(*pruned.drops, *drops), decided=tuple(dict.fromkeys(decided)))


class _Prune(ast.NodeTransformer):
    def __init__(self, function: FunctionDef, drops: list[Drop], decided: list[Choice]) -> None:
        self._facts = function.facts
        self._function = function
        self._drops = drops
        self._decided = decided

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        kept: list[ast.stmt] = []
        for statement in statements:
            if nid(statement) not in self._facts.ran:
                self._drop(statement, "never ran")
                continue
            kept.extend(self._statement(copy(statement)))
            if kept and isinstance(kept[-1], ast.Return | ast.Raise):
                break
        return kept

    def _statement(self, statement: ast.stmt) -> list[ast.stmt]:
        match statement:
            case ast.If():
                return self._if(statement)
            case ast.For() | ast.While():
                body = self.block(statement.body)
                orelse = self.block(statement.orelse)
                if not body:
                    return []
                for name in ("iter", "test", "target"):
                    if hasattr(statement, name):
                        setattr(statement, name, self.visit(getattr(statement, name)))
                statement.body, statement.orelse = body, orelse
                return [statement]
            case ast.With():
                statement.body = self.block(statement.body)
                return [statement] if statement.body else []
            case ast.Try():
                self._drop(statement, "try inlined", quiet=True)
                return self.block([*statement.body, *statement.orelse, *statement.finalbody])
            case ast.Assert():
                if any(holds_tensor(v) for n in ast.walk(statement.test) for v in self._call_values(n)):
                    self._drop(statement, CHECK)
                    return []
            case ast.Import() | ast.ImportFrom() | ast.Global() | ast.Nonlocal():
                return []
            case ast.Expr(value=value) if self._is_noise(value):
                self._drop(statement, "has no effect on the result")
                return []
            case ast.FunctionDef():
                return [statement]
        return [self.generic_visit(statement)]  # type: ignore[list-item]

    def _call_values(self, node: ast.AST) -> tuple[Value, ...]:
        # Only a tensor that a comparison or call produced is a value read; `x.shape[0] == 3` reads no tensor value.
        if isinstance(node, ast.Compare | ast.Call | ast.BoolOp):
            return self._facts.values.get(nid(node), ())
        return ()

    def _if(self, statement: ast.If) -> list[ast.stmt]:
        verdict = truth(self._facts.values.get(nid(statement.test), ()))
        if verdict is None:
            body, orelse = self.block(statement.body), self.block(statement.orelse)
            values = self._facts.values.get(nid(statement.test), ())
            if any(isinstance(v, TensorValue) for v in values):
                truths = self._facts.truths.get(nid(statement.test), ())
                if not self._both_ways(statement, truths):
                    if not orelse and not body and all(isinstance(s, ast.Raise) for s in statement.body):
                        self._drop(statement, CHECK)
                        return []
                    if truths:  # flagged by the reads
                        return body if truths[0] else orelse
                    return body or orelse
            if not body and not orelse:
                return []
            if not body:
                statement.test, body, orelse = negate(self.visit(statement.test)), orelse, []
            else:
                statement.test = self.visit(statement.test)
            statement.body, statement.orelse = body, orelse
            return [statement]
        self._drop(statement.test, f"always {verdict}")
        lost = statement.orelse if verdict else statement.body
        self._decided += choices(self._function, statement.test, lost)
        return self.block(statement.body if verdict else statement.orelse)

    def _both_ways(self, statement: ast.If, truths: Sequence[bool]) -> bool:
        return len(set(truths)) > 1 and is_compilable(self._function, statement)

    def _is_noise(self, value: ast.expr) -> bool:
        """Logging, warnings, prints and checks: a call without torch calls whose result is no tensor."""
        if isinstance(value, ast.Constant):
            return True
        if not isinstance(value, ast.Call):
            return not any(isinstance(n, ast.Call | ast.Yield | ast.Await) for n in ast.walk(value))
        facts = self._facts.calls.get(nid(value), ())
        if not facts or any(f.torch_calls or not isinstance(f.result, Literal) for f in facts):
            return False
        callee = facts[0].callee
        if isinstance(callee, FunctionValue):
            module = callee.name.partition(":")[0].partition(".")[0]
            if module in ("logging", "warnings") or callee.name == "builtins.print":
                return True
            return facts[0].entered is not None and not self._may_change(value)
        return False

    def _may_change(self, call: ast.Call) -> bool:
        """Whether a helper gets a container or a module that it could change."""
        operands = [*call.args, *(k.value for k in call.keywords)]
        values = [v for o in operands for v in self._facts.values.get(nid(o), ())]
        return any(isinstance(v, SequenceValue | DictValue | ModuleValue) for v in values) or any(
            isinstance(v, Literal) and isinstance(v.value, list | dict) for v in values
        )

    def _drop(self, node: ast.AST, reason: str, quiet: bool = False) -> None:
        if quiet or isinstance(node, ast.Pass):
            return
        text = ast.unparse(node).split("\n")[0][:160]
        self._drops.append(
            Drop(self._function.key, SourceLoc(self._function.loc.file, getattr(node, "lineno", 0)), text, reason)
        )

    # --- expressions ----------------------------------------------------------------------------------------------

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        verdict = truth(self._facts.values.get(nid(node.test), ()))
        if verdict is None:
            return self.generic_visit(node)  # type: ignore[return-value]
        self._decided += choices(self._function, node.test)
        return self.visit(node.body if verdict else node.orelse)  # type: ignore[no-any-return]


def negate(test: ast.expr) -> ast.expr:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        swap: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Eq: ast.NotEq}
        if type(test.ops[0]) in swap:
            test.ops = [swap[type(test.ops[0])]()]
            return test
    return ast.UnaryOp(ast.Not(), test)
