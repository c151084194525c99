"""Arguments of calls: lowered, with the values that the trace saw, ``**kwargs`` taken apart."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from contextlib import suppress

from ms_port.ir.program import CallFact
from ms_port.ir.tree import copy, defaults_of, literal
from ms_port.ir.values import (
    ClassValue,
    DictValue,
    DType,
    Literal,
    ModuleValue,
    ObjectValue,
    TensorValue,
    Value,
    entries_of,
    holds_tensor,
)
from ms_port.opmap import Argument
from ms_port.opmap.signature import MISSING
from ms_port.passes.keyword_dicts import entry_of
from ms_port.passes.lowering.absent import absent_name
from ms_port.passes.lowering.expressions import lower
from ms_port.passes.lowering.names import of_value
from ms_port.passes.lowering.scope import Scope, Untranslatable, dtype_expression, same
from ms_port.passes.lowering.spread import spread


def torch_arguments(
    scope: Scope, node: ast.Call, facts: Sequence[CallFact], api: str, *, absent: bool = False
) -> tuple[tuple[Argument, ...], tuple[tuple[str, Argument], ...]]:
    """The arguments of a call of a torch API, lowered, with their values a run.

    With ``absent`` what can't stand in the port becomes ``ABSENT``: a row that leaves it out doesn't mind.
    """
    args: list[Argument] = []
    starred = False
    for index, arg in enumerate(node.args):
        if isinstance(arg, ast.Starred):
            starred = True
            if (spelled := _spelled_out(scope, node, facts, api)) is not None:
                args += spelled
                continue
            args.append(Argument(ast.Starred(lower(scope, arg.value), ast.Load()), scope.values(arg.value)))
        else:
            values = tuple(map(_as_dtype, scope.values(arg) if starred else (f.args[index] for f in facts)))
            args.append(Argument(torch_argument(scope, arg, values, absent), values))
    keywords: list[tuple[str, Argument]] = []
    named = {k.arg for k in node.keywords}
    for keyword in node.keywords:
        if keyword.arg is not None:
            values = tuple(_as_dtype(dict(f.kwargs).get(keyword.arg, Literal(None))) for f in facts)
            keywords.append((keyword.arg, Argument(torch_argument(scope, keyword.value, values, absent), values)))
            continue
        keys = _own_keys(scope, keyword.value, _all_keys(facts, named))
        whole = _is_read_anyway(scope, keyword.value, keys, facts)
        for key in keys:
            named.add(key)
            if key in scope.spread and any(isinstance(a.expression, ast.Name) and a.expression.id == key for a in args):
                continue  # by position in other runs
            default = None
            if any(key not in dict(f.kwargs) for f in facts):
                default = _signature_default(scope, node, api, key)
            values = tuple(dict(f.kwargs).get(key, default or Literal(None)) for f in facts)
            try:
                made = _unpacked(scope, keyword.value, key, values, default, whole)
            except Untranslatable as error:
                if not absent:
                    raise
                made = absent_name(error)
            keywords.append((key, Argument(made, values)))
    return tuple(args), tuple(keywords)


_PYTHON_TYPES = {"builtins.bool": "bool", "builtins.int": "int64", "builtins.float": "float64"}


def _as_dtype(value: Value) -> Value:
    """``bool``, ``int`` and ``float`` are types of torch too."""
    name = _PYTHON_TYPES.get(value.name) if isinstance(value, ClassValue) else None
    return value if name is None else DType(name)


def _spelled_out(scope: Scope, node: ast.Call, facts: Sequence[CallFact], api: str) -> list[Argument] | None:
    """The parameters that ``*args`` of the function's own stands for, where it is the last argument by position."""
    last = node.args[-1]
    if not isinstance(last, ast.Starred) or not isinstance(last.value, ast.Name) or last.value.id != scope.varargs:
        return None
    if scope.varargs is None or sum(isinstance(arg, ast.Starred) for arg in node.args) != 1:
        return None
    named = {k.arg for k in node.keywords}
    settings = [
        key
        for keyword in node.keywords
        if keyword.arg is None
        for key in _own_keys(scope, keyword.value, _all_keys(facts, named))
        if all(_is_setting(scope, keyword.value, key, dict(f.kwargs)[key]) for f in facts if key in dict(f.kwargs))
    ]
    return spread(scope, node, facts, api, settings)


def without_stars(node: ast.Call, facts: Sequence[CallFact]) -> ast.Call:
    """``Linear(*sizes)`` as ``Linear(sizes[0], sizes[1])``, where the sequence is a name and always as long."""
    stars = [i for i, arg in enumerate(node.args) if isinstance(arg, ast.Starred)]
    counts = {len(f.args) for f in facts}
    if len(stars) != 1 or len(counts) != 1:
        return node
    place, count = stars[0], counts.pop() - len(node.args) + 1
    starred = node.args[place]
    assert isinstance(starred, ast.Starred)
    if not isinstance(starred.value, ast.Name | ast.Attribute):
        return node
    parts = [ast.Subscript(copy(starred.value), literal(i), ast.Load()) for i in range(count)]
    args = [*node.args[:place], *parts, *node.args[place + 1 :]]
    return ast.copy_location(ast.Call(node.func, args, node.keywords), node)


def _all_keys(facts: Sequence[CallFact], named: set[str | None]) -> list[str]:
    """Keywords seen in any run, beside those that the call names."""
    return list(dict.fromkeys(key for f in facts for key, _ in f.kwargs if key not in named))


def _signature_default(scope: Scope, node: ast.Call, api: str, key: str) -> Literal:
    """torch's default of a keyword that some runs left out. Raises Untranslatable where it is not known."""
    row = scope.work.opmap.row(api)
    for overload in row.overloads if row is not None else ():
        for parameter in overload.signature:
            if parameter.name == key and parameter.default is not MISSING:
                return Literal(parameter.default)
    raise Untranslatable(node, f"`{key}` is given in some runs only, and its default is not known")


def torch_argument(scope: Scope, node: ast.expr, values: Sequence[Value], absent: bool = False) -> ast.expr:
    """One argument; a device is nothing in the port."""
    if values and all(isinstance(v, ObjectValue) and v.kind in ("device", "generator") for v in values):
        return literal(None)
    seen = scope.values(node)
    if values and same(values) and isinstance(values[0], DType) and seen and isinstance(seen[0], ClassValue):
        return dtype_expression(values[0].name)  # `dtype=bool`
    if scope.host and isinstance(node, ast.GeneratorExp):
        listed = ast.ListComp(node.elt, node.generators)  # MindSpore's containers take no generator
        node = ast.copy_location(listed, node)
    try:
        return lower(scope, node)
    except Untranslatable as error:
        try:
            if same(values) and not isinstance(values[0], TensorValue | ObjectValue | ModuleValue):
                return of_value(scope, node, values[0])
            raise
        except Untranslatable:
            if absent:
                return absent_name(error)
            raise


def _own_keys(scope: Scope, container: ast.expr, keys: Sequence[str]) -> list[str]:
    """Of the keywords seen, those that this ``**container`` held (one call can unpack several)."""
    seen = scope.values(container)
    return [key for key in keys if any(key in entries_of(value) for value in seen)] if _are_dicts(seen) else list(keys)


def _are_dicts(values: Sequence[Value]) -> bool:
    return all(isinstance(v, DictValue) or (isinstance(v, Literal) and isinstance(v.value, dict)) for v in values)


def _is_read_anyway(scope: Scope, container: ast.expr, keys: Sequence[str], facts: Sequence[CallFact]) -> bool:
    """Whether a constructor reads a local dict, which it did not make by itself or of which an entry varies.

    Then its other entries are not frozen either.
    """
    if not (scope.host and isinstance(container, ast.Name) and container.id in scope.locals - {scope.varkw}):
        return False
    given = [dict(f.kwargs) for f in facts]
    if not all(key in kwargs for key in keys for kwargs in given):
        return False
    return not _is_made_here(scope, container.id) or any(not same([g[key] for g in given]) for key in keys)


def _is_made_here(scope: Scope, name: str) -> bool:
    """Whether the function binds the name to a dict that it writes out, or is given it."""
    for node in (n for s in scope.function.body for n in ast.walk(s)):
        match node:
            case ast.Assign(targets=[ast.Name(id=bound)], value=value) if bound == name:
                dicts = (n for n in ast.walk(value) if isinstance(n, ast.Dict | ast.Call))
                if any(isinstance(n, ast.Dict) or ast.unparse(n.func) == "dict" for n in dicts):
                    return True
    return name in scope.parameters


def _unpacked(
    scope: Scope,
    container: ast.expr,
    key: str,
    values: Sequence[Value],
    default: Literal | None = None,
    whole: bool = False,
) -> ast.expr:
    """One entry of ``**container``; ``default`` where some runs left it out. ``whole``: the dict itself is read."""
    if key in scope.spread and isinstance(container, ast.Name) and container.id == scope.varkw:
        return ast.Name(key, ast.Load())
    if scope.host and isinstance(container, ast.Name) and (entry := scope.displays.get(container.id, {}).get(key)):
        match entry:
            case ast.Subscript(value=ast.Name(id=name) as others) if name == scope.varkw:
                return _unpacked(scope, others, key, values, default)
        return torch_argument(scope, entry, values)
    if whole:
        with suppress(Untranslatable):
            return entry_of(ast.Subscript(lower(scope, container), literal(key), ast.Load()), container)
    if same(values) and not holds_tensor(values[0]) and not _is_setting(scope, container, key, values[0]):
        try:
            return entry_of(of_value(scope, container, values[0]), container)
        except Untranslatable:
            pass
    if isinstance(container, ast.Name) and container.id == scope.varkw:
        if not _came_in(scope, key):
            raise Untranslatable(container, f"`{key}` is put into `{container.id}` by a function that is called")
        scope.expanded.setdefault(key, literal(default.value if default is not None else None))
        return ast.Name(key, ast.Load())
    if default is not None and scope.host and isinstance(container, ast.Name) and container.id not in scope.displays:
        found = ast.Attribute(lower(scope, container), "get", ast.Load())
        return ast.Call(found, [literal(key), literal(default.value)], [])
    if default is not None:
        raise Untranslatable(container, f"`{key}` is given in some runs only")
    if isinstance(container, ast.Name) and (entry := scope.displays.get(container.id, {}).get(key)) is not None:
        return lower(scope.around or scope, entry)
    return ast.Subscript(lower(scope, container), literal(key), ast.Load())


def _is_setting(scope: Scope, container: ast.expr, key: str, value: Value) -> bool:
    """Whether an entry of a constructor's own ``**kwargs`` is a plain setting: it stays one, though it never varied."""
    own = isinstance(container, ast.Name) and container.id == scope.varkw
    plain = isinstance(value, ClassValue) or (
        isinstance(value, Literal) and type(value.value) in (bool, int, float, str, tuple)
    )
    return scope.host and own and plain and not _sets_entry(scope, key)


def _came_in(scope: Scope, key: str) -> bool:
    """Whether some run got the entry of its ``**kwargs`` from outside: else a function that it calls put it there."""
    given = scope.facts.parameters.get(scope.varkw or "", ())
    return not given or not _are_dicts(given) or any(key in entries_of(value) for value in given)


def _sets_entry(scope: Scope, key: str) -> bool:
    """Whether the function itself writes the entry: ``kwargs["bias"] = False``, ``kwargs.update(...)``, by a call."""
    if not _came_in(scope, key):
        return True
    for node in (n for statement in scope.function.body for n in ast.walk(statement)):
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=place, ctx=ast.Store() | ast.Del()):
                if name == scope.varkw and not (isinstance(place, ast.Constant) and place.value != key):
                    return True
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="update")) if name == scope.varkw:
                return True
    return False


def user_arguments(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> tuple[list[ast.expr], list[ast.keyword]]:
    """The arguments of a call into the output's own code; what can't be passed is marked absent."""
    args: list[ast.expr] = []
    for arg in node.args:
        if isinstance(arg, ast.Starred):
            args.append(ast.Starred(lower(scope, arg.value), ast.Load()))
        else:
            args.append(_or_absent(scope, arg))
    keywords: list[ast.keyword] = []
    named = {k.arg for k in node.keywords}
    for keyword in node.keywords:
        if keyword.arg is not None:
            keywords.append(ast.keyword(keyword.arg, _or_absent(scope, keyword.value)))
            continue
        keys = _own_keys(scope, keyword.value, _all_keys(facts, named))
        whole = _is_read_anyway(scope, keyword.value, keys, facts)
        for key in keys:
            named.add(key)
            default, without = None, [f for f in facts if key not in dict(f.kwargs)]
            some = not all(_takes(scope, f.entered, key) for f in without)
            if without:
                taking = [f for f in facts if _takes(scope, f.entered, key)] if some else facts
                default = _callee_default(scope, node, taking, key) if taking else None
                if default is None:
                    continue
            values = tuple(dict(f.kwargs).get(key, default or Literal(None)) for f in facts)
            try:
                value = _unpacked(scope, keyword.value, key, values, default, whole)
            except Untranslatable as error:
                value = absent_name(error)
            made = ast.keyword(key, value)
            made.only_some = some and default == Literal(None)  # type: ignore[attr-defined]
            keywords.append(made)
    return args, keywords


def where_given(call: ast.Call) -> ast.expr:
    """``f(x, key=key) if key is not None else f(x)`` where some of the functions called take no such keyword."""
    some = [k for k in call.keywords if getattr(k, "only_some", False) and isinstance(k.value, ast.Name)]
    if len(some) != 1:
        return call
    less = copy(call)
    less.keywords = [k for k in less.keywords if k.arg != some[0].arg]
    return ast.IfExp(ast.Compare(copy(some[0].value), [ast.IsNot()], [literal(None)]), call, less)


def _takes(scope: Scope, entered: str | None, key: str) -> bool:
    """Whether a function takes the keyword: by a parameter, or among its ``**kwargs``."""
    source = scope.work.all_functions.get(entered or "")
    if source is None:
        return False
    args = source.node.args
    return args.kwarg is not None or key in {a.arg for a in [*args.args, *args.kwonlyargs]}


def _callee_default(scope: Scope, node: ast.Call, facts: Sequence[CallFact], key: str) -> Literal | None:
    """The default of a keyword that some runs left out, by the function entered; None where that never reads it.

    Raises Untranslatable where it can't be told.
    """
    for entered in {f.entered for f in facts}:
        source = scope.work.all_functions.get(entered or "")
        if source is None:
            continue
        args = scope.work.lowered.get(source.key, source).node.args
        defaults = defaults_of(args)
        if isinstance(default := defaults.get(key), ast.Constant):
            return Literal(default.value)
        if key not in defaults and source.node.args.kwarg is not None:
            return None if source.key in scope.work.lowered else Literal(None)
    raise Untranslatable(node, f"`{key}` is given in some runs only, and its default is no literal")


def _or_absent(scope: Scope, node: ast.expr) -> ast.expr:
    try:
        return lower(scope, node)
    except Untranslatable as error:
        return absent_name(error)
