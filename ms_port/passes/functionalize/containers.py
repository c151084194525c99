"""Containers that hold a tensor which is written after it was put away."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ms_port.ir.tree import names_stored, nid
from ms_port.passes.functionalize.syntax import COMPOUND, later_puts, origin
from ms_port.passes.functionalize.writes import Writes
from ms_port.passes.holders import Put, meet, puts, root_of, tensors_in


@dataclass(frozen=True, slots=True)
class Containers:
    """What the containers of one function took up so far."""

    writes: Writes
    held: dict[str, list[tuple[Put, list[frozenset[int]]]]] = field(default_factory=dict)
    """Container -> the storages that it took up, with the place."""

    def hold(self, statement: ast.stmt) -> None:
        """Remember what the containers took up."""
        for name in names_stored(statement):
            if not isinstance(statement, ast.AugAssign):
                self.held.pop(name, None)
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=other)) if other in self.held:
                self.held[name] = self.held[other]  # one container by two names
                return
        for put in puts(statement):
            if not self.writes.bound.get(put.root) and any(storages := self._put_storages(put)):
                self.held.setdefault(put.root, []).append((put, storages))

    def _put_storages(self, put: Put) -> list[frozenset[int]]:
        rows = [self.writes.values(v.value if isinstance(v, ast.Starred) else v) for v in put.values]
        count = max(map(len, rows), default=0)
        return [
            frozenset(
                t.storage for row in rows if i < len(row) for t in tensors_in(row[i], put.whole) if t.storage
            )
            for i in range(count)
        ]  # fmt: skip

    def stale(
        self, statement: ast.stmt, writes: Sequence[frozenset[int]], later: Sequence[ast.stmt], moved: set[int]
    ) -> Iterator[str]:
        """Containers that hold a written tensor and are read later; ``moved``: statements that now follow the write."""
        all_written = frozenset().union(*writes)
        times = self.writes.times(statement)
        once = sum(map(len, writes)) == len(all_written)
        for root, entries in self.held.items():
            stale = [
                put
                for put, held in entries
                if self._met(put, held, writes, times) and not (id(put.statement) in moved and once)
            ]
            mine = self._is_its_place(statement, root, entries, all_written)
            if stale and not mine and self._container_read(root, later, all_written):
                yield root
        origins = {
            origin(put.statement) for entries in self.held.values() for put, _ in entries if id(put.statement) in moved
        }
        for put in later_puts(later):  # of an earlier turn of the loop
            if origin(put.statement) in origins and once:
                continue
            if self._put_times(put) and self._met(put, self._put_storages(put), writes, times):
                yield put.root

    def _put_times(self, put: Put) -> list[int]:
        """When values were put away, counted in torch calls; empty where it is not known."""
        if put.call is None and isinstance(put.values[0], ast.Name):
            return list(self.writes.function.facts.times.get(nid(put.statement), ()))
        facts = self.writes.function.facts.calls.get(nid(put.call), ()) if put.call is not None else ()
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
            case ast.Expr(value=ast.Call() as call) if (operand := self.writes.written_operand(call)) is not None:
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
            if not isinstance(statement, COMPOUND) and root in names_stored(statement):
                return False
        return False

    def _reads_element(self, node: ast.AST, root: str, written: frozenset[int]) -> bool:
        """Whether the container is read otherwise than for an element that was not written, or to add one."""
        match node:
            case ast.Subscript(value=ast.Name(id=name)) if name == root:
                values = self.writes.values(node)
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
