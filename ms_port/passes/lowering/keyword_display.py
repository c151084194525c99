"""``kwargs = {"x": x, "cache": cache}; f(**kwargs); g(**kwargs)``: each call is given the entries by name."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from ms_port.ir.tree import names_stored, nid
from ms_port.ir.values import entries_of
from ms_port.passes.lowering.scope import EVERY_ATTRIBUTE, Scope


def keyword_display(scope: Scope, statement: ast.Assign) -> list[ast.stmt] | None:
    """No statement, the entries being noted in ``scope.displays``; None where the dict has to stay.

    It may go where it is only handed on as ``**name``, and where its entries are names or constants (in a constructor
    also arithmetic of them) that stay what they are until then: so a configuration in it need not be there.
    """
    if not scope.host and _is_selection(scope, statement):
        scope.drop(statement, "each call is given the entries that it took")
        return []
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_handed_on(scope, name, statement):
            plain = _entries(scope, value)
        case _:
            return None
    if plain is None:
        return None
    later = _changes(scope, statement, _last_use(scope, name, statement.lineno))
    allowed = _COMPUTED if scope.host else _PLAIN
    for entry in plain.values():
        if any(not isinstance(n, allowed) for n in ast.walk(entry)) and not _is_own_keyword(scope, entry):
            return None
        if later.concern(scope, entry) or (scope.host and _meets_other_names(scope, name, entry)):
            return None
    scope.displays[name] = plain
    return []


@dataclass
class _Changes:
    """What a stretch of a function may change."""

    names: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    objects: set[str] = field(default_factory=set)
    """Names whose items are written, whose methods are called, or that are handed on."""

    def concern(self, scope: Scope, entry: ast.expr) -> bool:
        """Whether the entry may come out otherwise afterwards. In the graph a method changes no attribute unseen.

        A constructor that is given an object can change it, but not the fields that no function of the model sets.
        """
        read = {n.id for n in ast.walk(entry) if isinstance(n, ast.Name)}
        held = [n for n in ast.walk(entry) if isinstance(n, ast.Attribute | ast.Subscript)]
        inside = {n.attr for n in held if isinstance(n, ast.Attribute)}
        if read & self.names or inside & self.attributes:
            return True
        known = EVERY_ATTRIBUTE not in scope.work.attributes_set and not inside & scope.work.attributes_set
        fixed = known and not any(isinstance(n, ast.Subscript) for n in held)
        return bool(scope.host and held and not fixed and read & self.objects)


def _changes(scope: Scope, statement: ast.stmt, end: int) -> _Changes:
    """Of what runs after a statement up to the line ``end``; what a pass made, without a line, counts as well."""
    start = getattr(statement, "end_lineno", None) or statement.lineno, getattr(statement, "end_col_offset", None) or 0
    found = _Changes()
    for node in (n for s in scope.function.body for n in ast.walk(s)):
        line = getattr(node, "lineno", None)
        if line is None and not isinstance(node, ast.Call | ast.Name | ast.Attribute | ast.Subscript):
            continue
        if line is not None and line != _END and not ((line, node.col_offset) > start and line <= end):  # type: ignore[attr-defined]
            continue
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                found.names.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
                found.attributes.add(name)
            case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
                found.objects |= _roots(value)
            case ast.Call(func=func, args=args, keywords=keywords):
                found.objects |= _roots(func.value) if isinstance(func, ast.Attribute) else set()
                found.objects |= {n for a in [*args, *(k.value for k in keywords)] for n in _roots(a)}
                if args and isinstance(args[0], ast.Attribute) and ast.unparse(func).endswith("assign"):
                    found.attributes.add(args[0].attr)  # a buffer's new value
    return found


def _roots(node: ast.expr) -> set[str]:
    """``a`` of ``a.b[0]``: the object that whoever is given this can change."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _meets_other_names(scope: Scope, name: str, entry: ast.expr) -> bool:
    """Whether the dict is handed on where the entry's names are others, or later: in a lambda, a comprehension."""
    read = {n.id for n in ast.walk(entry) if isinstance(n, ast.Name)}
    for node in (n for s in scope.function.body for n in ast.walk(s)):
        if isinstance(node, ast.Lambda | ast.FunctionDef):
            bound = read
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            bound = {target for g in node.generators for target in names_stored(g.target)}
        else:
            continue
        if read & bound and any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node)):
            return True
    return False


_PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.Load)
_COMPUTED = (
    *(*_PLAIN, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Subscript),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)


def _is_own_keyword(scope: Scope, entry: ast.expr) -> bool:
    """``kwargs.get("norm_layer")`` in a constructor: a parameter of the port's."""
    match entry:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get"), args=args, keywords=[]):
            plain = name == scope.varkw and all(isinstance(a, ast.Constant) for a in args)
            return scope.host and plain and not writes_entries(scope.function.body, name)
    return False


def _entries(scope: Scope, value: ast.expr) -> dict[str, ast.expr] | None:
    """Keys and values of ``{"a": x}``, in a constructor also of ``dict(a=x, **others)``; None for other expressions."""
    match value:
        case ast.Dict(keys=keys, values=values):
            pairs = [(k.value if isinstance(k, ast.Constant) else k, v) for k, v in zip(keys, values, strict=True)]
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords) if scope.host and _is_builtin(scope, value):
            pairs = [(k.arg, k.value) for k in keywords]
        case _:
            return None
    found: dict[str, ast.expr] = {}
    for key, entry in pairs:
        if key is None and scope.host:
            others = _unpacked_entries(scope, entry)
            if others is None or others.keys() & found.keys():
                return None
            found |= others
        elif isinstance(key, str) and key not in found:
            found[key] = entry
        else:
            return None
    return found


def _is_builtin(scope: Scope, node: ast.Call) -> bool:
    """Whether ``dict`` was Python's own."""
    return all(fact.entered is None and not fact.opaque for fact in scope.facts.calls.get(nid(node), ()))


def _unpacked_entries(scope: Scope, container: ast.expr) -> dict[str, ast.expr] | None:
    """Entries of ``**container``: another such dict, or the function's own ``**kwargs``, by the keys that were seen."""
    if not isinstance(container, ast.Name):
        return None
    if container.id in scope.displays:
        return scope.displays[container.id]
    seen = scope.values(container)
    if container.id != scope.varkw or not seen or writes_entries(scope.function.body, container.id):
        return None
    keys = dict.fromkeys(key for value in seen for key in entries_of(value))
    return {key: ast.Subscript(container, ast.Constant(key), ast.Load()) for key in keys}


def _is_selection(scope: Scope, statement: ast.Assign) -> bool:
    """``kwargs = {k: v for k, v in kwargs.items() if k in known}`` of the function's own ``**kwargs``."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.DictComp(
                key=ast.Name(id=key),
                value=ast.Name(id=value),
                generators=[
                    ast.comprehension(
                        target=ast.Tuple(elts=[ast.Name(id=first), ast.Name(id=second)]),
                        iter=ast.Call(func=ast.Attribute(value=ast.Name(id=held), attr="items")),
                    )
                ],
            ),
        ):
            return name == held == scope.varkw and (key, value) == (first, second)
    return False


def writes_entries(body: Sequence[ast.stmt], name: str) -> bool:
    """Whether a function changes the entries of its own ``**kwargs``."""
    return any(
        isinstance(n, ast.Subscript | ast.Attribute)
        and isinstance(n.value, ast.Name)
        and n.value.id == name
        and (not isinstance(n.ctx, ast.Load) or getattr(n, "attr", "") in ("update", "pop", "setdefault"))
        for s in body
        for n in ast.walk(s)
    )


_END = 10**9
"""Line of what a pass made: it counts as standing last."""


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", _END))


def _last_use(scope: Scope, name: str, start: int) -> int:
    """The last line on which the name is read; of a loop that does not bind it anew each time, the loop's last line."""
    nodes = [n for s in scope.function.body for n in ast.walk(s)]
    lines = [_line(n) for n in nodes if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    end = max(lines)
    for loop in nodes:
        if isinstance(loop, ast.For | ast.While) and start < _line(loop):
            last = getattr(loop, "end_lineno", None) or _END
            if any(_line(loop) <= line <= last for line in lines):
                end = max(end, last)
    return end


def _is_handed_on(scope: Scope, name: str, statement: ast.stmt) -> bool:
    """Whether the statement alone binds the name, and every reading of it is a ``**name`` further down."""
    nodes = [n for s in scope.function.body for n in ast.walk(s)]
    stores = [n for n in nodes if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)]
    reads = [n for n in nodes if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    handed = [k.value for n in nodes if isinstance(n, ast.Call) for k in n.keywords if k.arg is None]
    below = all(_line(r) >= statement.lineno for r in reads)  # else it is that of the round before, in a loop
    return len(stores) == 1 and bool(reads) and below and all(any(r is h for h in handed) for r in reads)
