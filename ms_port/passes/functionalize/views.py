"""Names that hold a view of another name's memory: how the one is made of the other, and the other of the one.

``v = h[:, :2]`` ... ``v.mul_(2)`` becomes ``v = v * 2; h[:, :2] = v``; ``f = h.view(2, -1)`` ... ``h.add_(1)`` becomes
``h = h + 1; f = h.view(2, -1)``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ms_port.ir.program import FunctionDef
from ms_port.ir.tree import copy, literal, nid, ported
from ms_port.ir.values import FunctionValue, Literal, TensorValue, is_whole
from ms_port.passes.functionalize.syntax import load

_RESHAPES = frozenset("view reshape flatten squeeze unsqueeze view_as reshape_as unflatten contiguous".split())
_SWAPS = frozenset("transpose swapaxes swapdims".split())
_VIEWS = _RESHAPES | _SWAPS | {"t", "permute"}


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A name is a view of what another name held."""

    base: str
    keys: tuple[int, ...]
    """The tensors that the other name held then."""
    made: ast.expr

    @property
    def reads(self) -> frozenset[str]:
        """The names that making it again reads, beside the base."""
        return frozenset(n.id for n in ast.walk(self.made) if isinstance(n, ast.Name)) - {self.base}


class Views:
    """The views among the expressions of one function."""

    def __init__(self, function: FunctionDef, fresh: Callable[[str], str]) -> None:
        """``fresh`` gives a name that the function does not use yet."""
        self._facts = function.facts
        self._fresh = fresh

    def base(self, node: ast.expr) -> str | None:
        """The name whose memory the expression is a view of; None where it is of no kind that can be put back."""
        match node:
            case ast.Name(id=name):
                return name if name != "self" else None
            case ast.Subscript(value=inner, slice=index) if self._is_basic(index):
                return self.base(inner)
            case ast.Attribute(value=inner, attr="T"):
                return self.base(inner)
            case ast.Call(func=ast.Attribute(value=inner, attr=method)) if (
                method in _VIEWS and not any(k.arg is None for k in node.keywords) and self._is_tensor_method(node)
            ):
                if method == "permute" and self._inverse(node) is None:
                    return None
                return self.base(inner)
        return None

    def as_slices(self, node: ast.expr) -> ast.expr:
        """``x.narrow(1, 2, n)`` as ``x[:, 2:2 + n]`` and ``x.select(0, i)`` as ``x[i]``, all along the chain."""
        match node:
            case ast.Subscript(value=inner) | ast.Attribute(value=inner):
                node.value = self.as_slices(inner)
            case ast.Call(func=ast.Attribute(value=inner, attr="narrow"), args=[axis, start, length], keywords=[]) if (
                self._is_tensor_method(node) and (axes := self._axis(node, axis)) is not None
            ):
                stop = ast.BinOp(copy(start), ast.Add(), length)
                return self._sliced(node, self.as_slices(inner), axes, ast.Slice(start, stop))
            case ast.Call(func=ast.Attribute(value=inner, attr="select"), args=[axis, at], keywords=[]) if (
                self._is_tensor_method(node) and (axes := self._axis(node, axis)) is not None
            ):
                return self._sliced(node, self.as_slices(inner), axes, at)
            case ast.Call(func=ast.Attribute(value=inner) as func) if self._is_tensor_method(node):
                func.value = self.as_slices(inner)
        return node

    def put_back(self, node: ast.expr, content: ast.expr) -> list[ast.stmt]:
        """Statements after which the base of the view ``node`` holds ``content`` in the view's place."""
        match node:
            case ast.Name(id=name):
                return [ast.Assign([ast.Name(name, ast.Store())], content)]
            case ast.Subscript(value=inner):
                if _is_indexed_name(node):
                    target = copy(node)
                    target.ctx = ast.Store()
                    return [ast.Assign([target], content)]
                held = self._fresh("view")
                named = ast.Assign([ast.Name(held, ast.Store())], load(inner))
                place = ast.Subscript(ast.Name(held, ast.Load()), copy(node.slice), ast.Store())
                return [named, ast.Assign([place], content), *self.put_back(inner, ast.Name(held, ast.Load()))]
            case ast.Attribute(value=inner):
                return self.put_back(inner, ported(ast.Attribute(content, "T", ast.Load())))
            case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in _SWAPS:
                return self.put_back(inner, _called(content, "swapaxes", [*map(copy, node.args)]))
            case ast.Call(func=ast.Attribute(value=inner, attr="t")):
                return self.put_back(inner, ported(ast.Attribute(content, "T", ast.Load())))
            case ast.Call(func=ast.Attribute(value=inner, attr="permute")):
                inverse = self._inverse(node)
                assert inverse is not None
                return self.put_back(inner, _called(content, "permute", [literal(i) for i in inverse]))
            case ast.Call(func=ast.Attribute(value=inner)):
                shape = ported(ast.Attribute(load(inner), "shape", ast.Load()))
                return self.put_back(inner, _called(content, "reshape", [shape]))
        raise AssertionError(ast.dump(node))

    def _is_tensor_method(self, node: ast.Call) -> bool:
        facts = self._facts.calls.get(nid(node), ())
        return bool(facts) and all(
            isinstance(f.callee, FunctionValue) and f.callee.torch and f.callee.name.startswith("torch.Tensor.")
            for f in facts
        )

    def _is_basic(self, index: ast.expr) -> bool:
        """Whether an index holds numbers, slices and an ellipsis only."""
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        for part in parts:
            if isinstance(part, ast.Slice):
                if part.step is not None and not isinstance(part.step, ast.Constant):
                    return False
                continue
            if isinstance(part, ast.Constant):
                if part.value is None or isinstance(part.value, bool | str):
                    return False
                continue
            seen = self._facts.values.get(nid(part), ())
            if not isinstance(part, ast.Name | ast.UnaryOp | ast.BinOp) or not all(map(is_whole, seen)):
                return False
        return True

    def _inverse(self, node: ast.Call) -> list[int] | None:
        """The axes that undo a ``permute`` whose axes never varied."""
        found = set()
        for fact in self._facts.calls.get(nid(node), ()):
            given = [a.value for a in fact.args if isinstance(a, Literal)]
            listed = given[0] if len(given) == 1 and isinstance(given[0], tuple | list) else given
            axes = [a for a in listed if isinstance(a, int)]
            if not axes or len(axes) != len(listed):
                return None
            found.add(tuple(a % len(axes) for a in axes))
        if len(found) != 1:
            return None
        order = found.pop()
        return [order.index(i) for i in range(len(order))]

    def _axis(self, node: ast.Call, axis: ast.expr) -> int | None:
        """The axis of ``narrow`` counted from the front, where it and the rank never varied."""
        assert isinstance(node.func, ast.Attribute)
        inner = self._facts.values.get(nid(node.func.value), ())
        ranks = {v.ndim for v in inner if isinstance(v, TensorValue)}
        given = {f.args[0] for f in self._facts.calls.get(nid(node), ()) if f.args}
        if len(ranks) != 1 or len(given) != 1:
            return None
        value = given.pop()
        return value.value % ranks.pop() if isinstance(value, Literal) and isinstance(value.value, int) else None

    def _sliced(self, node: ast.Call, inner: ast.expr, axis: int, part: ast.expr) -> ast.expr:
        index = ast.Tuple([*(ast.Slice() for _ in range(axis)), part], ast.Load()) if axis else part
        made = ast.copy_location(ast.Subscript(inner, index, ast.Load()), node)
        made.nid = nid(node)  # type: ignore[attr-defined]
        return made


def _is_indexed_name(node: ast.expr) -> bool:
    while isinstance(node, ast.Subscript):
        node = node.value
    return isinstance(node, ast.Name)


def _called(content: ast.expr, method: str, args: Sequence[ast.expr]) -> ast.expr:
    """A method of MindSpore's Tensor: it is not lowered again."""
    func = ported(ast.Attribute(content, method, ast.Load()))
    return ported(ast.Call(func, [*args], []))
