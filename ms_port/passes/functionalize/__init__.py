"""Functionalize: a write in place becomes a rebinding, and every name that held the written tensor follows it.

``x.add_(y)`` -> ``x = x.add_(y)`` (lowering drops the underscore); ``torch.add(x, y, out=z)`` -> ``z = torch.add(x,
y)``; ``out += y`` -> ``out = out + y``. Where an in-place layer wrote into ``x`` and returned it as ``out``, ``x`` is
bound to ``out`` right after, or, in straight-line code, later reads of ``x`` become ``out``. A write that follows
``skips.append(x)`` is moved before it, so that the list holds the new tensor. A write through a view is put back into
what it is a view of, and the other way round
(``views``). What can't follow (writes inside an expression, other containers) is flagged.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from ms_port.ir.flags import Flag
from ms_port.ir.program import FunctionDef, Program, SourceLoc
from ms_port.ir.tree import copy, names_stored, nid
from ms_port.ir.values import SequenceValue, TensorValue
from ms_port.passes.functionalize.containers import Containers
from ms_port.passes.functionalize.first_layers import split_first_layer
from ms_port.passes.functionalize.outs import without_out
from ms_port.passes.functionalize.syntax import (
    COMPOUND,
    Rename,
    Replace,
    calls_in_order,
    can_rename,
    element,
    is_loop,
    is_read,
    is_read_in,
    load,
    name_first,
    read_before,
    reads,
    renamed,
    root_name,
    stored,
)
from ms_port.passes.functionalize.views import View, Views
from ms_port.passes.functionalize.writes import Writes
from ms_port.passes.holders import meet, only_holds, puts
from ms_port.passes.rewrite import map_functions


def functionalize(program: Program) -> Program:
    """Rewrite every graph function so that no statement depends on a write through another name."""
    flags: list[Flag] = []
    state = frozenset(
        v.storage for e in program.ledger for v in (*e.args, e.result) if isinstance(v, TensorValue) and v.parameter
    )

    def one(function: FunctionDef) -> FunctionDef:
        if function.during_init:
            return function
        work = _Functionalize(program, function, flags, state)
        body = tuple(work.block([copy(s) for s in function.body], [], top=True))
        return replace(work.function, body=body)

    changed = map_functions(program, one)
    return replace(changed, flags=(*changed.flags, *dict.fromkeys(flags)))


@dataclass(slots=True)
class _Functionalize:
    program: Program
    function: FunctionDef
    flags: list[Flag]
    state: frozenset[int]
    """Storages of parameters and buffers."""
    writes: Writes = field(init=False)
    containers: Containers = field(init=False)
    views: Views = field(init=False)
    bound: dict[str, list[TensorValue]] = field(default_factory=dict)
    """Name -> the tensors that it was last bound to."""
    view_of: dict[str, View] = field(default_factory=dict)
    """Name -> what it is a view of."""
    made: set[str] = field(default_factory=set)
    """Names given by this pass."""

    def __post_init__(self) -> None:
        self._of(self.function)
        self.containers = Containers(self.writes)
        for name, values in self.function.facts.parameters.items():
            self.bound[name] = [v for v in values if isinstance(v, TensorValue)]

    def _of(self, function: FunctionDef) -> None:
        """Work with the function, which may have new facts."""
        self.function = function
        self.writes = Writes(self.program, function, self.bound)
        self.views = Views(function, self._fresh)

    def _fresh(self, name: str) -> str:
        """A name that nothing in the function has yet."""
        args = self.function.node.args
        taken = {a.arg for a in [*args.posonlyargs, *args.args, *args.kwonlyargs]} | self.made
        taken |= {n.id for s in self.function.body for n in ast.walk(s) if isinstance(n, ast.Name)}
        number, unique = 2, name
        while unique in taken:
            unique, number = f"{name}{number}", number + 1
        self.made.add(unique)
        return unique

    def block(self, statements: list[ast.stmt], outer: Sequence[ast.stmt], top: bool = False) -> list[ast.stmt]:
        """``outer``: statements that can run after this block (the rest of the enclosing ones, a loop's own body)."""
        result: list[ast.stmt] = []
        pending = list(statements)
        while pending:
            statement = pending.pop(0)
            later = [*pending, *outer]
            if isinstance(statement, COMPOUND):
                self._compound(statement, later)
                result.append(statement)
                continue
            self._split_layers(statement, later)
            self._flag_lost(statement, later)
            if (named := self._through_view(statement)) is not None:
                pending = [*named, *pending]
                continue
            if moved := self._nested(statement, later):
                pending = [*moved, statement, *pending]
                continue
            writes = self.writes.of(statement)
            made, written, target = self._write(statement)
            if any(writes):
                start = self._hoist(made, written, result)
                for root in self.containers.stale(statement, writes, later, {id(s) for s in result[start:]}):
                    self._flag(statement, root, "another name")
                self._flag_other(statement, writes, written, later)
            else:
                start = len(result)
            self._note(statement)
            self.containers.hold(statement)
            result[start:start] = made
            if written and target is not None and any(t.storage in self.state for t in written):
                self._flag_state(statement, target)
            if written:
                place = element(made) if target is None else None
                rebinding, pending = self._follow(statement, written, target, pending, outer, top, place)
                if place is not None and rebinding:
                    result[-1:] = name_first(result[-1], rebinding[0])
                    rebinding = rebinding[1:]
                result.extend(rebinding)
        return result

    def _compound(self, statement: ast.stmt, later: Sequence[ast.stmt]) -> None:
        after = [*cast(list[ast.stmt], getattr(statement, "body", [])), *later] if is_loop(statement) else later
        inside = names_stored(statement)
        if is_loop(statement):
            self._forget_views(inside)
        for part in ("body", "orelse", "finalbody"):
            inner = getattr(statement, part, None)
            if inner:
                setattr(statement, part, self.block(inner, after))
        for name in inside:  # bound in some runs only
            self.view_of.pop(name, None)
        self._forget_views(inside)

    def _hoist(self, made: Sequence[ast.stmt], written: Sequence[TensorValue], before: Sequence[ast.stmt]) -> int:
        """Where to put ``x = relu(x)`` among the statements before it: ahead of those that only put ``x`` away."""
        place = len(before)
        match made:
            case [ast.Assign(targets=[ast.Name(id=name)], value=value)] if written and reads(value, name):
                read = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
            case _:
                return place
        for index in range(len(before) - 1, -1, -1):
            statement = before[index]
            if isinstance(statement, COMPOUND | ast.Return | ast.Raise | ast.Break | ast.Continue):
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
                read = ast.copy_location(ast.Name(name, ast.Load()), target)
                read.nid = nid(target)  # type: ignore[attr-defined]
                value = ast.copy_location(ast.BinOp(read, statement.op, statement.value), statement)
                made = ast.copy_location(ast.Assign([target], value), statement)
                return [made], list(self.bound.get(name, ())), name
            case ast.AugAssign(target=ast.Subscript() as place) | ast.Assign(targets=[ast.Subscript() as place]):
                root = root_name(place)
                if self.bound.get(root or "") or root is None:
                    return [statement], list(self.bound.get(root or "", ())), root
                operands = self.writes.ledger_operands(statement)
                if operands and isinstance(statement, ast.AugAssign) and isinstance(place, ast.Subscript):
                    value = ast.copy_location(ast.BinOp(load(place), statement.op, statement.value), statement)
                    return [ast.copy_location(ast.Assign([place], value), statement)], operands, None
                return [statement], operands, None
            case ast.Expr(value=ast.Call() as call) if (operand := self.writes.written_operand(call)) is not None:
                store = copy(operand)
                without_out(call)
                store.ctx = ast.Store()  # type: ignore[attr-defined]
                made = ast.copy_location(ast.Assign([store], call), statement)
                root = operand.id if isinstance(operand, ast.Name) else root_name(operand)
                if root is not None and not isinstance(operand, ast.Name) and not self.bound.get(root):
                    root = None  # an element of a container: no name holds the new tensor
                return [made], self.writes.tensors(operand), root
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if (
                operand := self.writes.written_operand(call)
            ) is not None:
                without_out(call)
                return [statement], self.writes.tensors(operand), name
        return [statement], [], None

    def _nested(self, statement: ast.stmt, later: Sequence[ast.stmt]) -> list[ast.stmt]:
        """In-place calls inside an expression: moved before the statement where nothing is evaluated earlier."""
        outermost = None
        match statement:
            case ast.AugAssign(target=ast.Name()) if self._holds_tensor(statement):
                return []
            case ast.AugAssign(target=ast.Subscript()) | ast.Assign(targets=[ast.Subscript()]):
                return []
            case ast.Expr(value=ast.Call() as call) if self.writes.written_operand(call) is not None:
                return []
            case ast.Assign(targets=[ast.Name()], value=ast.Call() as call) if (
                self.writes.written_operand(call) is not None
            ):
                outermost = call
        before: list[ast.stmt] = []
        for call, movable in calls_in_order(statement):
            operand = self.writes.written_operand(call) if call is not outermost else None
            if not isinstance(operand, ast.Name) or not self._is_read(operand.id, statement, call, later):
                continue
            if not movable or read_before(operand.id, statement, call):
                self._flag(statement, operand.id, "the expression around it")
                continue
            name = ast.Name(operand.id, ast.Store())
            before.append(ast.copy_location(ast.Assign([name], copy(call)), statement))
            read = ast.Name(operand.id, ast.Load())
            read.nid = nid(call)  # type: ignore[attr-defined]
            Replace(call, read).visit(statement)
        return before

    def _split_layers(self, statement: ast.stmt, later: Sequence[ast.stmt]) -> None:
        """Call by itself the first layer of a Sequential that writes what something reads then."""
        for call in [n for n in ast.walk(statement) if isinstance(n, ast.Call)]:
            match call:
                case ast.Call(args=[ast.Name(id=name)]) if self.writes.written_operand(call) is None:
                    lost = self._is_read(name, statement, call, later)
                    split = split_first_layer(self.program, self.function, call) if lost else None
                    if split is not None:
                        self._of(split)
                        self.containers = replace(self.containers, writes=self.writes)

    def _is_read(self, name: str, statement: ast.stmt, call: ast.Call, later: Sequence[ast.stmt]) -> bool:
        """Whether a name is read elsewhere than in the call, or later; or another name of the same tensor is."""
        keys = [t.key for t in self.bound.get(name, ())]
        others = [n for n, held in self.bound.items() if keys and n != name and [t.key for t in held] == keys]
        return is_read(name, statement, call, later) or any(is_read_in(later, n) for n in others)

    def _flag_lost(self, statement: ast.stmt, later: Sequence[ast.stmt]) -> None:
        """A tensor that a callee writes without handing it back, and that is read later."""
        for call in [n for n in ast.walk(statement) if isinstance(n, ast.Call)]:
            facts = self.function.facts.calls.get(nid(call), ())
            written = {s for fact in facts for s in self.writes.storages(fact)}
            kept = self.writes.written_operand(call) if written else None
            for operand in call.args if written else ():
                if not isinstance(operand, ast.Name) or operand is kept:
                    continue
                by_run = [frozenset({t.storage}) for t in self.writes.tensors(operand)]
                shares = meet(by_run, [frozenset(self.writes.storages(fact)) for fact in facts])
                if shares and is_read(operand.id, statement, call, later):
                    self._flag(call, operand.id, f"`{ast.unparse(call.func)}`")

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
        others: list[str] = []
        bases = {view.base for view in self.view_of.values()}
        for name, tensors in list(self.bound.items()):
            if name == target or not is_read_in([*rest, *outer], name):
                continue
            if any(t.key in keys for t in tensors):
                if not all(t.key in keys for t in tensors):  # another tensor in other runs
                    self._flag(statement, name, f"`{target}`" if target else "an expression")
                elif place is not None:
                    made.append(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], load(place)), statement))
                elif target is None:
                    self._flag(statement, name, "an expression")
                elif top and name not in bases and can_rename(name, target, rest):
                    rest = [Rename(name, target).visit(s) for s in rest] if not stored(rest, name) else renamed(
                        name, target, rest
                    )  # fmt: skip
                else:
                    value = ast.Name(target, ast.Load())
                    made.append(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), statement))
            elif any(t.storage in storages for t in tensors):
                others.append(name)
        spread, left = self._spread(target, others)
        for name in left:
            self._flag(statement, name, f"`{target}`" if target else "an expression")
        return [*made, *(ast.copy_location(new, statement) for new in spread)], rest

    def _spread(self, target: str | None, names: Sequence[str]) -> tuple[list[ast.stmt], list[str]]:
        """Statements that give views of ``target``, what it is a view of, and further views of that, the new content.

        Also returns those of ``names`` that can't be reached so.
        """
        made: list[ast.stmt] = []
        known = {target} if target is not None else set()
        top = target
        while True:
            down = True
            while down:
                down = False
                for name in names:
                    view = self._view(name)
                    if name not in known and view is not None and view.base in known:
                        made.append(ast.Assign([ast.Name(name, ast.Store())], copy(view.made)))
                        known.add(name)
                        down = True
            left = [name for name in names if name not in known]
            view = self._view(top) if top is not None else None
            if not left or view is None or view.base in known:
                return made, left
            made += self.views.put_back(copy(view.made), ast.Name(top or "", ast.Load()))
            keys = [t.key for t in self.bound.get(view.base, ())]
            for name in names:  # a second name of the base
                if name != view.base and name not in known and [t.key for t in self.bound.get(name, ())] == keys:
                    value = ast.Name(view.base, ast.Load())
                    made.append(ast.Assign([ast.Name(name, ast.Store())], value))
                    known.add(name)
            top = view.base
            known.add(top)

    def _view(self, name: str) -> View | None:
        """What a name is a view of, while the other name holds what it held then."""
        view = self.view_of.get(name)
        if view is None or tuple(t.key for t in self.bound.get(view.base, ())) != view.keys:
            return None
        return view

    def _through_view(self, statement: ast.stmt) -> list[ast.stmt] | None:
        """``h.view(-1).add_(1)``, ``h.transpose(0, 1)[0] = 1``: the view gets a name, which is then written."""
        match statement:
            case ast.Expr(value=ast.Call() as call) | ast.Assign(targets=[ast.Name()], value=ast.Call() as call) if (
                self.writes.is_inplace_method(call)
            ):
                first = self.writes.first_call(call)
                assert isinstance(first.func, ast.Attribute)
                first.func.value = inner = self.views.as_slices(first.func.value)
                holder: ast.Attribute | ast.Subscript = first.func
            case ast.AugAssign(target=ast.Subscript() as place) | ast.Assign(targets=[ast.Subscript() as place]):
                while isinstance(place.value, ast.Subscript):
                    place = place.value
                place.value = inner = self.views.as_slices(place.value)
                holder = place
            case _:
                return None
        if isinstance(inner, ast.Name) or self.views.base(inner) is None or not _has_call(inner):
            return None
        name = self._fresh("view")
        read = ast.Name(name, ast.Load())
        read.nid = nid(inner)  # type: ignore[attr-defined]
        holder.value = read
        return [ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], inner), statement), statement]

    def _note(self, statement: ast.stmt) -> None:
        """Remember which tensors the names are bound to now."""
        for name in names_stored(statement):
            if not isinstance(statement, ast.AugAssign):
                self.bound.pop(name, None)
                self.view_of.pop(name, None)
            self._forget_views({name})
        match statement:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind(target, value)
            case ast.AnnAssign(target=ast.Name() as single, value=ast.expr() as value):
                self._bind(single, value)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case ast.Name(), _:
                self.bound[target.id] = self.writes.tensors(value)
                self._note_view(target.id, value)
            case ast.Tuple(elts=names), ast.Tuple(elts=parts) if len(names) == len(parts):
                for part_of_target, part in zip(names, parts, strict=True):
                    self._bind(part_of_target, part)
            case ast.Tuple(elts=names), _ if not any(isinstance(n, ast.Starred) for n in names):
                rows = [v.items for v in self.writes.values(value) if isinstance(v, SequenceValue)]
                for index, part_of_target in enumerate(names):
                    if isinstance(part_of_target, ast.Name):
                        items = [row[index] for row in rows if len(row) == len(names)]
                        self.bound[part_of_target.id] = [v for v in items if isinstance(v, TensorValue)]

    def _note_view(self, name: str, value: ast.expr) -> None:
        base = self.views.base(value)
        if base is None or base == name or isinstance(value, ast.Name):
            return
        held = self.bound.get(base, ())
        if {t.storage for t in self.bound[name]} & {t.storage for t in held}:
            self.view_of[name] = View(base, tuple(t.key for t in held), copy(value))

    def _forget_views(self, changed: set[str]) -> None:
        """Views that can't be made again, because what their index reads was bound anew."""
        for name in [n for n, view in self.view_of.items() if view.reads & changed]:
            del self.view_of[name]

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
            if is_read_in(later, name):
                self._flag(statement, name, "a call")

    def _flag_state(self, node: ast.AST, name: str) -> None:
        self._flag_write(
            node,
            f"`{name}` is memory of a parameter or buffer and is written here; the port's keeps its values",
            "Write to `self.NAME` itself, or make a copy first if the parameter shall stay.",
        )

    def _flag(self, node: ast.AST, name: str, other: str) -> None:
        self._flag_write(
            node,
            f"`{name}` shares memory with what is written here (through {other}), and is read later",
            f"Write out of place, and make `{name}` from the new tensor.",
        )

    def _flag_write(self, node: ast.AST, message: str, advice: str) -> None:
        self.flags.append(
            Flag(
                rule="MSP401",
                severity="warning",
                message=message,
                module=self.function.owner or self.function.key,
                source=SourceLoc(self.function.loc.file, getattr(node, "lineno", self.function.loc.line)),
                advice=advice,
            )
        )

    # --- facts ----------------------------------------------------------------------------------------------------

    def _holds_tensor(self, statement: ast.AugAssign) -> bool:
        assert isinstance(statement.target, ast.Name)
        return bool(self.bound.get(statement.target.id)) or bool(self.writes.tensors(statement.value))


def _has_call(node: ast.expr) -> bool:
    return any(isinstance(n, ast.Call) for n in ast.walk(node))
