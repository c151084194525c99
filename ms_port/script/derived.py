"""Classes derived from torch's layers: what goes to the layer's own constructor is said in MindSpore's arguments and with torch's defaults."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ms_port.opmap import NoLowering
from ms_port.script.apis import apis, normal
from ms_port.script.classes import classes_of
from ms_port.script.project import Class, canonical
from ms_port.script.source import dotted

if TYPE_CHECKING:
    from ms_port.script.expressions import Expressions

CONTAINERS = ("Module", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Identity")


def constructor(e: Expressions, node: ast.Call) -> str | None:
    """``super().__init__(...)`` and ``nn.Conv2d.__init__(self, ...)`` in such a class; None for any other call."""
    owner = e.function.owner if e.function is not None else None
    if owner is None or not isinstance(node.func, ast.Attribute) or node.func.attr != "__init__":
        return None
    holder, args = node.func.value, node.args
    if not (isinstance(holder, ast.Call) and isinstance(holder.func, ast.Name) and holder.func.id == "super"):
        if e.api_name(holder) is None or not args or not isinstance(args[0], ast.Name):
            return None
        args = args[1:]
    base = _layer(e, owner)
    if base is None:
        return None
    given = _arguments(e, node, base, args)
    own = "" if args is node.args else f"{e.render(node.args[0])}, "
    return None if given is None else f"{_holder(e, holder)}.__init__({own}{given})"


def instance(e: Expressions, node: ast.Call, cls: Class) -> str | None:
    """A call of such a class where it has no constructor of its own; None where it has."""
    while "__init__" not in cls.methods:
        base = _layer(e, cls)
        if base is not None:
            given = _arguments(e, node, base, node.args)
            return None if given is None else f"{e.render(node.func)}({given})"
        inherited = (e.inference.project.base(cls, base) for base in cls.bases)
        other = next((found for found in inherited if found is not None), None)
        if other is None:
            return None
        cls = other
    return None


def _layer(e: Expressions, cls: Class) -> ast.expr | None:
    """The base that is a layer of torch's, where MindSpore's takes other arguments."""
    for base, name in layers(cls):
        if name.removeprefix("torch.nn.") not in CONTAINERS:
            return base if name in e.op_map and name not in apis().parts else None
    return None


def layers(cls: Class) -> Iterator[tuple[ast.expr, str]]:
    """The bases of a class that are classes of torch.nn, with their names there."""
    for base in cls.node.bases:
        name = normal(canonical(cls.module, dotted(base) or ""))
        last = name.removeprefix("torch.nn.")
        if name == f"torch.nn.{last}" and last.isidentifier() and last[:1].isupper():
            yield base, name


def _holder(e: Expressions, holder: ast.expr) -> str:
    """What stands before ``.__init__``."""
    found = classes_of(e, holder) if not isinstance(holder, ast.Call) else None
    return found[0] if found else e.render(holder)


def _arguments(e: Expressions, node: ast.Call, base: ast.expr, args: Sequence[ast.expr]) -> str | None:
    """The arguments of a layer's constructor in MindSpore; refused where its form is another layer."""
    name = normal(e.api_name(base) or "")
    row = e.op_map.row(name)
    if row is None or not row.overloads:
        return None
    names = [p.name for p in row.overloads[0].signature]
    left = ("device", "dtype")
    kept = [a for i, a in enumerate(args) if i >= len(names) or names[i] not in left]
    keywords = [(k.arg, k.value) for k in node.keywords if k.arg not in left]
    try:
        made = ast.parse(e.lower(name, kept, keywords, None), mode="eval").body
    except NoLowering as error:
        e.refuse(node, "MSP602", name, f"in a class derived from it: {str(error).removeprefix(f'{name}: ')}")
        return None
    wanted = (classes_of(e, base) or [""])[0]
    if not isinstance(made, ast.Call) or ast.unparse(made.func) != wanted:
        e.refuse(node, "MSP602", name, "a class derived from it: these arguments have a form of another kind")
        return None
    text = ", ".join([*map(ast.unparse, made.args), *(f"{k.arg}={ast.unparse(k.value)}" for k in made.keywords)])
    e.change(node, "MSP601", text, name)
    return text
