"""What a convolution says of itself: MindSpore's layers keep ``stride``, ``padding`` and their kin in other forms."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from ms_port.ir.program import FunctionDef, Program
from ms_port.ir.tree import copy, expression, literal, nid
from ms_port.ir.values import FunctionValue, Literal, ModuleValue, Value
from ms_port.passes.lowering.base_layers import layer_base
from ms_port.passes.lowering.scope import Scope, Untranslatable, Work

CONVOLUTIONS = ("torch.nn.Conv1d", "torch.nn.Conv2d", "torch.nn.Conv3d")
SETTINGS = frozenset("kernel_size stride padding dilation".split())


def layer_setting(scope: Scope, node: ast.Attribute, owners: Sequence[str], base: ast.expr) -> ast.expr | None:
    """``conv.stride`` as torch's tuple, ``base`` being the convolution; None for what is kept alike."""
    layers = {owner if owner in CONVOLUTIONS else layer_base(scope.work.program, owner) for owner in owners}
    layer = layers.pop() if len(layers) == 1 else None
    if layer not in CONVOLUTIONS or isinstance(node.ctx, ast.Store):
        return None
    held: ast.expr = ast.Attribute(base, node.attr, ast.Load())
    if layer == "torch.nn.Conv1d" and node.attr == "weight" and not scope.host:
        return ast.Call(ast.Attribute(held, "squeeze", ast.Load()), [literal(2)], [])
    if node.attr not in SETTINGS:
        return None
    words = {v.value if isinstance(v, Literal) and isinstance(v.value, str) else None for v in scope.values(node)}
    if words - {None}:  # MindSpore's layer holds such a padding as its pad_mode
        if len(words) > 1:
            raise Untranslatable(node, f"`{ast.unparse(node)}` is a word in one layer and another in the next")
        return literal(words.pop())
    if layer == "torch.nn.Conv1d":  # a 2-d one: (1, stride), (0, 0, padding, padding)
        part = ast.Slice(literal(2), literal(3)) if node.attr == "padding" else ast.Slice(literal(1))
        return ast.Subscript(held, part, ast.Load())
    if node.attr != "padding":
        return held
    paths = {v.path for v in scope.values(node.value) if isinstance(v, ModuleValue)}
    given = list(_given_paddings(scope.work, owners, paths))
    numbers = {isinstance(v.value, int) for v in given if isinstance(v, Literal)}
    plain, parts = "__held__", "__held__[::2]"  # of (top, bottom, left, right)
    if not _is_argument(scope, node):  # `conv.padding[0]`: torch's is a tuple, whatever was given
        plain = f"({', '.join(['__held__'] * int(layer[-2]))})"
    # a Conv3d without padding holds six numbers all the same
    if layer == "torch.nn.Conv3d" or len(numbers) != 1 or not all(isinstance(v, Literal) for v in given):
        return _put(held, f"{plain} if isinstance(__held__, int) else {parts}")
    return _put(held, plain if numbers == {True} else parts)


def without_height(program: Program, path: str, held: ast.expr) -> ast.expr:
    """The weight of a Conv1d as torch has it: MindSpore's has a height of 1."""
    owner, _, name = path.rpartition(".")
    module = program.modules.get(owner)
    cls = module.cls if module is not None else ""
    if name != "weight" or "torch.nn.Conv1d" not in (cls, layer_base(program, cls)):
        return held
    return ast.Call(ast.Attribute(held, "squeeze", ast.Load()), [literal(2)], [])


def _put(held: ast.expr, text: str) -> ast.expr:
    return _Put(held).visit(expression(text))  # type: ignore[no-any-return]


def _is_argument(scope: Scope, node: ast.expr) -> bool:
    """Whether the node is handed to a call as it stands: a convolution takes a number and a tuple."""
    calls = (n for s in scope.function.body for n in ast.walk(s) if isinstance(n, ast.Call))
    return any(nid(a) == nid(node) for c in calls for a in [*c.args, *(k.value for k in c.keywords)])


class _Put(ast.NodeTransformer):
    def __init__(self, held: ast.expr) -> None:
        self._held = held

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy(self._held) if node.id == "__held__" else node


_PADDING = 4
"""Its place among the arguments of a convolution."""


def _given_paddings(work: Work, owners: Sequence[str], paths: Collection[str | None]) -> Iterator[Value]:
    """What the layers' own constructors were given as padding, as it was written; ``paths`` are those of torch's."""
    for owner in owners:
        inits = list(_constructors(work, owner))
        for init in inits:
            for facts in init.facts.calls.values():
                for fact in facts:
                    callee = fact.callee  # a layer's own constructor is torch's; that of a person's class is not meant
                    if isinstance(callee, FunctionValue) and callee.torch and callee.name.endswith(".__init__"):
                        named = dict(fact.kwargs)
                        place = fact.args[_PADDING] if len(fact.args) > _PADDING else Literal(0)
                        yield named.get("padding", place)
        if not inits:
            for module in work.program.modules.values():
                if module.cls == owner and (module.path in paths or None in paths):
                    yield dict(module.arguments).get("padding", Literal(0))


def _constructors(work: Work, owner: str) -> Iterator[FunctionDef]:
    cell = work.program.cells.get(owner)
    for base in cell.bases if cell is not None else ():
        yield from _constructors(work, base)
    yield from (m for m in cell.methods if m.name == "__init__") if cell is not None else ()
