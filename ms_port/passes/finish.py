"""Finish: configuration objects get their fields, and what could not be passed is said."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from ms_port.ir.flags import Flag, Place
from ms_port.ir.program import CellDef, FunctionDef, Program
from ms_port.ir.tree import literal, names_read, names_stored, nid
from ms_port.ir.values import Literal, ModuleValue, ObjectValue, Value
from ms_port.passes.cell_names import rename_reserved
from ms_port.passes.derived_fields import computed_fields, with_derived_fields
from ms_port.passes.lowering.absent import ABSENT
from ms_port.passes.rewrite import all_functions, map_functions, parameters


def finish(program: Program) -> Program:
    """The program as it will be written."""
    flags: list[Flag] = [*_unset_attributes(program), *_ignored_inputs(program)]
    program = replace(program, configs=_configs(program))
    program = replace(program, config_classes=with_derived_fields(program))
    taken = _module_names(program)

    def one(function: FunctionDef) -> FunctionDef:
        visitor = _Finish(program, function, flags, taken | local_names(function))
        body = (visitor.visit(s) for s in function.body)
        return replace(function, body=tuple(s for s in body if s is not None))

    finished = map_functions(program, one)
    return rename_reserved(replace(finished, flags=(*finished.flags, *flags)))


def _module_names(program: Program) -> set[str]:
    """Names that the output defines at module level."""
    return (
        {c.name for c in program.cells.values()} | {f.name for f in program.functions.values()} | set(program.constants)
    )


def local_names(function: FunctionDef) -> set[str]:
    """Names that a function binds: parameters and assigned names."""
    args = function.node.args
    names = {a.arg for a in [*args.args, *args.kwonlyargs]} | {n for s in function.body for n in names_stored(s)}
    return names | ({args.vararg.arg} if args.vararg else set())


def _configs(program: Program) -> dict[str, dict[str, Value]]:
    """Config class -> the fields that the code still reads, in the source's order, with the source's defaults."""
    read: dict[str, set[str]] = {}
    for function in all_functions(program):
        for statement in function.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Attribute):
                    for cls in getattr(node, "of_configs", ()):
                        read.setdefault(cls, set()).add(node.attr)
    configs: dict[str, dict[str, Value]] = {}
    for cls, seen in program.configs.items():
        known = program.config_classes.get(cls)
        order = [name for name, _ in known.fields] if known else []
        defaults = {name: default for name, default in known.fields if default is not None} if known else {}
        names = sorted(read.get(cls, ()), key=lambda n: (order.index(n) if n in order else len(order), n))
        configs[cls] = {name: defaults.get(name, seen[name]) for name in names}
    return configs


def _ignored_inputs(program: Program) -> Iterator[Flag]:
    """Tensors that the root takes and its code never reads."""
    root = program.root_construct
    if root is None or is_stub(root):
        return
    read = names_read(root.body)
    for name in parameters(root):
        if name not in read:
            never = name in program.ignored_inputs
            advice = "torch ignored it too; if it should matter, convert with inputs for which it does."
            yield Flag(
                rule="MSP304",
                severity="info" if never else "warning",
                message=f"the input `{name}` has no effect on the output",
                module="",
                source=root.loc,
                advice="The source reads it nowhere, or only under other settings." if never else advice,
            )


def is_stub(function: FunctionDef) -> bool:
    """Whether the function could not be ported and only raises."""
    return len(function.body) == 1 and "NotImplementedError" in ast.unparse(function.body[0])


def _unset_attributes(program: Program) -> Iterator[Flag]:
    """Attributes of ``self`` that graph code reads and no constructor sets."""
    given = _given_to_others(program)
    for cell in program.cells.values():
        known = _known_names(program, cell, set()) | _known_below(program, cell) | given
        for method in cell.methods:
            if method.during_init:
                continue
            for statement in method.body:
                for node in ast.walk(statement):
                    if (
                        isinstance(node, ast.Attribute)
                        and isinstance(node.value, ast.Name)
                        and node.value.id == "self"
                        and node.attr not in known
                        and not _every_reader_has(program, method, node)
                    ):
                        known.add(node.attr)
                        yield _unset(cell, method, node)


def _given_to_others(program: Program) -> set[str]:
    """Names that constructors set on other objects: ``layer.index = i``, ``layer.register_buffer("mask", ...)``."""
    found: set[str] = set()
    methods = [m for cell in program.cells.values() for m in cell.methods]
    for function in [*methods, *program.functions.values()]:
        for node in (n for s in function.body for n in ast.walk(s)) if function.during_init else ():
            match node:
                case ast.Attribute(value=holder, attr=name, ctx=ast.Store()):
                    pass
                case ast.Call(
                    func=ast.Attribute(value=holder, attr="register_buffer" | "insert_child_to_cell"),
                    args=[ast.Constant(value=str(name)), *_],
                ):
                    pass
                case ast.Call(func=ast.Name(id="setattr"), args=[holder, ast.Constant(value=str(name)), _]):
                    pass
                case _:
                    continue
            if not (isinstance(holder, ast.Name) and holder.id == "self"):
                found.add(name)
    return found


def _every_reader_has(program: Program, method: FunctionDef, node: ast.Attribute) -> bool:
    """Whether each class on whose instances a shared method read the attribute has it."""
    readers = {v.cls for v in method.facts.values.get(nid(node.value), ()) if isinstance(v, ModuleValue)}
    cells = [program.cells[name] for name in readers if name in program.cells]
    return (
        bool(readers)
        and len(cells) == len(readers)
        and all(node.attr in _known_names(program, cell, set()) for cell in cells)
    )


def _unset(cell: CellDef, method: FunctionDef, node: ast.Attribute) -> Flag:
    line = getattr(node, "lineno", method.loc.line)
    return Flag(
        rule="MSP108",
        severity="error",
        message=f"{cell.name} reads `self.{node.attr}`, which its constructor could not set in the port",
        module=cell.key,
        source=Place(method.loc.file, line),
        advice=f"Set `self.{node.attr}` in {cell.name}.__init__ by hand.",
    )


def _known_below(program: Program, cell: CellDef) -> set[str]:
    """What all classes have that derive from a class without instances (a mixin)."""
    if cell.instances:
        return set()
    found = [
        _known_names(program, c, set()) for c in program.cells.values() if c.instances and _derives(program, c, cell)
    ]
    return set.intersection(*found) if found else set()


def _derives(program: Program, cell: CellDef, base: CellDef) -> bool:
    return any(
        key == base.key or (key in program.cells and _derives(program, program.cells[key], base)) for key in cell.bases
    )


def _known_names(program: Program, cell: CellDef, seen: set[str]) -> set[str]:
    """What a cell has: set in its constructors, children, tensors, methods, class attributes, nn.Cell's own."""
    known = {"training", "cells", "name_cells", "cell_list", "cell_items", "__class__"}
    for key in [cell.key, *cell.bases]:
        base = program.cells.get(key)
        if base is None or key in seen:
            continue
        seen.add(key)
        known |= {m.name for m in base.methods}
        for statement in base.attributes:
            known |= {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
        for method in base.methods:
            for statement in method.body if method.during_init else ():
                known |= {n.attr for n in ast.walk(statement) if isinstance(n, ast.Attribute)}
                known |= {
                    n.value for n in ast.walk(statement) if isinstance(n, ast.Constant) and isinstance(n.value, str)
                }
            if method.during_init and any(_sets_computed_name(n) for s in method.body for n in ast.walk(s)):
                for path in cell.instances:
                    known |= {path.rpartition(".")[2] for path in _below(program, path)}
        if base is not cell:
            known |= _known_names(program, base, seen)
    torch_bases = [b for b in cell.bases if b.startswith("torch.nn.") and b != "torch.nn.Module"]
    if torch_bases:  # a layer's own attributes: gamma, beta, in_channels ...
        known |= {n.attr for m in cell.methods for s in m.body for n in ast.walk(s) if isinstance(n, ast.Attribute)}
    return known


def _sets_computed_name(node: ast.AST) -> bool:
    """``setattr(self, name, ...)`` with a name that is no literal."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "setattr"
        and len(node.args) == 3
        and not isinstance(node.args[1], ast.Constant)
    )


def _below(program: Program, path: str) -> Iterator[str]:
    """Paths of the modules and tensors that a module holds itself."""
    front = f"{path}." if path else ""
    for held in (*program.modules, *program.parameters):
        if held.startswith(front) and held != path and "." not in held[len(front) :]:
            yield held


class _Finish(ast.NodeTransformer):
    def __init__(self, program: Program, function: FunctionDef, flags: list[Flag], taken: set[str]) -> None:
        self._program, self._function, self._flags, self._taken = program, function, flags, taken

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if (cls := getattr(node, "fields_of", None)) is not None:
            node.keywords = [k for k in node.keywords if k.arg in self._program.configs.get(cls, {})]
            if node.args and not node.keywords:
                return self.visit(node.args[0])  # type: ignore[no-any-return]
        config = getattr(node, "config", None)
        if isinstance(config, ObjectValue):
            read = self._program.configs.get(config.cls, {})
            own = dict(config.fields)
            defaults = dict(self._program.configs.get(config.cls, {}))
            node.keywords = [k for k in node.keywords if k.arg in read]
            computed = computed_fields(self._program.config_classes.get(config.cls), read, own)
            for name in read:
                value = own.get(name, read[name])
                if isinstance(value, Literal) and value not in (defaults.get(name), computed.get(name)):
                    plain = tuple(value.value) if isinstance(value.value, list) else value.value
                    node.keywords.append(ast.keyword(name, literal(plain)))
            node.keywords.sort(key=lambda k: list(read).index(k.arg or ""))
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        made = self.generic_visit(node)
        match made:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=same)) if name == same:
                return None  # `cfg = replace(cfg, **kwargs)` without any keyword
        return made

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        made = self.generic_visit(node)
        assert isinstance(made, ast.IfExp)
        if any(isinstance(n, ast.Call | ast.NamedExpr) for n in ast.walk(made.test)):
            return made
        return made.body if ast.dump(made.body) == ast.dump(made.orelse) else made

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if getattr(node, "op_function", False) and node.id in self._taken:
            return ast.Attribute(ast.Name("functions", ast.Load()), node.id, ast.Load())
        if node.id != ABSENT:
            return node
        self._flags.append(
            Flag(
                rule="MSP104",
                severity="error",
                message=f"an argument can't be passed in the port: {getattr(node, 'reason', '')}",
                module=self._function.owner or self._function.key,
                source=self._function.loc,
                advice="Give the argument by hand, or remove the code that reads it.",
            )
        )
        return literal(None)
