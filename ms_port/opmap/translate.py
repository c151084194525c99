"""A torch expression of an example -> its MindSpore form through the op map. Tests only."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from typing import Any

import torch

from ms_port.ir.values import ClassValue, DType, FunctionValue, Literal, ObjectValue, SequenceValue, TensorValue, Value
from ms_port.opmap.calls import RANDOM_NAME, Argument, Call, Lowering
from ms_port.opmap.errors import NoLowering
from ms_port.opmap.opmap import OpMap

ROOTS = {"torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional", "init": "torch.nn.init"}


def namespace() -> dict[str, Any]:
    """What examples may name."""
    import functools
    import math
    import operator

    return {
        "torch": torch,
        "nn": torch.nn,
        "F": torch.nn.functional,
        "init": torch.nn.init,
        "math": math,
        "partial": functools.partial,
        "operator": operator,
    }


class Translator(ast.NodeTransformer):
    """Lowers every torch call of an expression, innermost first; ``lowerings`` collects them."""

    def __init__(self, op_map: OpMap, names: Mapping[str, Any]) -> None:
        self.op_map, self.names = op_map, dict(names)
        self.lowerings: list[Lowering] = []

    def translate(self, text: str) -> ast.expr:
        """The MindSpore tree of an expression. Raises NoLowering."""
        tree = self.visit(ast.parse(text, mode="eval").body)
        assert isinstance(tree, ast.expr)
        return tree

    def value(self, node: ast.expr) -> Any:
        """A subexpression evaluated in torch."""
        inner = node.value if isinstance(node, ast.Starred) else node
        code = compile(ast.fix_missing_locations(ast.Expression(copy.deepcopy(inner))), "<example>", "eval")
        return eval(code, {**self.names})

    def argument(self, node: ast.expr) -> Argument:
        found = to_value(self.value(node))
        return Argument(self.visit(copy.deepcopy(node)), (found,))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        api = self._api(node.func)
        if api is None:
            result = self.generic_visit(node)
            assert isinstance(result, ast.expr)
            return result
        args = tuple(self.argument(arg) for arg in node.args)
        keywords = tuple((kw.arg, self.argument(kw.value)) for kw in node.keywords if kw.arg)
        receiver = None
        if api.startswith("torch.Tensor."):
            assert isinstance(node.func, ast.Attribute)
            receiver = self.argument(node.func.value)
        lowering = self.op_map.lower(Call(api, args, keywords, receiver))
        self.lowerings.append(lowering)
        return copy.deepcopy(lowering.expression)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id == "torch":
            found = getattr(torch, node.attr, None)
            if isinstance(found, torch.dtype):
                return ast.parse(f"ms.{dtype_name(found)}".replace("ms.bool", "ms.bool_"), mode="eval").body
        api = self._api(node)
        if api is not None and not api.startswith("torch.Tensor."):
            lowering = self.op_map.lower_value(api)
            self.lowerings.append(lowering)
            return copy.deepcopy(lowering.expression)
        result = self.generic_visit(node)
        assert isinstance(result, ast.expr)
        return result

    def _api(self, func: ast.expr) -> str | None:
        """Canonical name of a callee; None where it is no torch API."""
        text = ast.unparse(func)
        root, _, rest = text.partition(".")
        if root in ROOTS and root not in getattr(self, "shadowed", ()) and rest:
            return f"{ROOTS[root]}.{rest}"
        if isinstance(func, ast.Attribute) and root not in ("math", "operator", "m"):
            try:
                receiver = self.value(func.value)
            except Exception:  # an example's own mistake shows when it is evaluated
                return None
            if isinstance(receiver, torch.Tensor) and callable(getattr(receiver, func.attr, None)):
                return f"torch.Tensor.{func.attr}"
        return None


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def to_value(item: Any) -> Value:
    """An ir value for a live object."""
    if isinstance(item, torch.Tensor):
        return TensorValue(tuple(item.shape), dtype_name(item.dtype))
    if isinstance(item, torch.dtype):
        return DType(dtype_name(item))
    if isinstance(item, torch.Size):
        return Literal(tuple(item))
    if item is None or item is Ellipsis or isinstance(item, (bool, int, float, str, complex, slice)):
        return Literal(item)
    if isinstance(item, (tuple, list)):
        items = tuple(map(to_value, item))
        if all(isinstance(part, Literal) for part in items):
            return Literal(type(item)(part.value for part in items if isinstance(part, Literal)))
        return SequenceValue(type(item).__name__, items)
    if isinstance(item, type):
        name = f"{item.__module__}.{item.__qualname__}"
        if issubclass(item, torch.nn.Module):
            name = f"torch.nn.{item.__qualname__}"
        return ClassValue(name, issubclass(item, torch.nn.Module))
    if callable(item) and hasattr(item, "__name__") and not isinstance(item, torch.nn.Module):
        return FunctionValue(f"{getattr(item, '__module__', '')}.{item.__name__}", True)
    return ObjectValue(type(item).__qualname__, id(item))


def normalised(text: str) -> str:
    """Text as compared with an example's."""
    return ast.unparse(ast.parse(text, mode="eval")).replace(RANDOM_NAME, "rand")


__all__ = ["NoLowering", "Translator", "namespace", "normalised", "to_value"]
