"""``build_model``: what makes the model, by the function or class that the person or the library names."""

from __future__ import annotations

import ast
from dataclasses import replace

from ms_port.ir.flags import Place
from ms_port.ir.program import EMPTY_FACTS, Drop, FunctionDef, ModuleInstance
from ms_port.ir.tree import defaults_of, expression, names_read, names_stored, nid
from ms_port.ir.values import ModuleValue, Value
from ms_port.passes.lowering.absent import ABSENT, absent_name
from ms_port.passes.lowering.configs import argument_value, given_arguments
from ms_port.passes.lowering.functions import lower_function
from ms_port.passes.lowering.held import by_layer, held_module, note_held
from ms_port.passes.lowering.inherited import find_method
from ms_port.passes.lowering.scope import Untranslatable, Work


def lower_factory(work: Work) -> FunctionDef:
    """``build_model``: the person's factory, or the root's class with the arguments seen."""
    program = work.program
    if program.factory is not None:
        try:
            with work.attempted():
                before = work.poisoned
                lowered = lower_function(work, program.factory)
                if work.poisoned > before:
                    raise Untranslatable(program.factory.node, "the factory is a library's plumbing")
                args = _as_called(work, program.factory, lowered)
            summary = (lowered.docstring or "The model as it was converted.").split("\n\n")[0].replace("\n", " ")
            return replace(lowered, name="build_model", node=_renamed(lowered.node, args), docstring=summary)
        except Untranslatable as error:
            work.drops.append(Drop(program.factory.key, program.factory.loc, program.factory.name, error.reason))
    body = _inner_factory_call(work)
    try:
        body = body or _root_call(work)
    except Untranslatable as error:
        if (init := find_method(program, program.root, "__init__")) is not None:
            note_held(work, init, error)
        if (made := by_layer(work, program.modules[""])) is None:
            work.held.add(program.root)
        body = made or _held_root(work)
    cell = program.root_cell
    returns = ast.Name(cell.name, ast.Load()) if cell is not None else expression("nn.Cell")
    node = ast.FunctionDef("build_model", ast.arguments([], [], None, [], [], None, []), [], [], returns, lineno=0)
    return FunctionDef(
        key="build_model",
        name="build_model",
        node=node,
        body=(ast.Return(body),),
        facts=EMPTY_FACTS,
        loc=cell.loc if cell is not None else Place("?", 0),
        during_init=True,
        docstring="The model as it was converted.",
    )


def _as_called(work: Work, factory: FunctionDef, lowered: FunctionDef) -> ast.arguments:
    """Its parameters, with what it was given as defaults: ``build_model()`` makes the model that was converted."""
    work.lowered[factory.key] = lowered
    given = given_arguments(work, _called_with(work, factory), factory)
    del work.lowered[factory.key]
    old = lowered.node.args
    made = defaults_of(old) | {name: _given_default(work, value) for name, value in given.items()}
    defaults = [made[a.arg] for a in old.args if a.arg in made]
    keywords = [made.get(a.arg) for a in old.kwonlyargs]
    return ast.arguments([], old.args, old.vararg, old.kwonlyargs, keywords, old.kwarg, defaults)


def _given_default(work: Work, value: Value) -> ast.expr:
    try:
        return argument_value(work, value)
    except Untranslatable as error:
        return absent_name(error)


def _called_with(work: Work, factory: FunctionDef) -> ModuleInstance:
    """The root, with the arguments that a function which makes it got in their stead."""
    seen = tuple((name, values[0]) for name, values in factory.facts.parameters.items())
    return replace(work.program.modules[""], arguments=seen)


def _inner_factory_call(work: Work) -> ast.expr | None:
    """The call of what a library's plumbing (``get_model(name)``) called to have the model made, with what it gave."""
    program = work.program
    for inner in (work.all_functions[key] for key in program.inner_factories):
        if not _names_what_it_calls(inner):
            continue
        try:
            with work.attempted():
                poisoned, flags = work.poisoned, len(work.flags)
                work.need(inner.key)
                open_flags = any(f.severity != "info" for f in work.flags[flags:])
                lacking = any(ABSENT in names_read(made.body) for made in _chain(work))
                if work.poisoned > poisoned or open_flags or lacking:
                    raise Untranslatable(inner.node, "the factory is a library's plumbing")
                return _call_of(work, inner)
        except Untranslatable as error:
            work.drops.append(Drop(inner.key, inner.loc, inner.name, error.reason))
    return None


def _chain(work: Work) -> list[FunctionDef]:
    """What is lowered of the functions that give the model."""
    return [work.lowered[key] for key in work.program.inner_factories if key in work.lowered]


def _names_what_it_calls(factory: FunctionDef) -> bool:
    """Whether the function or class that makes the model stands there by name; else it is looked up in a registry."""
    parameters = factory.node.args
    own = {a.arg for a in [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs]}
    own = own.union(*map(names_stored, factory.body))
    for node in (node for statement in factory.body for node in ast.walk(statement)):
        if isinstance(node, ast.Call) and any(_is_root(f.result) for f in factory.facts.calls.get(nid(node), ())):
            first = node.func
            while isinstance(first, ast.Attribute):
                first = first.value
            if not isinstance(first, ast.Name) or (first is node.func and first.id in own):
                return False
    return True


def _is_root(value: Value) -> bool:
    return isinstance(value, ModuleValue) and value.path == ""


def _call_of(work: Work, inner: FunctionDef) -> ast.Call:
    """The call of a lowered function with what it was given."""
    given = given_arguments(work, _called_with(work, inner), inner)
    made = work.lowered[inner.key]
    taken = {a.arg for a in [*made.node.args.args, *made.node.args.kwonlyargs]}
    keywords = [ast.keyword(name, argument_value(work, value)) for name, value in given.items() if name in taken]
    call = ast.Call(ast.Name(made.name, ast.Load()), [], keywords)
    call.func.callees = call.callees = (inner.key,)  # type: ignore[attr-defined]
    return call


def _held_root(work: Work) -> ast.expr:
    """The root from what it holds; where that can't be written its constructor raises, which is flagged there."""
    try:
        return held_module(work, "")
    except Untranslatable:
        if (cell := work.program.root_cell) is None:
            raise
        return ast.Call(ast.Name(cell.name, ast.Load()), [], [])


def _renamed(node: ast.FunctionDef, args: ast.arguments) -> ast.FunctionDef:
    return ast.FunctionDef("build_model", args, [], [], node.returns, lineno=getattr(node, "lineno", 0))


def _root_call(work: Work) -> ast.expr:
    """``Root(arguments as seen)``. Raises Untranslatable where an argument is no literal."""
    program = work.program
    module = program.modules[""]
    init = find_method(program, program.root, "__init__")
    if program.root_cell is None or init is None or not init.during_init:
        raise Untranslatable(ast.Pass(), "the root arrived built")
    work.need(init.key)
    given = dict(program.factory_arguments) or given_arguments(work, module, init)
    keywords = [ast.keyword(name, argument_value(work, value)) for name, value in given.items()]
    call = ast.Call(ast.Name(program.root_cell.name, ast.Load()), [], keywords)
    call.callees = (init.key,)  # type: ignore[attr-defined]
    return call
