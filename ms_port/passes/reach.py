"""Reach: what neither the model nor the code that is left refers to is left out."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ms_port.ir.flags import Flag
from ms_port.ir.program import CellDef, FunctionDef, Program
from ms_port.ir.tree import names_stored
from ms_port.passes.rewrite import parameters


def keep_reached(program: Program) -> Program:
    """Drop functions, methods and classes that no reached code names."""
    reach = _Reach(program)
    reach.run()
    left = {key: _what_is_left(cell, reach) for key, cell in program.cells.items() if key in reach.cells}
    filled = {key for key, cell in left.items() if key in reach.named or cell.methods or cell.attributes}
    cells = {
        key: replace(cell, bases=tuple(dict.fromkeys(_kept_bases(program, cell, filled))))
        for key, cell in left.items()
        if key in filled
    }
    functions = {key: f for key, f in program.functions.items() if key in reach.functions}
    read = reach.names
    constants = {name: s for name, s in program.constants.items() if name in read}
    configs = {name: fields for name, fields in program.configs.items() if name.rpartition(".")[2] in reach.names}
    kept = [*functions.values(), *(m for cell in cells.values() for m in cell.methods)]
    used = frozenset(name for name in program.op_functions if name in read or name in _bases(program, cells.values()))
    return replace(
        program, cells=cells, functions=functions, constants=constants, configs=configs, op_functions=used,
        stubs=tuple(s for s in program.stubs if s.name in read),
        flags=tuple(_of_what_is_left(program.flags, kept)),
    )  # fmt: skip


def _what_is_left(cell: CellDef, reach: _Reach) -> CellDef:
    return replace(
        cell,
        methods=tuple(m for m in cell.methods if m.key in reach.functions),
        attributes=tuple(a for a in cell.attributes if names_stored(a) & reach.names),
    )


def _says_nothing(method: FunctionDef) -> bool:
    """Whether a method is a constructor that takes nothing and only calls that of the base."""
    if method.name != "__init__" or method.docstring or parameters(method):
        return False
    return [ast.unparse(s) for s in method.body] == ["super().__init__()"]


def _of_what_is_left(flags: Sequence[Flag], kept: Sequence[FunctionDef]) -> Iterator[Flag]:
    """The flags but for numbers (MSP202) in functions that the port does not have, such as its factory's."""
    lines = {
        (function.loc.file, node.lineno)
        for function in kept
        for statement in function.body
        for node in ast.walk(statement)
        if isinstance(node, ast.stmt | ast.expr) and hasattr(node, "lineno")
    }
    for flag in flags:
        if flag.rule != "MSP202" or flag.source is None or (flag.source.file, flag.source.line) in lines:
            yield flag


def _kept_bases(program: Program, cell: CellDef, kept: set[str]) -> Iterator[str]:
    """The bases, those that are left out replaced by their own."""
    for base in cell.bases:
        if base in kept or base not in program.cells:
            yield base
        else:
            yield from _kept_bases(program, program.cells[base], kept)


def _bases(program: Program, cells: Iterable[CellDef]) -> set[str]:
    """Names of op-map functions that stand as base classes are known to the emitter only: keep them all."""
    return set(program.op_functions) if any(len(c.bases) and c.bases[0] != "torch.nn.Module" for c in cells) else set()


class _Reach:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._by_name = {c.name: k for k, c in program.cells.items()}
        self._free = {f.name: k for k, f in program.functions.items()}
        self._methods: dict[str, list[FunctionDef]] = {}
        for cell in program.cells.values():
            for method in cell.methods:
                self._methods.setdefault(method.name, []).append(method)
        self.cells: set[str] = set()
        self.functions: set[str] = set()
        self.named: set[str] = set()
        """Cells that reached code names, or the model itself."""
        self.names: set[str] = set()
        """Every name and attribute that reached code reads."""

    def run(self) -> None:
        program = self._program
        if program.factory is not None:
            self._function(program.factory)
        self.named.add(program.root)
        self._cell(program.root)
        for path, module in program.modules.items():
            if module.cls in program.cells and path == "":
                self._cell(module.cls)

    def _cell(self, key: str) -> None:
        if key in self.cells or key not in self._program.cells:
            return
        self.cells.add(key)
        cell = self._program.cells[key]
        for base in cell.bases:
            if self._contributes(base):
                self._cell(base)
        for method in cell.methods:
            if method.name in ("__init__", "construct", "bprop") or method.name in self.names:
                self._function(method)

    def _contributes(self, key: str) -> bool:
        """Whether a base has anything that its subclasses use: methods here or in its own bases."""
        cell = self._program.cells.get(key)
        return cell is not None and (
            bool(cell.methods or cell.attributes) or any(self._contributes(b) for b in cell.bases)
        )

    def _function(self, function: FunctionDef) -> None:
        if function.key in self.functions or (function.owner in self._program.cells and _says_nothing(function)):
            return
        self.functions.add(function.key)
        defaults = [d for d in [*function.node.args.defaults, *function.node.args.kw_defaults] if d is not None]
        hints = [a.annotation for a in function.node.args.args if a.annotation is not None]
        self._walk([*function.body, *defaults])
        for hint in hints:
            self.names |= {n.id for n in ast.walk(hint) if isinstance(n, ast.Name)}

    def _walk(self, nodes: Iterable[ast.AST]) -> None:
        for root in nodes:
            for node in ast.walk(root):
                if isinstance(node, ast.Name):
                    self._name(node.id)
                elif isinstance(node, ast.Attribute):
                    self._attribute(node.attr)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    self.names.add(node.value)
                for key in getattr(node, "callees", None) or ():
                    if isinstance(key, str):
                        self._key(key)

    def _name(self, name: str) -> None:
        if name not in self.names and name in self._program.constants:
            self.names.add(name)
            self._walk([self._program.constants[name]])
        self.names.add(name)
        if name in self._by_name:
            self.named.add(self._by_name[name])
            self._cell(self._by_name[name])
        if name in self._free:
            self._function(self._program.functions[self._free[name]])

    def _attribute(self, name: str) -> None:
        self.names.add(name)
        for method in self._methods.get(name, ()):
            if method.owner in self.cells:
                self._function(method)

    def _key(self, key: str) -> None:
        if key in self._program.functions:
            self._function(self._program.functions[key])
            return
        for cell in self._program.cells.values():
            for method in cell.methods:
                if method.key == key:
                    self._cell(cell.key)
                    self._function(method)
