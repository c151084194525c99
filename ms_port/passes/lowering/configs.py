"""Configuration objects: the port keeps a small dataclass with the fields that are read."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from ms_port.ir.flags import Place
from ms_port.ir.program import EMPTY_FACTS, FunctionDef, ModuleInstance
from ms_port.ir.tree import defaults_of, literal, nid, statement
from ms_port.ir.values import (
    ClassValue,
    DictValue,
    DType,
    FunctionValue,
    Literal,
    ObjectValue,
    PartialValue,
    SequenceValue,
    TensorValue,
    Value,
    entries_of,
    items_of,
)
from ms_port.opmap import Argument, Call, NoLowering
from ms_port.passes.lowering.absent import absent_name
from ms_port.passes.lowering.scope import Scope, Untranslatable, Work, dtype_expression, mark_functions


def argument_value(work: Work, value: Value) -> ast.expr:
    """An argument of the root as source; a config object becomes ``Config(field=...)``, filled in last."""
    match value:
        case Literal(value=plain):
            try:
                return literal(plain)
            except ValueError as error:
                raise Untranslatable(ast.Pass(), str(error)) from error
        case ObjectValue(kind="config", cls=cls) if cls in work.program.cells:
            raise Untranslatable(ast.Pass(), f"an object of {cls}, which has a constructor of its own,")
        case ObjectValue(kind="config", cls=cls):
            work.config_fields[cls]
            call = ast.Call(ast.Name(cls.rpartition(".")[2], ast.Load()), [], _computed_fields(work, value))
            call.config = value  # type: ignore[attr-defined]
            return call
        case FunctionValue(torch=False, owner=None, name=name) if name in work.program.functions:
            work.need(name)
            function = ast.Name(work.program.functions[name].name, ast.Load())
            function.callees = (name,)  # type: ignore[attr-defined]
            return function
        case SequenceValue(kind=kind, items=items):
            elements = [argument_value(work, item) for item in items]
            return ast.List(elements, ast.Load()) if kind == "list" else ast.Tuple(elements, ast.Load())
        case DictValue(items=pairs):
            return ast.Dict([literal(k) for k, _ in pairs], [argument_value(work, v) for _, v in pairs])
        case ClassValue(name=name) | FunctionValue(name=name):
            return _class_value(work, name, ())
        case PartialValue(func=ClassValue(name=name, is_module=True), args=(), keywords=pairs):
            return _class_value(work, name, pairs)
        case PartialValue(func=FunctionValue(torch=False) as func, args=(), keywords=pairs):
            keywords = [ast.keyword(k, argument_value(work, v)) for k, v in pairs]
            call = ast.Call(ast.Name("partial", ast.Load()), [argument_value(work, func)], keywords)
            call.callees = (func.name,)  # type: ignore[attr-defined]
            return call
        case PartialValue(func=FunctionValue(torch=True) as func, args=(), keywords=pairs):
            return named_partial(work, func, pairs)
        case DType(name=name):
            return dtype_expression(name)
    raise Untranslatable(ast.Pass(), f"{value} as an argument")


def _computed_fields(work: Work, value: ObjectValue) -> list[ast.keyword]:
    """The fields of a config object that hold more than literals: classes, further config objects.

    Those that nothing reads are taken out again when all code is known; one that can't be written is flagged then.
    """
    made = []
    for name, item in value.fields:
        if not isinstance(item, Literal):
            try:
                made.append(ast.keyword(name, argument_value(work, item)))
            except Untranslatable as error:
                made.append(ast.keyword(name, absent_name(error)))
    return made


def is_field(value: Value) -> bool:
    """Whether a config object of the port may hold the value."""
    match value:
        case SequenceValue(items=items):
            return all(map(is_field, items))
        case DictValue(items=pairs):
            return all(is_field(item) for _, item in pairs)
        case ObjectValue(kind=kind):
            return kind == "config"
    return isinstance(value, Literal | ClassValue | FunctionValue | PartialValue)


def read_fields(scope: Scope, node: ast.AST, made: ast.expr, arguments: Sequence[Argument]) -> None:
    """Note the fields of configurations that the expression of a row reads. Raises Untranslatable for unknown ones."""
    owners = {
        ast.dump(a.expression): a.values[0]
        for a in arguments
        if a.values and isinstance(a.values[0], ObjectValue) and a.values[0].kind == "config"
    }
    for part in ast.walk(made):
        if isinstance(part, ast.Attribute) and (owner := owners.get(ast.dump(part.value))) is not None:
            found = dict(owner.fields).get(part.attr)
            if not isinstance(found, Literal):
                raise Untranslatable(node, f"the configuration has no plain field `{part.attr}`")
            field_of(scope, part, (owner,), found)


def field_of(scope: Scope, made: ast.Attribute, owners: Sequence[Value], value: Value) -> ast.Attribute:
    """Note that the expression reads its field of all these configurations: one place may meet several classes.

    ``value`` stands for the field where a configuration itself does not hold it.
    """
    configs = [o for o in owners if isinstance(o, ObjectValue) and o.kind == "config"]
    names = {own_name(scope, owner, made.attr) for owner in configs}
    if len(names) == 1:
        made.attr = names.pop()
    for owner in configs:
        found = dict(owner.fields).get(made.attr, value)
        scope.work.config_fields[owner.cls].setdefault(made.attr, found if is_field(found) else value)
    made.of_configs = tuple(sorted({owner.cls for owner in configs}))  # type: ignore[attr-defined]
    return made


def own_name(scope: Scope, owner: ObjectValue, name: str) -> str:
    """The field that is read, where the configuration's class gives it a second name."""
    known = scope.work.program.config_classes.get(owner.cls)
    own = dict(known.aliases).get(name, name) if known is not None else name
    return own if own in dict(owner.fields) else name


def _class_value(work: Work, name: str, pairs: tuple[tuple[str, Value], ...]) -> ast.expr:
    """A class or a function as a value, with the keywords of a ``partial``."""
    if name in work.program.cells:
        work.cells.add(name)
        cell = work.program.cells[name]
        made = ast.Name(cell.name, ast.Load())
        if not pairs:
            return made
        keywords = [ast.keyword(key, argument_value(work, value)) for key, value in pairs]
        call = ast.Call(ast.Name("partial", ast.Load()), [made], keywords)
        call.callees = tuple(m.key for m in cell.methods if m.name == "__init__")  # type: ignore[attr-defined]
        return call
    arguments = tuple((key, Argument(argument_value(work, value), (value,))) for key, value in pairs)
    try:
        lowering = work.opmap.lower_value(name, arguments)
    except NoLowering as error:
        raise Untranslatable(ast.Pass(), str(error)) from error
    work.op_functions |= lowering.functions
    return mark_functions(lowering.expression, lowering.functions)


def named_partial(work: Work, func: FunctionValue, keywords: tuple[tuple[str, Value], ...]) -> ast.expr:
    """``partial(F.gelu, approximate="tanh")`` as a ``def gelu_tanh(x)``: a partial would stop the gradient."""
    given = tuple((k, Argument(argument_value(work, v), (v,))) for k, v in keywords)
    tensor = Argument(ast.Name("x", ast.Load()), (TensorValue((1,), "float32"),))
    try:
        lowering = work.opmap.lower(Call(func.name, (tensor,), given))
    except NoLowering as error:
        raise Untranslatable(ast.Pass(), str(error)) from error
    work.op_functions |= lowering.functions
    made = mark_functions(lowering.expression, lowering.functions)
    name = "_".join([func.name.rpartition(".")[2], *(_word(k, v) for k, v in keywords)])
    definition = statement(f"def {name}(x: Tensor) -> Tensor: pass")
    assert isinstance(definition, ast.FunctionDef)
    text = ", ".join([func.name.removeprefix("torch.nn.functional."), *(f"{k}={v}" for k, v in keywords)])
    key, root = f"partial:{name}", work.program.root_cell
    place = Place(root.loc.file if root is not None else "?", 0)
    work.generated[key] = FunctionDef(
        key, name, definition, (ast.Return(made),), EMPTY_FACTS, place, docstring=f"{text}."
    )
    result = ast.Name(name, ast.Load())
    result.callees = (key,)  # type: ignore[attr-defined]
    return result


def _word(key: str, value: Value) -> str:
    """``approximate="tanh"`` -> ``tanh``; ``beta=2.0`` -> ``beta_2_0``."""
    plain = getattr(value, "value", value)
    return re.sub(r"\W", "_", plain if isinstance(plain, str) else f"{key}_{plain}")


def given_arguments(work: Work, module: ModuleInstance, init: FunctionDef) -> dict[str, Value]:
    """A module's constructor arguments that are not the defaults. Raises Untranslatable where one has no name."""
    args = init.node.args
    defaults = defaults_of(args)
    names = [a.arg for a in [*args.args, *args.kwonlyargs]]
    given = {}
    for name, value in module.arguments:
        default = defaults.get(name)
        if default is None:
            same_value = False
        elif isinstance(default, ast.Constant):
            same_value = value == Literal(default.value)
        else:
            same_value = init.facts.statics.get(nid(default)) == value or _literal_of(default) == value
        if name in names and not same_value:
            given[name] = value
    return given | _starred_arguments(work, module, init)


def _starred_arguments(work: Work, module: ModuleInstance, init: FunctionDef) -> dict[str, Value]:
    """What came in by ``*args`` and ``**kwargs``, by the names that the port's constructor has for it."""
    source, seen = init.node.args, dict(module.arguments)
    made = work.lowered[init.key].node.args if init.key in work.lowered else source
    positional = [a.arg for a in made.args[len(source.posonlyargs) + len(source.args) :]]
    places = items_of(seen.get(source.vararg.arg)) if source.vararg is not None else ()
    if len(places) > len(positional):
        raise Untranslatable(init.node, f"arguments of {init.owner} that only `*{source.vararg.arg}` takes")  # type: ignore[union-attr]
    given: dict[str, Value] = dict(zip(positional, places, strict=False))
    keywords = seen.get(source.kwarg.arg) if source.kwarg is not None else None
    known = {a.arg for a in [*made.args, *made.kwonlyargs]}
    return given | {key: value for key, value in entries_of(keywords).items() if key in known}


def _literal_of(node: ast.expr) -> Value | None:
    try:
        return Literal(ast.literal_eval(node))
    except ValueError:
        return None
