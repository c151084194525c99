"""Functionalize: a write in place becomes a rebinding, and every name that held the written tensor follows it.

``x.add_(y)`` -> ``x = x.add_(y)`` (lowering drops the underscore); ``out += y`` -> ``out = out + y``. Where an
in-place layer wrote into ``x`` and returned it as ``out``, ``x`` is bound to ``out`` right after, or, in straight-line
code, later reads of ``x`` become ``out``. A write that follows ``skips.append(x)`` is moved before it, so that the list
holds the new tensor. What can't follow (views, writes inside an expression, other containers) is flagged.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from ms_port.ir.flags import Flag
from ms_port.ir.program import CallFact, FunctionDef, LedgerEntry, Program, SourceLoc
from ms_port.ir.tree import copy, names_stored, nid
from ms_port.ir.values import FunctionValue, SequenceValue, TensorValue, Value
from ms_port.passes.holders import Put, meet, only_holds, puts, root_of, tensors_in
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
    held: dict[str, list[tuple[Put, list[frozenset[int]]]]] = field(default_factory=dict)
    """Container -> the storages that it took up, with the place."""

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
            if moved := self._nested(statement, later):
                pending = [*moved, statement, *pending]
                continue
            writes = self._writes(statement)
            made, written, target = self._write(statement)
            if any(writes):
                start = self._hoist(made, written, result)
                self._flag_held(statement, writes, later, {id(s) for s in result[start:]})
                self._flag_other(statement, writes, written, later)
            else:
                start = len(result)
            self._note(statement)
            self._hold(statement)
            result[start:start] = made
            if written:
                place = _element(made) if target is None else None
                rebinding, pending = self._follow(statement, written, target, pending, outer, top, place)
                if place is not None and rebinding:
                    result[-1:] = _name_first(result[-1], rebinding[0])
                    rebinding = rebinding[1:]
                result.extend(rebinding)
        return result

    def _compound(self, statement: ast.stmt, later: Sequence[ast.stmt]) -> None:
        after = [*cast(list[ast.stmt], getattr(statement, "body", [])), *later] if _is_loop(statement) else later
        for part in ("body", "orelse", "finalbody"):
            inner = getattr(statement, part, None)
            if inner:
                setattr(statement, part, self.block(inner, after))

    def _hoist(self, made: Sequence[ast.stmt], written: Sequence[TensorValue], before: Sequence[ast.stmt]) -> int:
        """Where to put ``x = relu(x)`` among the statements before it: ahead of those that only put ``x`` away."""
        place = len(before)
        match made:
            case [ast.Assign(targets=[ast.Name(id=name)], value=value)] if written and _reads(value, name):
                read = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
            case _:
                return place
        for index in range(len(before) - 1, -1, -1):
            statement = before[index]
            if isinstance(statement, _COMPOUND | ast.Return | ast.Raise | ast.Break | ast.Continue):
                break
            filled = {put.root for put in puts(statement)}
            if (names_stored(statement) | filled) & read or any(root.startswith("self.") for root in filled):
                break
            if only_holds(statement, name):
                place = index
            elif name in {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}:
                break
        return place

    # --- one statement --------------------------------------------------------------------------------------------

    def _write(self, statement: ast.stmt) -> tuple[list[ast.stmt], list[TensorValue], str | None]:
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
                if self.bound.get(root or "") or root is None:
                    return [statement], list(self.bound.get(root or "", ())), root
                operands = self._ledger_operands(statement)
                if operands and isinstance(statement, ast.AugAssign) and isinstance(place, ast.Subscript):
                    value = ast.copy_location(ast.BinOp(_load(place), statement.op, statement.value), statement)
                    return [ast.copy_location(ast.Assign([place], value), statement)], operands, None
                return [statement], operands, None
            case ast.Expr(value=ast.Call() as call) if (operand := self._written_operand(call)) is not None:
                store = copy(operand)
                store.ctx = ast.Store()  # type: ignore[attr-defined]
                made = ast.copy_location(ast.Assign([store], call), statement)
                root = operand.id if isinstance(operand, ast.Name) else _root_name(operand)
                if root is not None and not isinstance(operand, ast.Name) and not self.bound.get(root):
                    root = None  # an element of a container: no name holds the new tensor
                return [made], self._operand_tensors(operand), root
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if (
                operand := self._written_operand(call)
            ) is not None:
                return [statement], self._operand_tensors(operand), name
        return [statement], [], None

    def _nested(self, statement: ast.stmt, later: Sequence[ast.stmt]) -> list[ast.stmt]:
        """In-place calls inside an expression: moved before the statement where nothing is evaluated earlier."""
        outermost = None
        match statement:
            case ast.AugAssign(target=ast.Name()) if self._holds_tensor(statement):
                return []
            case ast.AugAssign(target=ast.Subscript()) | ast.Assign(targets=[ast.Subscript()]):
                return []
            case ast.Expr(value=ast.Call() as call) if self._written_operand(call) is not None:
                return []
            case ast.Assign(targets=[ast.Name()], value=ast.Call() as call) if self._written_operand(call) is not None:
                outermost = call
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
        for index, operand in enumerate(call.args):
            if isinstance(operand, ast.Starred):
                return None
            if isinstance(operand, ast.Name) and all(self._hands_back(fact, index) for fact in facts):
                return operand
        return None

    def _hands_back(self, fact: CallFact, index: int) -> bool:
        """Whether this evaluation wrote its argument and returned it."""
        given = fact.args[index] if index < len(fact.args) else None
        if not (isinstance(given, TensorValue) and isinstance(fact.result, TensorValue)):
            return False
        return given.key == fact.result.key and given.storage in self._storages(fact)

    def _flag_lost(self, statement: ast.stmt, later: Sequence[ast.stmt]) -> None:
        """A tensor that a callee writes without handing it back, and that is read later."""
        for call in [n for n in ast.walk(statement) if isinstance(n, ast.Call)]:
            facts = self.function.facts.calls.get(nid(call), ())
            written = {s for fact in facts for s in self._storages(fact)}
            kept = self._written_operand(call) if written else None
            for operand in call.args if written else ():
                if not isinstance(operand, ast.Name) or operand is kept:
                    continue
                by_run = [frozenset({t.storage}) for t in self._operand_tensors(operand)]
                shares = meet(by_run, [frozenset(self._storages(fact)) for fact in facts])
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
        place: ast.expr | None = None,
    ) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """Rebindings for names that hold a written tensor and are read later, and the rest of the block."""
        keys, storages = {t.key for t in written}, {t.storage for t in written if t.storage}
        made: list[ast.stmt] = []
        for name, tensors in list(self.bound.items()):
            if name == target or not _is_read_in([*rest, *outer], name):
                continue
            if any(t.key in keys for t in tensors):
                if not all(t.key in keys for t in tensors):  # another tensor in other runs
                    self._flag(statement, name, f"`{target}`" if target else "an expression")
                elif place is not None:
                    made.append(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], _load(place)), statement))
                elif target is None:
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
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind(target, value)
            case ast.AnnAssign(target=ast.Name() as single, value=ast.expr() as value):
                self._bind(single, value)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case ast.Name(), _:
                self.bound[target.id] = self._operand_tensors(value)
            case ast.Tuple(elts=names), ast.Tuple(elts=parts) if len(names) == len(parts):
                for part_of_target, part in zip(names, parts, strict=True):
                    self._bind(part_of_target, part)
            case ast.Tuple(elts=names), _ if not any(isinstance(n, ast.Starred) for n in names):
                rows = [v.items for v in self._values(value) if isinstance(v, SequenceValue)]
                for index, part_of_target in enumerate(names):
                    if isinstance(part_of_target, ast.Name):
                        items = [row[index] for row in rows if len(row) == len(names)]
                        self.bound[part_of_target.id] = [v for v in items if isinstance(v, TensorValue)]

    # --- what containers hold -------------------------------------------------------------------------------------

    def _hold(self, statement: ast.stmt) -> None:
        """Remember what the containers took up."""
        for name in names_stored(statement):
            if not isinstance(statement, ast.AugAssign):
                self.held.pop(name, None)
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=other)) if other in self.held:
                self.held[name] = self.held[other]  # one container by two names
                return
        for put in puts(statement):
            if not self.bound.get(put.root) and any(storages := self._put_storages(put)):
                self.held.setdefault(put.root, []).append((put, storages))

    def _put_storages(self, put: Put) -> list[frozenset[int]]:
        rows = [self._values(v.value if isinstance(v, ast.Starred) else v) for v in put.values]
        count = max(map(len, rows), default=0)
        return [
            frozenset(
                t.storage for row in rows if i < len(row) for t in tensors_in(row[i], put.whole) if t.storage
            )
            for i in range(count)
        ]  # fmt: skip

    def _flag_held(
        self, statement: ast.stmt, writes: Sequence[frozenset[int]], later: Sequence[ast.stmt], moved: set[int]
    ) -> None:
        """Containers that hold a written tensor and are read later; ``moved``: statements that now follow the write."""
        all_written = frozenset().union(*writes)
        times = self._write_times(statement)
        once = sum(map(len, writes)) == len(all_written)
        for root, entries in self.held.items():
            stale = [
                put
                for put, held in entries
                if self._met(put, held, writes, times) and not (id(put.statement) in moved and once)
            ]
            mine = self._is_its_place(statement, root, entries, all_written)
            if stale and not mine and self._container_read(root, later, all_written):
                self._flag(statement, root, "another name")
        origins = {
            _origin(put.statement) for entries in self.held.values() for put, _ in entries if id(put.statement) in moved
        }
        for put in _later_puts(later):  # of an earlier turn of the loop
            if _origin(put.statement) in origins and once:
                continue
            if self._put_times(put) and self._met(put, self._put_storages(put), writes, times):
                self._flag(statement, put.root, "another name")

    def _put_times(self, put: Put) -> list[int]:
        """When values were put away, counted in torch calls; empty where it is not known."""
        if put.call is None and isinstance(put.values[0], ast.Name):
            return list(self.function.facts.times.get(nid(put.statement), ()))
        facts = self.function.facts.calls.get(nid(put.call), ()) if put.call is not None else ()
        return [fact.torch_calls.start for fact in facts]

    def _met(
        self,
        put: Put,
        held: Sequence[frozenset[int]],
        writes: Sequence[frozenset[int]],
        times: Sequence[tuple[int, frozenset[int]]],
    ) -> bool:
        """Whether something is written after it was put away."""
        starts = self._put_times(put)
        if len(starts) != len(held):
            return meet(held, writes)
        return any(start <= t and s & w for start, s in zip(starts, held, strict=True) for t, w in times)

    def _is_its_place(
        self,
        statement: ast.stmt,
        root: str,
        entries: Sequence[tuple[Put, list[frozenset[int]]]],
        written: frozenset[int],
    ) -> bool:
        """Whether the write goes through the container itself, which holds the tensor but once."""
        match statement:
            case ast.AugAssign(target=place) | ast.Assign(targets=[ast.Subscript() as place]):
                through = root_of(place)
            case ast.Expr(value=ast.Call() as call) if (operand := self._written_operand(call)) is not None:
                through = root_of(operand)
            case _:
                return False
        return through == root and sum(bool(s & written) for _, held in entries[:1] for s in held[:1]) <= 1

    def _container_read(self, root: str, later: Sequence[ast.stmt], written: frozenset[int]) -> bool:
        if root.startswith("self."):
            return True
        for statement in later:
            if self._reads_element(statement, root, written):
                return True
            if not isinstance(statement, _COMPOUND) and root in names_stored(statement):
                return False
        return False

    def _reads_element(self, node: ast.AST, root: str, written: frozenset[int]) -> bool:
        """Whether the container is read otherwise than for an element that was not written, or to add one."""
        match node:
            case ast.Subscript(value=ast.Name(id=name)) if name == root:
                values = self._values(node)
                if not isinstance(node.ctx, ast.Load):
                    return self._reads_element(node.slice, root, written)
                if values and not any(t.storage in written for v in values for t in tensors_in(v)):
                    return self._reads_element(node.slice, root, written)
                return True
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "extend" | "insert")) if (
                name == root
            ):
                return any(self._reads_element(a, root, written) for a in node.args)
            case ast.Call(func=ast.Name(id="len")):
                return False
            case ast.Name(id=name, ctx=ast.Load()):
                return name == root
        return any(self._reads_element(child, root, written) for child in ast.iter_child_nodes(node))

    def _flag_other(
        self,
        statement: ast.stmt,
        writes: Sequence[frozenset[int]],
        written: Sequence[TensorValue],
        later: Sequence[ast.stmt],
    ) -> None:
        """Names that hold what a call wrote somewhere inside, and that nothing binds anew."""
        followed = {t.storage for t in written}
        inside = [frozenset(w - followed) for w in writes]
        for name, tensors in self.bound.items():
            if name in names_stored(statement) or not meet([frozenset({t.storage}) for t in tensors], inside):
                continue
            if _is_read_in(later, name):
                self._flag(statement, name, "a call")

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

    def _writes(self, statement: ast.stmt) -> list[frozenset[int]]:
        """The storages that a plain statement writes, by evaluation where one call makes them."""
        calls = [[frozenset(self._storages(f)) for f in facts] for facts in self._writing(statement)]
        found = [storages for rows in calls for storages in rows]
        if _is_store(statement):
            found += [entry.writes for entry in self._ledger_writes(statement)]
        return found

    def _write_times(self, statement: ast.stmt) -> list[tuple[int, frozenset[int]]]:
        """The torch calls of a plain statement that write: index and storages."""
        indices = [i for facts in self._writing(statement) for fact in facts for i in fact.torch_calls]
        found = [(i, self.program.ledger[i].writes) for i in indices if self.program.ledger[i].writes]
        if _is_store(statement):
            found += [(entry.index, entry.writes) for entry in self._ledger_writes(statement)]
        return found

    def _writing(self, statement: ast.stmt) -> list[tuple[CallFact, ...]]:
        """The outermost calls of a statement that write."""
        found: list[tuple[CallFact, ...]] = []
        seen: set[int] = set()
        for call, _ in reversed(list(_calls_in_order(statement))):
            facts = self.function.facts.calls.get(nid(call), ())
            if id(call) not in seen and any(map(self._storages, facts)):
                found.append(facts)
                seen |= {id(n) for n in ast.walk(call)}
        return found

    def _ledger_writes(self, statement: ast.stmt) -> list[LedgerEntry]:
        """The torch calls of ``x += 1`` and ``x[i] = 1``, which are no calls in the source."""
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

    def _ledger_operands(self, statement: ast.AugAssign | ast.Assign) -> list[TensorValue]:
        operands = [entry.args[0] for entry in self._ledger_writes(statement) if entry.args]
        return [v for v in operands if isinstance(v, TensorValue)]

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


def _origin(statement: ast.stmt) -> int:
    """What tells two copies of one statement from others."""
    return next((nid(n) for n in ast.walk(statement) if nid(n) >= 0), -1)


def _is_store(statement: ast.stmt) -> bool:
    """``x += 1`` or ``x[i] = 1``."""
    if isinstance(statement, ast.Assign):
        return isinstance(statement.targets[0], ast.Subscript)
    return isinstance(statement, ast.AugAssign)


def _load(node: ast.expr) -> ast.expr:
    """The same place, read."""
    read = copy(node)
    read.ctx = ast.Load()  # type: ignore[attr-defined]
    return read


def _element(made: Sequence[ast.stmt]) -> ast.expr | None:
    """``c["a"]`` of ``c["a"] = ...``: the place of the new tensor, where reading it again is harmless."""
    match made:
        case [
            ast.Assign(
                targets=[ast.Subscript(value=ast.Name(), slice=ast.Constant()) as place], value=ast.Call() | ast.BinOp()
            )
        ]:
            return place
    return None


def _name_first(store: ast.stmt, name: ast.stmt) -> list[ast.stmt]:
    """``c["a"] = new; h = c["a"]`` as ``h = new; c["a"] = h``."""
    assert isinstance(store, ast.Assign) and isinstance(name, ast.Assign)
    named = ast.copy_location(ast.Assign(name.targets, store.value), store)
    return [named, ast.copy_location(ast.Assign(store.targets, _load(name.targets[0])), store)]


def _later_puts(later: Sequence[ast.stmt]) -> Iterator[Put]:
    for statement in later:
        for inner in ast.walk(statement):
            if isinstance(inner, ast.stmt) and not isinstance(inner, _COMPOUND):
                yield from puts(inner)


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
