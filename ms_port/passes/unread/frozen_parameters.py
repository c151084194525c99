"""Parameters that torch does not train and the port would (MSP506)."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ms_port.capture.abstract import canonical_class
from ms_port.ir.flags import Flag
from ms_port.ir.program import Program
from ms_port.passes.rewrite import all_functions
from ms_port.passes.unread.modules import LiveModel


def thawed(program: Program, model: LiveModel) -> Iterator[Flag]:
    """Parameters that torch does not train and that nothing in the port's constructors freezes."""
    frozen = [(p.path, p.tied_to) for p in program.parameters.values() if p.kind == "parameter" and not p.trainable]
    left = [path for path, tied in frozen if tied is None]
    if not left:
        return
    covered = list(_frozen_in_port(program, model))
    by_module: dict[str, list[str]] = {}
    for path in left:
        if not any(path == prefix or (whole and f"{path}.".startswith(prefix)) for prefix, whole in covered):
            owner, _, name = path.rpartition(".")
            by_module.setdefault(owner, []).append(name)
    for owner, names in by_module.items():
        yield Flag(
            rule="MSP506",
            severity="warning",
            message=f"{', '.join(names)} of {model.name(owner)} has no gradient in torch and is trained in the port",
            module=owner,
            source=model.place(owner),
            advice="Set `requires_grad = False` on it after the cell is built.",
        )


def _frozen_in_port(program: Program, model: LiveModel) -> Iterator[tuple[str, bool]]:
    """Paths that a statement of the port freezes; True where it freezes all that begins with the path."""
    for function in all_functions(program):
        owners = [""]
        if function.owner is not None:
            owners = [
                path
                for path, module in model.modules.items()
                if any(canonical_class(c) == function.owner for c in type(module).__mro__)
            ]
        for node in (n for statement in function.body for n in ast.walk(statement)):
            for name, whole in (*_frozen_cells(node), *(_frozen_name(function.body, *a) for a in _assigned(node))):
                if name is not None:
                    for path in owners:
                        full = ".".join(p for p in (path, name) if p)
                        yield (f"{full}." if whole and full else full), whole


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)


def _frozen_cells(node: ast.AST) -> Iterator[tuple[str, bool]]:
    """``set_requires_grad(self.a, False)``, ``self.a = set_requires_grad(Layer(), False)``."""
    match node:
        case ast.Call(func=ast.Name(id="set_requires_grad"), args=[ast.Name() | ast.Attribute() as cell, wanted]):
            held: ast.expr = cell
        case ast.Assign(targets=[held], value=ast.Call(func=ast.Name(id="set_requires_grad"), args=[_, wanted])):
            pass
        case _:
            return
    if not (isinstance(wanted, ast.Constant) and wanted.value is True):
        yield _dotted(held)[0], True


def _freezes(call: ast.Call) -> bool:
    return any(
        k.arg == "requires_grad" and not (isinstance(k.value, ast.Constant) and k.value.value is True)
        for k in call.keywords
    )


def _frozen_name(body: Sequence[ast.stmt], target: ast.expr, value: ast.expr) -> tuple[str | None, bool]:
    """What ``X.requires_grad = ...`` or ``X = Parameter(..., requires_grad=False)`` freezes, relative to its module."""
    if any(isinstance(n, ast.Call) and _freezes(n) for n in ast.walk(value)):
        return _dotted(target)
    if not isinstance(target, ast.Attribute) or target.attr != "requires_grad":
        return None, False
    holder = target.value
    if isinstance(holder, ast.Name) and (loop := _loop_over(body, holder)) is not None:
        while isinstance(loop, ast.Call):
            function = loop.func
            loop = function.value if isinstance(function, ast.Attribute) else loop.args[0] if loop.args else function
        return _dotted(loop)[0], True
    return _dotted(holder)


def _loop_over(body: Sequence[ast.stmt], used: ast.Name) -> ast.expr | None:
    """What the ``for`` around a name, which binds it, runs over."""
    for node in (n for statement in body for n in ast.walk(statement)):
        if not isinstance(node, ast.For) or not any(n is used for n in ast.walk(node)):
            continue
        if any(isinstance(n, ast.Name) and n.id == used.id for n in ast.walk(node.target)):
            return node.iter
    return None


def _dotted(node: ast.expr) -> tuple[str, bool]:
    """``self.a[0].weight`` as ``a.0.weight``; what a computed part hides may be anything below."""
    parts: list[str] = []
    whole = False
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        if isinstance(node, ast.Attribute):
            parts.append(_TORCH_NAMES.get(node.attr, node.attr))
            node = node.value
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            parts.append(str(node.slice.value))
            node = node.value
        else:
            parts, whole = [], True
            node = node.value if isinstance(node, ast.Subscript) else node.func
    return ".".join(reversed(parts)), whole


_TORCH_NAMES = {"embedding_table": "weight", "gamma": "weight", "beta": "bias"}
"""Names of a cell's parameters where torch's differ."""
