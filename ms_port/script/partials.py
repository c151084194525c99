"""``functools.partial`` over a torch class or function: what it holds on to is translated, as a call's arguments are."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ms_port.opmap import NoLowering
from ms_port.script.apis import apis, normal
from ms_port.script.placeholders import Placeholders
from ms_port.script.source import dotted

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
        return e.refuse(node, "MSP602", name, f"a partial of it: {str(error).removeprefix(f'{name}: ')}")
    text = filled.fill(e.needs.localized(lowering.expression, filled.texts.keys()))
    e.functions(lowering.functions)
    e.change(node, "MSP601", text, name)
    return text
