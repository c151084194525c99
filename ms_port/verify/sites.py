"""Copy a port's package so that the expressions of some of its functions report their values as it runs.

The copy has the lines of the original: calls of a helper are put around expressions, and nothing else is moved.
"""

from __future__ import annotations

import ast
import shutil
from dataclasses import dataclass
from pathlib import Path

from ms_port.ir.flags import Place

HELPER = "ms_port_sites"
"""Name of the module that is added to the copy."""
MOST_SITES = 400


@dataclass(frozen=True)
class Site:
    """One expression of the port, with its place (file relative to OUT) and its text.

    ``name`` is that of a variable or attribute that is read; empty for what is computed.
    """

    number: int
    place: Place
    text: str
    name: str = ""


def instrument(out: Path, package: str, cls: str, into: Path) -> list[Site]:
    """Write the instrumented package below ``into``; no sites if ``cls`` is no class of the package.

    Instrumented are the methods that ``cls.construct`` reaches, and the free functions of the same file.
    """
    shutil.copytree(out / package, into / package)
    for file in sorted((into / package).rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        tree = ast.parse(source)
        found = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == cls), None)
        if found is None:
            continue
        wrapper = _Wrapper(file.relative_to(into).as_posix(), source)
        for function in reached(tree, found):
            wrapper.function(function)
        dots = "." * len(file.relative_to(into / package).parts)
        imports = [n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom))]
        if not imports:
            continue
        wrapper.append(imports[-1], f"; from {dots} import {HELPER}")
        file.write_text(wrapper.written(), encoding="utf-8")
        (into / package / f"{HELPER}.py").write_text(helper(wrapper.sites), encoding="utf-8")
        return wrapper.sites
    return []


def reached(tree: ast.Module, cls: ast.ClassDef) -> list[ast.FunctionDef]:
    """``construct`` and the methods (also of base classes in this file) and free functions that it calls by name."""
    classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}
    free = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    methods: dict[str, ast.FunctionDef] = {}
    todo = [cls]
    while todo:
        current = todo.pop(0)
        for member in current.body:
            if isinstance(member, ast.FunctionDef):
                methods.setdefault(member.name, member)
        todo += [classes[b.id] for b in current.bases if isinstance(b, ast.Name) and b.id in classes]
    found: dict[int, ast.FunctionDef] = {}
    functions = [methods["construct"]] if "construct" in methods else []
    while functions:
        function = functions.pop(0)
        if id(function) in found:
            continue
        found[id(function)] = function
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
                functions += [methods[node.attr]] if node.attr in methods else []
            if isinstance(node, ast.Name) and node.id in free:
                functions.append(free[node.id])
    return list(found.values())


class _Wrapper(ast.NodeVisitor):
    """Wrap what is computed, and the local names and attributes of ``self`` that are read for it."""

    def __init__(self, file: str, source: str) -> None:
        self.file, self.source = file, source
        self.sites: list[Site] = []
        self.local: set[str] = set()
        self.depth = 0
        self.lines = source.encode().splitlines(keepends=True)
        self.added: list[tuple[int, int, int, bytes]] = []
        """(line, column, order at this place, text)."""

    def written(self) -> str:
        """The source with all that was added."""
        for line, column, _, text in sorted(self.added, reverse=True):
            row = self.lines[line - 1]
            self.lines[line - 1] = row[:column] + text + row[column:]
        return b"".join(self.lines).decode()

    def append(self, node: ast.stmt, text: str) -> None:
        """Add a statement behind another, in its line."""
        self.added.append((node.end_lineno or 0, node.end_col_offset or 0, 0, text.encode()))

    def function(self, node: ast.FunctionDef) -> None:
        """Wrap the body of one function."""
        arguments = node.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        self.local = ({a.arg for a in named} | stored) - {"self"}
        for statement in node.body:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        """Wrap the value of a statement; after a write into a variable, report the variable."""
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Assert, ast.Raise)):
            return
        value = getattr(node, "value", None)
        if isinstance(value, ast.expr):
            self.visit(value)
        for field in ("body", "orelse"):
            for inner in getattr(node, field, None) or ():
                self.statement(inner)
        if written := _written(node):
            number = self.site(node, "")
            self.append(node, f"; {written} = {HELPER}.seen_{number}({written})")

    def site(self, node: ast.AST, name: str) -> int:
        """A new site for a node."""
        text = " ".join((ast.get_source_segment(self.source, node) or "").split())
        self.sites.append(Site(len(self.sites), Place(self.file, getattr(node, "lineno", 0)), text, name))
        return len(self.sites) - 1

    def wrap(self, node: ast.expr, name: str = "") -> None:
        """``ms_port_sites.seen_N(node)``. Of what begins or ends at one place, the outer one stands outside."""
        if len(self.sites) >= MOST_SITES:
            return
        opened = f"{HELPER}.seen_{self.site(node, name)}("
        self.depth += 1
        end = node.end_lineno or 0, node.end_col_offset or 0
        self.added.append((node.lineno, node.col_offset, 1000 + self.depth, opened.encode()))
        self.added.append((*end, 1000 - self.depth, b")"))

    def computed(self, node: ast.expr) -> None:
        """Wrap a node and what goes into it."""
        depth = self.depth
        self.wrap(node)
        if isinstance(node, ast.Call):  # what is called stays; only the tensor whose method it is may be reported
            if isinstance(node.func, ast.Attribute):
                self.visit(node.func.value)
            for argument in (*node.args, *node.keywords):
                self.visit(argument)
        elif isinstance(node, ast.Subscript):
            self.visit(node.value)
        else:
            self.generic_visit(node)
        self.depth = depth

    def visit_Call(self, node: ast.Call) -> None:
        if not (isinstance(node.func, ast.Name) and node.func.id in _PLAIN):
            self.computed(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self.computed(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if not any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
            self.computed(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if not isinstance(node.op, ast.Not) and not isinstance(node.operand, ast.Constant):
            self.computed(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.ctx, ast.Load):
            self.computed(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) and node.id in self.local:
            self.wrap(node, node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            self.visit(node.value)
        elif isinstance(node.ctx, ast.Load) and node.attr != "training":
            self.wrap(node, f"self.{node.attr}")

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.body)
        self.visit(node.orelse)

    def _left_alone(self, node: ast.AST) -> None:
        """Names inside have another scope, or it is no expression on tensors."""

    visit_Lambda = visit_JoinedStr = visit_ListComp = visit_GeneratorExp = visit_DictComp = _left_alone


_PLAIN = ("isinstance", "len", "range", "getattr", "hasattr", "super", "zip", "enumerate", "reversed", "print")


def _written(node: ast.stmt) -> str | None:
    """The variable that a statement changes: ``x += y``, ``x[i] = y``."""
    targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets if isinstance(node, ast.Assign) else []
    for target in targets:
        if isinstance(target, ast.Name) and isinstance(node, ast.AugAssign):
            return target.id
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            return target.value.id
    return None


def helper(sites: list[Site]) -> str:
    """The module that the copy imports: a host call for each site, which hands the array to ``SEEN``."""
    parts = [_HEAD]
    parts += [_SITE.format(n=site.number) for site in sites]
    return "\n\n".join(parts)


_HEAD = """import numpy as np
from mindspore import Tensor, ops

SEEN = []
COUNTS = {}


def keep(site, value):
    COUNTS[site] = COUNTS.get(site, 0) + 1
    if COUNTS[site] <= 64 and np.size(value) <= 1 << 24:
        SEEN.append((site, np.array(value)))


def tap(site):
    def host(x):
        keep(site, x)
        return x

    return ops.Custom(host, out_shape=lambda s: s, out_dtype=lambda d: d, func_type="pyfunc")


@ops.constexpr
def note(site, value):
    keep(site, value)
    return 0
"""
_SITE = """tap_{n} = tap({n})


def one_{n}(v):
    if isinstance(v, Tensor):
        return tap_{n}(v)
    return v


def seen_{n}(v):
    if isinstance(v, Tensor):
        return tap_{n}(v)
    if isinstance(v, (int, float, bool, str)):
        note({n}, v)
        return v
    if isinstance(v, tuple):
        out = ()
        for item in v:
            out = out + (one_{n}(item),)
        return out
    return v
"""
