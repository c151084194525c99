"""Makes the instrumented copy of a code object and puts it into the functions that hold the original."""

from __future__ import annotations
import __future__

import ast
import inspect
import types
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any

from ms_port.capture.recording import FunctionRecord
from ms_port.capture.rewrite import HOOK_PREFIX, HOOKS, Rewriter, hook_name, is_generator
from ms_port.capture.source import FunctionNode, FunctionSource, NoSource, function_source, nid_of

_UNSUPPORTED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_FUTURES = 0
for _name in __future__.all_feature_names:
    _FUTURES |= getattr(__future__, _name).compiler_flag
_COPY = "ms_port_copy"
_PROTOCOL = frozenset({"__getattribute__", "__getattr__", "__setattr__", "__delattr__"})
"""Run for every attribute access, also by the recorder itself; their effect shows in the expression that they serve."""

Hook = Callable[..., Any]


class CopyMaker:
    """Compiles instrumented copies; every function found in a copy is announced as a FunctionRecord of its own."""

    def __init__(self, announce: Callable[[FunctionRecord], Mapping[str, Hook]]) -> None:
        """``announce`` takes a new record and returns its hooks by name."""
        self._announce = announce
        self._next = 0
        self._records: dict[int, FunctionRecord] = {}
        self._copies: dict[int, types.CodeType] = {}
        self.skipped: dict[str, int] = defaultdict(int)
        """Why functions were not instrumented, counted."""
        self.copies: set[int] = set()
        """ids of the instrumented code objects."""

    @property
    def covered(self) -> Set[int]:
        """ids of the original code objects that an instrumented copy reports for."""
        return self._records.keys()

    def supports(self, code: types.CodeType) -> bool:
        """False (and counted in ``skipped``) for kinds of functions that are not instrumented."""
        reason = ""
        if code.co_name in _PROTOCOL:
            reason = "attribute protocol"
        elif code.co_flags & _UNSUPPORTED:
            reason = "generator" if code.co_flags & inspect.CO_GENERATOR else "async"
        if reason:
            self.skipped[reason] += 1
        return not reason

    def copy(self, code: types.CodeType, function: types.FunctionType) -> types.CodeType | None:
        """The instrumented copy of the code of ``function``, or None (then the reason is counted in ``skipped``).

        The copy of a function inside another is that inside the other's copy, so that both share one record.
        """
        if id(code) in self._copies:
            record = self._records[id(code)]
            if record.function is None:
                record.function = function
            return self._copies[id(code)]
        try:
            return self._copy(code, function, function_source(code))
        except NoSource as reason:
            self.skipped[str(reason)] += 1
        except (SyntaxError, RecursionError, ValueError) as error:
            self.skipped[f"copy does not compile: {type(error).__name__}"] += 1
        return None

    def _copy(self, code: types.CodeType, function: types.FunctionType, source: FunctionSource) -> types.CodeType:
        build = _Build(self, source, _nested_codes(code))
        root = build.record(source.tree, code, function, None)
        Rewriter(root.index, build.begin_in(root)).function(source.copy)
        compiled = _compiled(source.copy, code)
        if _free_variables(compiled) != _free_variables(code):
            raise NoSource("free variables differ")
        hooks: dict[str, Hook] = {}
        for record in build.records:
            own = self._announce(record)
            hooks.update((hook_name(record.index, name), own[name]) for name in HOOKS)
            self._records[id(record.code)] = record
        entries = {hook_name(record.index, "enter"): record for record in build.records}
        new = self._bound(compiled, hooks, entries, (compiled.co_qualname, code.co_qualname))
        self.copies.update(map(id, (new, *_all_nested(new))))
        return new

    def _bound(
        self,
        code: types.CodeType,
        hooks: Mapping[str, Hook],
        entries: Mapping[str, FunctionRecord],
        prefixes: tuple[str, str],
    ) -> types.CodeType:
        """Put the hooks into the constants, and the original names back, also in nested code."""
        constants: list[Any] = []
        original: types.CodeType | None = None
        for item in code.co_consts:
            if isinstance(item, str) and item.startswith(HOOK_PREFIX):
                constants.append(hooks[item])
                original = entries[item].code if item in entries else original
            elif isinstance(item, types.CodeType):
                constants.append(self._bound(item, hooks, entries, prefixes))
            else:
                constants.append(item)
        name, (old, new) = code.co_qualname, prefixes
        bound = code.replace(
            co_consts=tuple(constants),
            co_name=original.co_name if original is not None else code.co_name,
            co_qualname=new + name[len(old) :] if name.startswith(old) else name,
        )
        if original is not None and original.co_freevars == bound.co_freevars:
            self._copies[id(original)] = bound
        return bound

    def next_index(self) -> int:
        """A fresh record index."""
        self._next += 1
        return self._next - 1


class _Build:
    """The records of one copy under construction."""

    def __init__(
        self, maker: CopyMaker, source: FunctionSource, nested: dict[tuple[str, int], list[types.CodeType]]
    ) -> None:
        self.maker = maker
        self.source = source
        self.nested = nested
        self.records: list[FunctionRecord] = []

    def record(
        self,
        tree: FunctionNode,
        code: types.CodeType,
        function: types.FunctionType | None,
        outer: FunctionRecord | None,
    ) -> FunctionRecord:
        """Make one record."""
        first = _first_line(tree)
        lines = self.source.text.splitlines(keepends=True)[first - self.source.line :]
        text = "".join(lines[: (tree.end_lineno or first) - first + 1])
        index = self.maker.next_index()
        record = FunctionRecord(index, function, code, tree, text, self.source.file, first, outer)
        self.records.append(record)
        return record

    def begin_in(self, outer: FunctionRecord) -> Callable[[FunctionNode], int | None]:
        """The rewriter's callback for functions defined in the body of ``outer``."""

        def begin(node: FunctionNode) -> int | None:
            name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
            codes = self.nested.get((name, _first_line(node)))
            if not codes:
                return None
            code = codes.pop(0)
            if is_generator(node):
                self.maker.skipped["generator"] += 1
                return None
            record = self.record(self.source.functions[nid_of(node)], code, None, outer)
            Rewriter(record.index, self.begin_in(record)).function(node)
            return record.index

        return begin


def _first_line(node: FunctionNode) -> int:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return min([node.lineno, *(item.lineno for item in decorators)])


def _all_nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """Code objects inside another, outer ones first, in source order."""
    for item in code.co_consts:
        if isinstance(item, types.CodeType):
            yield item
            yield from _all_nested(item)


def nested_ids(codes: Iterable[types.CodeType]) -> set[int]:
    """ids of the code objects that lie inside one of the others."""
    return {id(item) for code in codes for item in _all_nested(code)}


def _free_variables(code: types.CodeType) -> list[tuple[str, ...]]:
    """Those of a code object and, in any order, those of all functions in it: cells are handed over by position."""
    return [code.co_freevars, *sorted(item.co_freevars for item in _all_nested(code))]


def _nested_codes(code: types.CodeType) -> dict[tuple[str, int], list[types.CodeType]]:
    found: dict[tuple[str, int], list[types.CodeType]] = defaultdict(list)
    for item in _all_nested(code):
        found[item.co_name, item.co_firstlineno].append(item)
    return found


def enclosing_class(qualname: str) -> str | None:
    """Name of the class whose body holds a function, for private names: ``A`` for ``A.f`` and ``A.f.<locals>.g``."""
    parts = qualname.split(".")
    for index in range(len(parts) - 2, -1, -1):
        if parts[index] != "<locals>" and parts[index + 1] != "<locals>":
            return parts[index]
    return None


def _compiled(node: FunctionNode, code: types.CodeType) -> types.CodeType:
    """Compile a rewritten function where its free variables are parameters of a function around it."""
    place: dict[str, Any] = {"lineno": node.lineno, "col_offset": 0, "end_lineno": node.lineno, "end_col_offset": 0}
    free = [ast.arg(name, **place) for name in code.co_freevars]
    body: list[ast.stmt]
    if isinstance(node, ast.Lambda):
        body = [ast.Return(node, **place)]
        name = "<lambda>"
    else:
        node.decorator_list, node.returns, node.name = [], None, _COPY
        body = [node]
        name = _COPY
    node.args.defaults = []
    node.args.kw_defaults = [None] * len(node.args.kwonlyargs)
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    parameters = ast.arguments([], free, None, [], [], None, [])
    holder: ast.stmt = ast.FunctionDef("ms_port_outer", parameters, body, [], **place)
    owner = enclosing_class(code.co_qualname)
    if owner is not None and owner.isidentifier():
        holder = ast.ClassDef(owner, [], [], [holder], [], **place)
    module = ast.Module([holder], [])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # "'str' object is not callable": hooks take its place
        compiled = compile(module, code.co_filename, "exec", code.co_flags & _FUTURES, dont_inherit=True)
    return next(item for item in _all_nested(compiled) if item.co_name == name)


@contextmanager
def swapped(copies: Sequence[tuple[types.FunctionType, types.CodeType]]) -> Iterator[None]:
    """Give each function its instrumented code inside the block, and its own back afterwards."""
    originals = [(function, function.__code__) for function, _ in copies]
    try:
        for function, code in copies:
            function.__code__ = code
        yield
    finally:
        for function, original in originals:
            function.__code__ = original
