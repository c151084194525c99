"""Functionalize: a write in place becomes a rebinding, and every name that held the written tensor follows it.

``x.add_(y)`` -> ``x = x.add_(y)`` (lowering drops the underscore); ``out += y`` -> ``out = out + y``. Where an
in-place layer wrote into ``x`` and returned it as ``out``, ``x`` is bound to ``out`` right after, or, in straight-line
code, later reads of ``x`` become ``out``. What can't follow (views, writes inside an expression) is flagged.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from ms_port.ir.flags import Flag
from ms_port.ir.program import CallFact, FunctionDef, Program, SourceLoc
from ms_port.ir.tree import copy, names_stored, nid
from ms_port.ir.values import FunctionValue, TensorValue, Value
from ms_port.passes.rewrite import map_functions

_COMPOUND = ast.If | ast.For | ast.While | ast.With | ast.Try


def functionalize(program: Program) -> Program:
    """Rewrite every graph function so that no statement depends on a write through another name."""
    flags: list[Flag] = []

    def one(function: FunctionDef) -> FunctionDef:
        if function.during_init:
            return function
        work = _Functionalize(program, function, flags)
        return replace(function, body=tuple(work.block([copy(s) for s in function.body], [], top=True)))

    changed = map_functions(program, one)
    return replace(changed, flags=(*changed.flags, *dict.fromkeys(flags)))


@dataclass(slots=True)
class _Functionalize:
    program: Program
    function: FunctionDef
    flags: list[Flag]
    bound: dict[str, list[TensorValue]] = field(default_factory=dict)
    """Name -> the tensors that it was last bound to."""

    def __post_init__(self) -> None:
        for name, values in self.function.facts.parameters.items():
            self.bound[name] = [v for v in values if isinstance(v, TensorValue)]

    def block(self, statements: list[ast.stmt], outer: Sequence[ast.stmt], top: bool = False) -> list[ast.stmt]:
        """``outer``: statements that can run after this block (the rest of the enclosing ones, a loop's own body)."""
        result: list[ast.stmt] = []
        pending = list(statements)
        while pending:
            statement = pending.pop(0)
            later = [*pending, *outer]
            if isinstance(statement, _COMPOUND):
                self._compound(statement, later)
                result.append(statement)
                continue
            self._flag_lost(statement, later)
            made, written, target = self._write(statement, later)
            self._note(statement)
            result.extend(made)
            if written:
                rebinding, pending = self._follow(statement, written, target, pending, outer, top)
                result.extend(rebinding)
        return result

    def _compound(self, statement: ast.stmt, later: Sequence[ast.stmt]) -> None:
        after = [*cast(list[ast.stmt], getattr(statement, "body", [])), *later] if _is_loop(statement) else later
        for part in ("body", "orelse", "finalbody"):
            inner = getattr(statement, part, None)
            if inner:
                setattr(statement, part, self.block(inner, after))

    # --- one statement --------------------------------------------------------------------------------------------

    def _write(
        self, statement: ast.stmt, later: Sequence[ast.stmt]
    ) -> tuple[list[ast.stmt], list[TensorValue], str | None]:
        """The statement as rebindings, the tensors that it wrote, and the name that holds the newest content."""
        match statement:
            case ast.AugAssign(target=ast.Name(id=name) as target) if self._holds_tensor(statement):
                load = ast.copy_location(ast.Name(name, ast.Load()), target)
                load.nid = nid(target)  # type: ignore[attr-defined]
                value = ast.copy_location(ast.BinOp(load, statement.op, statement.value), statement)
                made = ast.copy_location(ast.Assign([target], value), statement)
                return [made], list(self.bound.get(name, ())), name
            case ast.AugAssign(target=ast.Subscript() as place) | ast.Assign(targets=[ast.Subscript() as place]):
                root = _root_name(place)
                return [statement], list(self.bound.get(root or "", ())), root
            case ast.Expr(value=ast.Call() as call) if (operand := self._written_operand(call)) is not None:
                store = copy(operand)
                store.ctx = ast.Store()  # type: ignore[attr-defined]
                made = ast.copy_location(ast.Assign([store], call), statement)
                root = _root_name(operand)
                return [made], self._operand_tensors(operand), root
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if (
                operand := self._written_operand(call)
            ) is not None:
                inner = self._nested(statement, call, later)
                return [*inner, statement], self._operand_tensors(operand), name
        return [*self._nested(statement, None, later), statement], [], None

    def _nested(self, statement: ast.stmt, outermost: ast.Call | None, later: Sequence[ast.stmt]) -> list[ast.stmt]:
        """In-place calls inside an expression: moved before the statement where nothing is evaluated earlier."""
        before: list[ast.stmt] = []
        for call, movable in _calls_in_order(statement):
            operand = self._written_operand(call) if call is not outermost else None
            if not isinstance(operand, ast.Name) or not _is_read(operand.id, statement, call, later):
                continue
            if not movable or _read_before(operand.id, statement, call):
                self._flag(statement, operand.id, "the expression around it")
                continue
            name = ast.Name(operand.id, ast.Store())
            before.append(ast.copy_location(ast.Assign([name], copy(call)), statement))
            read = ast.Name(operand.id, ast.Load())
            read.nid = nid(call)  # type: ignore[attr-defined]
            _Replace(call, read).visit(statement)
        return before

    def _written_operand(self, call: ast.Call) -> ast.expr | None:
        """The name, attribute or element that a call writes in place and returns; None where it writes none."""
        facts = self.function.facts.calls.get(nid(call), ())
        written = {s for fact in facts for s in self._storages(fact)}
        if not written:
            return None
        if self._is_inplace_method(call):
            receiver = self._receiver(call)
            return receiver if isinstance(receiver, ast.Name | ast.Attribute | ast.Subscript) else None
        results = {f.result.key for f in facts if isinstance(f.result, TensorValue)}
        for operand in call.args:
            tensors = self._operand_tensors(operand)
            if not any(t.storage in written for t in tensors):
                continue
            if isinstance(operand, ast.Name) and {t.key for t in tensors} & results:
                return operand
        return None

    def _flag_lost(self, statement: ast.stmt, later: Sequence[ast.stmt]) -> None:
        """A tensor that a callee writes without handing it back, and that is read later."""
        for call in [n for n in ast.walk(statement) if isinstance(n, ast.Call)]:
            facts = self.function.facts.calls.get(nid(call), ())
            written = {s for fact in facts for s in self._storages(fact)}
            kept = self._written_operand(call) if written else None
            for operand in call.args if written else ():
                if not isinstance(operand, ast.Name) or operand is kept:
                    continue
                shares = any(t.storage in written for t in self._operand_tensors(operand))
                if shares and _is_read(operand.id, statement, call, later):
                    self._flag(call, operand.id, f"`{ast.unparse(call.func)}`")

    def _receiver(self, call: ast.Call) -> ast.expr:
        """What ``x.add_(1).mul_(2)`` writes into: ``x``."""
        assert isinstance(call.func, ast.Attribute)
        receiver = call.func.value
        while isinstance(receiver, ast.Call) and self._is_inplace_method(receiver):
            assert isinstance(receiver.func, ast.Attribute)
            receiver = receiver.func.value
        return receiver

    # --- names that follow ----------------------------------------------------------------------------------------

    def _follow(
        self,
        statement: ast.stmt,
        written: Sequence[TensorValue],
        target: str | None,
        rest: list[ast.stmt],
        outer: Sequence[ast.stmt],
        top: bool,
    ) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """Rebindings for names that hold a written tensor and are read later, and the rest of the block."""
        keys, storages = {t.key for t in written}, {t.storage for t in written if t.storage}
        made: list[ast.stmt] = []
        for name, tensors in list(self.bound.items()):
            if name == target or not _is_read_in([*rest, *outer], name):
                continue
            if any(t.key in keys for t in tensors):
                if target is None:
                    self._flag(statement, name, "an expression")
                elif top and _can_rename(name, target, rest):
                    rest = [_Rename(name, target).visit(s) for s in rest] if not _stored(rest, name) else _renamed(
                        name, target, rest
                    )  # fmt: skip
                else:
                    value = ast.Name(target, ast.Load())
                    made.append(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), statement))
            elif any(t.storage in storages for t in tensors):
                self._flag(statement, name, f"`{target}`" if target else "an expression")
        return made, rest

    def _note(self, statement: ast.stmt) -> None:
        """Remember which tensors the names are bound to now."""
        for name in names_stored(statement):
            if not isinstance(statement, ast.AugAssign):
                self.bound.pop(name, None)
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.bound[name] = self._operand_tensors(value)

    def _flag(self, node: ast.AST, name: str, other: str) -> None:
        self.flags.append(
            Flag(
                rule="MSP401",
                severity="warning",
                message=f"`{name}` shares memory with what is written here (through {other}), and is read later",
                module=self.function.owner or self.function.key,
                source=SourceLoc(self.function.loc.file, getattr(node, "lineno", self.function.loc.line)),
                advice=f"Write out of place, and make `{name}` from the new tensor.",
            )
        )

    # --- facts ----------------------------------------------------------------------------------------------------

    def _storages(self, fact: CallFact) -> set[int]:
        return {s for i in fact.torch_calls for s in self.program.ledger[i].writes}

    def _operand_tensors(self, node: ast.AST) -> list[TensorValue]:
        return [v for v in self._values(node) if isinstance(v, TensorValue)]

    def _is_inplace_method(self, call: ast.Call) -> bool:
        facts = self.function.facts.calls.get(nid(call), ())
        callee = facts[0].callee if facts else None
        if not (isinstance(callee, FunctionValue) and callee.torch and isinstance(call.func, ast.Attribute)):
            return False
        short = callee.name.rpartition(".")[2]
        return callee.name.startswith("torch.Tensor.") and short.endswith("_") and not short.endswith("__")

    def _holds_tensor(self, statement: ast.AugAssign) -> bool:
        assert isinstance(statement.target, ast.Name)
        return bool(self.bound.get(statement.target.id)) or bool(self._operand_tensors(statement.value))

    def _values(self, node: ast.AST) -> tuple[Value, ...]:
        return self.function.facts.values.get(nid(node), ())


def _is_loop(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.For | ast.While)


def _root_name(node: ast.expr) -> str | None:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) and node.id != "self" else None


def _reads(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in ast.walk(node))


def _is_read_in(statements: Sequence[ast.stmt], name: str) -> bool:
    """Whether the name is read before a plain statement binds it anew."""
    for statement in statements:
        if _reads(statement, name):
            return True
        if not isinstance(statement, _COMPOUND) and name in names_stored(statement):
            return False
    return False


def _stored(statements: Sequence[ast.stmt], name: str) -> bool:
    return any(name in names_stored(s) for s in statements)


def _is_read(name: str, statement: ast.stmt, call: ast.Call, later: Sequence[ast.stmt]) -> bool:
    """Whether a name is read elsewhere in the statement than in the call, or later."""
    inside = {id(n) for n in ast.walk(call)}
    around = any(
        isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) and id(n) not in inside
        for n in ast.walk(statement)
    )
    rebound = name in names_stored(statement)
    return around or (not rebound and _is_read_in(later, name))


def _read_before(name: str, statement: ast.stmt, call: ast.Call) -> bool:
    """Whether the name is read in the statement before the call, in the order of the source."""
    place = (getattr(call, "lineno", 0), getattr(call, "col_offset", 0))
    inside = {id(n) for n in ast.walk(call)}
    return any(
        isinstance(n, ast.Name)
        and n.id == name
        and isinstance(n.ctx, ast.Load)
        and id(n) not in inside
        and (getattr(n, "lineno", 0), getattr(n, "col_offset", 0)) < place
        for n in ast.walk(statement)
    )


def _calls_in_order(statement: ast.stmt) -> Iterator[tuple[ast.Call, bool]]:
    """The calls of a statement, innermost first, and whether each is evaluated once and always."""
    conditional = ast.Lambda | ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp | ast.IfExp | ast.BoolOp
    found: list[tuple[ast.Call, bool]] = []

    def visit(node: ast.AST, movable: bool) -> None:
        for child in ast.iter_child_nodes(node):
            visit(child, movable and not isinstance(node, conditional))
        if isinstance(node, ast.Call):
            found.append((node, movable))

    visit(statement, True)
    yield from found


def _can_rename(name: str, target: str, rest: Sequence[ast.stmt]) -> bool:
    """Whether reads of ``name`` may become ``target`` until it is bound anew: plain code, and ``target`` stays."""
    for index, statement in enumerate(rest):
        stored = names_stored(statement)
        if isinstance(statement, _COMPOUND):
            if stored & {name, target} or (_is_loop(statement) and _reads(statement, name) and target in stored):
                return False
            continue
        if name in stored:
            return True
        if target in stored and _is_read_in(rest[index + 1 :], name):
            return False
    return True


def _renamed(name: str, target: str, rest: Sequence[ast.stmt]) -> list[ast.stmt]:
    """``rest`` with the reads renamed up to and including the statement that binds ``name`` anew."""
    result = []
    active = True
    for statement in rest:
        result.append(_Rename(name, target).visit(statement) if active else statement)
        if name in names_stored(statement):
            active = False
    return result


class _Rename(ast.NodeTransformer):
    def __init__(self, name: str, target: str) -> None:
        self._name, self._target = name, target

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if isinstance(node.ctx, ast.Load) and node.id == self._name:
            node.id = self._target
        return node


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.expr) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else super().visit(node)
