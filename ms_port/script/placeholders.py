"""A row of the op map filled with the text of a script's arguments: names stand for them while the row is matched."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ms_port.ir.values import DType, Literal, TensorValue, Value
from ms_port.opmap import Argument
from ms_port.script.kinds import is_tensor
from ms_port.script.project import Kind

if TYPE_CHECKING:
    from ms_port.script.expressions import Expressions

ATOMS = (
    ast.Name,
    ast.Attribute,
    ast.Call,
    ast.Constant,
    ast.Subscript,
    ast.Tuple,
    ast.List,
    ast.Dict,
    ast.Set,
    ast.ListComp,
    ast.GeneratorExp,
    ast.JoinedStr,
)
DTYPE_NAMES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "bool": "bool_",
}
ASSUMED = ("int", "float", "tensor", "image")
"""What an argument is taken to be that nothing is known of: an integer, a number, a tensor; all tensors are images."""
TENSORS = (TensorValue((5, 7), "float32"), TensorValue((3, 4, 5, 6), "float32"))
IMAGES = (TensorValue((3, 5, 7, 9), "float32"), TensorValue((2, 4, 6, 8), "float32"))


class Placeholders:
    """Names that stand for rendered arguments while a row is filled."""

    def __init__(self, expressions: Expressions, assumed: tuple[str, int] | None = None) -> None:
        self.expressions, self.assumed = expressions, assumed
        self.texts: dict[str, tuple[str, bool]] = {}

    def receiver(self, text: str) -> Argument:
        made = self.text(text)
        return made if self.assumed is None else Argument(made.expression, (self._tensor(*self.assumed),))

    def _tensor(self, world: str, number: int) -> TensorValue:
        return (IMAGES if world == "image" else TENSORS)[number]

    def _assume(self, node: ast.expr, kind: Kind) -> tuple[Value, ...] | None:
        """An ordinary value for an argument, by its kind and name."""
        if self.assumed is None:
            return None
        world, number = self.assumed
        if is_tensor(kind):
            return (self._tensor(world, number),)
        if kind == "dtype" or (isinstance(node, ast.Attribute) and node.attr == "dtype"):
            return (DType(("float32", "float16")[number]),)
        text = ast.unparse(node).lower()
        if (
            kind == "shape"
            or (kind is None and ("shape" in text or ("size" in text and "kernel" not in text)))
            or (isinstance(kind, tuple) and kind[0] in ("list", "tuple"))
        ):
            return (Literal(((5, 7), (3, 4, 6))[number]),)
        if kind == "str":
            return None
        if world in ("tensor", "image"):
            return (self._tensor(world, number),) if kind is None else (Literal((3, 5)[number]),)
        return (Literal({"int": (3, 5), "float": (0.3, 0.7)}[world][number]),)

    def text(self, text: str, atomic: bool = True) -> Argument:
        name = f"__argument_{len(self.texts)}__"
        self.texts[name] = (text, atomic)
        return Argument(ast.Name(name, ast.Load()))

    def argument(self, node: ast.expr) -> Argument:
        kind: Kind = self.expressions.inference.of(node)
        if isinstance(node, ast.Starred):
            return Argument(ast.Starred(self.argument(node.value).expression, ast.Load()), None)
        if literal(node):
            return Argument(node)
        if isinstance(node, (ast.Tuple, ast.List)):
            items = [self.argument(item).expression for item in node.elts]
            tensors = any(is_tensor(self.expressions.inference.of(item)) for item in node.elts)
            return Argument(type(node)(items, ast.Load()), None if tensors else self._numbers(node))
        if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
            tensors = is_tensor(self.expressions.inference.of(node.elt))
            tree = ast.parse(self.expressions.render(node).strip(), mode="eval").body
            return Argument(tree, None if tensors else self._numbers(node))
        made = self.text(self.expressions.render(node), isinstance(node, ATOMS))
        if kind == "dtype" and (name := self.expressions.api_name(node)):
            last = name.rpartition(".")[2]
            plain = DTYPE_NAMES.get(last, last).rstrip("_")
            return Argument(made.expression, (DType(plain),))
        return Argument(made.expression, self._assume(node, kind))

    def _numbers(self, node: ast.expr) -> tuple[Value, ...] | None:
        """What is assumed of a display: that many numbers."""
        if self.assumed is None:
            return None
        count = len(node.elts) if isinstance(node, (ast.Tuple, ast.List)) else 3 + self.assumed[1]
        first = 3 if self.assumed[1] == 0 else 5
        numbers = [first + i for i in range(count)]
        return (Literal(tuple(numbers) if isinstance(node, ast.Tuple) else numbers),)

    def fill(self, tree: ast.AST) -> str:
        """The lowered tree as text with the arguments' own text in it."""
        for parent in ast.walk(tree):
            for _, value in ast.iter_fields(parent):
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.Name) and child.id in self.texts:
                        text, atomic = self.texts[child.id]
                        safe = isinstance(parent, (ast.keyword, ast.Tuple, ast.List)) or (
                            isinstance(parent, ast.Call) and child is not parent.func
                        )
                        bare = atomic or safe or wrapped(text)
                        child.id = text if bare else f"({text})"
        if isinstance(tree, ast.Name) and tree.id in self.texts:
            return self.texts[tree.id][0]
        return ast.unparse(tree)


def literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def wrapped(text: str) -> bool:
    """Whether one pair of parentheses holds all of a text."""
    if not (text.startswith("(") and text.endswith(")")):
        return False
    depth = 0
    for index, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and index < len(text) - 1:
            return False
    return True
