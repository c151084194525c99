"""One function: its statements, then its parameters."""

from __future__ import annotations

import ast
from dataclasses import replace

from ms_port.ir.flags import Flag
from ms_port.ir.program import EMPTY_FACTS, FunctionDef
from ms_port.ir.tree import statement
from ms_port.ir.values import ModuleValue, holds_tensor
from ms_port.passes.cell_names import is_cell
from ms_port.passes.lowering.names import of_value
from ms_port.passes.lowering.scope import Scope, Untranslatable, Work
from ms_port.passes.lowering.signature import lower_annotation, lower_arguments
from ms_port.passes.lowering.statements import lower_block

_DECORATORS = {"property": "property", "static": "staticmethod", "class": "classmethod"}


def lower_function(work: Work, function: FunctionDef, *, root: bool = False) -> FunctionDef:
    """The function in the output's terms. Raises Untranslatable where a statement that matters can't be kept."""
    scope = Scope(work, function, root=root)
    scope.detaching = scope.detached_whole = any(
        word in ast.unparse(d)
        for d in function.node.decorator_list
        for word in ("no_grad", "inference_mode", "set_grad_enabled(False)")
    )
    if root:
        _bake(scope)
    from ms_port.passes.lowering.made_functions import captured

    taken = captured(function)
    scope.locals |= set(taken)
    body = [*_baked_names(scope), *lower_block(scope, function.body)]
    if function.name == "__init__" and is_cell(work.program, function.owner or ""):
        body = _with_super(body)
    name = "construct" if function.name == "forward" and function.owner is not None else function.name
    node = ast.FunctionDef(
        name=name,
        args=lower_arguments(scope),
        body=[],
        decorator_list=[ast.Name(d, ast.Load()) for d in [_DECORATORS.get(function.kind)] if d],
        returns=_returns(scope, function),
        lineno=function.node.lineno,
    )
    node.args.args = [*map(ast.arg, taken), *node.args.args]
    owner = function.facts.parameters.get("self", ())
    if owner and isinstance(owner[0], ModuleValue):
        work.cells.update(o.cls for o in owner if isinstance(o, ModuleValue) and o.cls in work.program.cells)
    if function.owner is not None and function.owner in work.program.cells:
        work.cells.add(function.owner)
    if root:
        _remove(node.args, set(scope.baked))
        _by_position(node.args)
    return replace(function, name=name, node=node, body=tuple(body))


def _baked_names(scope: Scope) -> list[ast.stmt]:
    """Baked arguments that the body binds anew begin as assignments."""
    made: list[ast.stmt] = []
    for name, value in scope.baked.items():
        if name in scope.stored:
            try:
                made.append(ast.Assign([ast.Name(name, ast.Store())], of_value(scope, scope.function.node, value)))
            except Untranslatable as error:
                scope.poison([name], error.reason)
    for one in made:
        one.lineno = scope.function.node.lineno
    return made


def _remove(args: ast.arguments, names: set[str]) -> None:
    first = len(args.args) - len(args.defaults)
    pairs = [(a, args.defaults[i - first] if i >= first else None) for i, a in enumerate(args.args)]
    kept = [(a, d) for a, d in pairs if a.arg not in names]
    args.args, args.defaults = [a for a, _ in kept], [d for _, d in kept if d is not None]
    keyword = [(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if a.arg not in names]
    args.kwonlyargs, args.kw_defaults = [a for a, _ in keyword], [d for _, d in keyword]


def _by_position(args: ast.arguments) -> None:
    """The root takes all its inputs by position: a cell that is differentiated takes no keywords."""
    defaults = args.defaults or any(d is not None for d in args.kw_defaults)
    given = [d if d is not None else ast.Constant(None) for d in args.kw_defaults]
    args.args = [*args.args, *args.kwonlyargs]
    args.defaults = [*args.defaults, *given] if defaults else []
    args.kwonlyargs, args.kw_defaults = [], []


def unsupported_function(work: Work, function: FunctionDef, error: Untranslatable) -> FunctionDef:
    """A function that could not be kept: it raises where it is called, and is flagged at the line that stopped it."""
    scope = Scope(work, function)
    scope.flag(
        error.node,
        "MSP102",
        f"{function.owner or function.key}.{function.name} could not be ported: {error.reason}",
        "Rewrite the line, or write this method by hand.",
        severity="error",
    )
    message = f"{function.name} at {scope.loc(error.node)} could not be ported: {error.reason}"
    body = ast.parse(f"raise NotImplementedError({message!r})").body
    name = "construct" if function.name == "forward" and function.owner is not None else function.name
    node = ast.FunctionDef(name, lower_arguments(scope), [], [], None, lineno=function.node.lineno)
    return replace(function, name=name, node=node, body=tuple(body))


def unsupported_constructor(work: Work, cls: str, error: Untranslatable) -> FunctionDef:
    """A constructor that neither the source nor the instances gave: it raises, and is flagged at its class."""
    cell = work.program.cells[cls]
    work.flags.append(
        Flag(
            rule="MSP102",
            severity="error",
            message=f"the constructor of {cls} could not be ported: {error.reason}",
            module=cls,
            source=cell.loc,
            advice="Write this constructor by hand.",
        )
    )
    message = f"the constructor of {cell.name} could not be ported: {error.reason}"
    node = statement("def __init__(self, *args, **kwargs): pass")
    assert isinstance(node, ast.FunctionDef)
    body = (statement("super().__init__()"), statement(f"raise NotImplementedError({message!r})"))
    return FunctionDef(
        f"{cls}.__init__ (held)", "__init__", node, body, EMPTY_FACTS, cell.loc, cls, "method", during_init=True
    )


def _bake(scope: Scope) -> None:
    """Arguments of the root that hold no tensor are baked in."""
    for name, values in scope.facts.parameters.items():
        if name != "self" and values and not any(holds_tensor(v) for v in values):
            scope.baked[name] = values[0]


def _with_super(body: list[ast.stmt]) -> list[ast.stmt]:
    """Every cell's constructor begins with its base's."""
    if any("super().__init__" in ast.unparse(s) for s in body):
        return body
    return [ast.parse("super().__init__()").body[0], *body]


def _returns(scope: Scope, function: FunctionDef) -> ast.expr | None:
    return lower_annotation(scope, function.node.returns) if function.node.returns is not None else None
