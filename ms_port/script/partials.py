"""``functools.partial`` over a torch class or function: what it holds on to is translated, as a call's arguments are."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ms_port.opmap import NoLowering
from ms_port.opmap.signature import MISSING
from ms_port.script.apis import apis, normal
from ms_port.script.placeholders import Placeholders, literal
from ms_port.script.source import Source, dotted

if TYPE_CHECKING:
    from ms_port.script.expressions import Expressions

BUILDERS = {
    **{f"torch.nn.Conv{n}d": f"conv{n}d_of" for n in (1, 2, 3)},
    **{f"torch.nn.BatchNorm{n}d": f"batch_norm{n}d_of" for n in (1, 2, 3)},
    "torch.nn.Linear": "dense_layer_of",
    "torch.nn.LayerNorm": "layer_norm_of",
    "torch.nn.GroupNorm": "group_norm_of",
    "torch.nn.Dropout": "dropout_of",
    "torch.nn.ReLU": "relu_of",
    "torch.nn.LeakyReLU": "leaky_relu_of",
    "torch.nn.GELU": "gelu_of",
    "torch.nn.SiLU": "silu_of",
    "torch.nn.CrossEntropyLoss": "CrossEntropyLoss",
}
"""Parts that make a layer from torch's own arguments."""


def partial(e: Expressions, node: ast.Call) -> str | None:
    """``partial(nn.BatchNorm2d, momentum=0.05)``; None for any other call, and where the arguments are torch's own."""
    head, _, rest = (dotted(node.func) or "").partition(".")
    full = e.module.names.get(head, head) + (f".{rest}" if rest else "")
    if full != "functools.partial" or not node.args:
        return None
    name = normal(e.api_name(node.args[0]) or "")
    table = apis()
    if not name or name in table.parts or name in table.values or name not in e.op_map:
        return None
    if name in BUILDERS:
        others = [*node.args[1:], *(k.value for k in node.keywords)]
        kept = e.spliced(e.source.span(node.args[0])[1], e.source.span(node)[1], others)
        text = f"{e.render(node.func)}({e.needs.name(BUILDERS[name])}{kept}"
        e.change(node, "MSP601", text, name)
        return text
    if len(node.args) > 1 or any(k.arg is None for k in node.keywords):
        return e.refuse(node, "MSP602", name, "a partial with arguments by position or by **: write a function")
    filled = Placeholders(e)
    try:
        given = tuple((str(k.arg), filled.argument(k.value)) for k in node.keywords)
        lowering = e.op_map.lower_value(name, given)
    except NoLowering as error:
        own = as_lambda(e, node, name, [(str(k.arg), k.value) for k in node.keywords])
        return own or e.refuse(node, "MSP602", name, f"a partial of it: {str(error).removeprefix(f'{name}: ')}")
    text = filled.fill(e.needs.localized(lowering.expression, filled.texts.keys()))
    e.functions(lowering.functions)
    e.change(node, "MSP601", text, name)
    return text


TENSORS = frozenset(
    "input target other self tensor x y x1 x2 input1 input2 anchor positive negative mask weight".split()
)


def as_lambda(e: Expressions, node: ast.expr, name: str, held: Sequence[tuple[str, ast.expr]] = ()) -> str | None:
    """A function as a value, where MindSpore's own takes other arguments: of those that torch's must get.

    What a partial holds on to is the default of an argument, as it was when the partial was made. None where there is no form.
    """
    row = e.op_map.row(name)
    while row is not None and row.same_as:
        row = e.op_map.row(row.same_as)
    if row is None or not row.overloads or not name.rpartition(".")[2][:1].islower():
        return None
    kept = dict(held)
    signature = [p for p in row.overloads[0].signature if p.kind != "keywords"]
    asked = [p.name for p in signature if p.default is MISSING and p.name not in kept]
    texts = {k: e.render(v) for k, v in kept.items()}
    fixed = {k for k, v in kept.items() if literal(v)}
    spec = [*asked, *(f"{k}={t}" for k, t in texts.items() if k not in fixed)]
    given = [*asked, *(f"{k}={t if k in fixed else k}" for k, t in texts.items())]
    made = f"f({', '.join(given)})"
    source = Source.parse(made)
    statement = source.tree.body[0]
    assert isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    call = statement.value
    for index, argument in enumerate([*call.args, *(k.value for k in call.keywords)]):
        if isinstance(argument, ast.Name):
            own = e.inference.of(kept[argument.id]) if argument.id in kept else None
            e.inference.kinds[argument] = own or ("tensor" if index == 0 or argument.id in TENSORS else None)
    outer, e.source = e.source, source
    refused, said, used = len(e.refused), len(e.notes), dict(e.needs.used)
    try:
        body = e.api_call(call, name)
    finally:
        e.source = outer
    if body is None or len(e.refused) > refused or not asked:
        del e.refused[refused:], e.notes[said:]
        e.needs.used = used
        return None
    text = f"lambda {', '.join(spec)}: {body}"
    e.change(node, "MSP601", text, name)
    place = e.source.parents.get(node)
    alone = isinstance(place, (ast.Assign, ast.keyword, ast.Dict, ast.List, ast.Tuple, ast.arguments))
    return text if alone or (isinstance(place, ast.Call) and place.func is not node) else f"({text})"
