"""torch's own expansion of a call into core ATen ops, as plain data: for APIs that have no row of the op map."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any

from ms_port.ir.values import DictValue, DType, Literal, ObjectValue, SequenceValue, TensorValue, Value

_MEANINGLESS = frozenset({"device", "layout", "pin_memory", "memory_format", "non_blocking", "generator"})
_SMALL = 64
"""Elements of a constant that may stand in the source."""
_LOWERS = ("linalg_", "fft_", "special_")


class NotExpandable(Exception):
    """torch can't expand the call, or an argument can't be made again."""


@dataclass(frozen=True, slots=True)
class Step:
    """One op of an expansion. ``apis`` are the names under which the op map may know it, best first."""

    name: str
    apis: tuple[str, ...]
    args: tuple[Value, ...]
    kwargs: tuple[tuple[str, Value], ...]
    results: tuple[TensorValue, ...]
    single: bool
    """Whether the op gives one tensor, and no tuple of tensors."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """The steps, the tensors that come in (in the order of the arguments), and what comes out."""

    inputs: tuple[TensorValue, ...]
    steps: tuple[Step, ...]
    result: Value


def expand(
    api: str, args: tuple[Value, ...], kwargs: tuple[tuple[str, Value], ...], has_row: Callable[[str], bool]
) -> Expansion:
    """Trace the call by ``torch.export`` on fake tensors. Ops of which ``has_row`` is true are kept whole.

    Raises NotExpandable.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    function = _function(api)
    tensors = list(_tensors([*args, *(v for _, v in kwargs)]))
    unique = list({t.key: t for t in tensors}.values())
    places = {t.key: i for i, t in enumerate(unique)}
    try:
        with FakeTensorMode():
            fakes = [torch.empty(t.shape, dtype=getattr(torch, t.dtype)) for t in unique]
        module = _module(partial(_call, function, args, kwargs, places))
        exported = torch.export.export(module, tuple(fakes), strict=False)
        table = torch.export.default_decompositions()
        for op in [op for op in table if any(map(has_row, names_of(op)))]:
            table.pop(op)
        exported = exported.run_decompositions(table)
    except NotExpandable:
        raise
    except Exception as error:  # whatever torch says: the call then has no form
        raise NotExpandable(f"torch can't expand it ({type(error).__name__})") from error
    return _Reader(exported, unique).read()


def names_of(op: Any) -> tuple[str, ...]:
    """The names by which a row may answer an ATen op: its own, then torch's functions of that name."""
    from torch.nn import functional

    short = str(op.name()).rpartition("::")[2]
    base, _, overload = short.partition(".")
    own = (f"torch.ops.aten.{base}.{overload}",) if overload else ()
    others = [f"torch.{base}", f"torch.Tensor.{base}"]
    if len(op._schema.returns) == 1 or not isinstance(getattr(functional, base, None), FunctionType):
        others.append(f"torch.nn.functional.{base}")  # written in Python it gives one tensor where ATen gives two
    for prefix in _LOWERS:
        if base.startswith(prefix):
            others.append(f"torch.{prefix[:-1]}.{base.removeprefix(prefix)}")
    return (*own, f"torch.ops.aten.{base}", *others)


def _function(api: str) -> Callable[..., Any]:
    import torch

    item: Any = torch
    if not api.startswith("torch."):
        raise NotExpandable(f"{api} is no function of torch")
    for part in api.split(".")[1:]:
        item = getattr(item, part, None)
    if not callable(item) or isinstance(item, type):
        raise NotExpandable(f"{api} is no function of torch")
    return item  # type: ignore[no-any-return]


def _module(call: Callable[..., Any]) -> Any:
    """torch.export takes modules only."""
    import torch

    class Call(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return call(tensors)

    return Call()


def _call(
    function: Callable[..., Any],
    args: tuple[Value, ...],
    kwargs: tuple[tuple[str, Value], ...],
    places: dict[int, int],
    tensors: tuple[Any, ...],
) -> Any:
    given = [_made(a, places, tensors) for a in args]
    return function(*given, **{k: _made(v, places, tensors) for k, v in kwargs})


def _made(value: Value, places: dict[int, int], tensors: tuple[Any, ...]) -> Any:
    """The argument itself. Raises NotExpandable."""
    import torch

    match value:
        case TensorValue(key=key):
            return tensors[places[key]]
        case Literal(value=plain):
            return plain
        case DType(name=name):
            return getattr(torch, name)
        case SequenceValue(kind=kind, items=items):
            made = [_made(i, places, tensors) for i in items]
            return made if kind == "list" else tuple(made)
        case DictValue(items=pairs):
            return {k: _made(v, places, tensors) for k, v in pairs}
        case ObjectValue(kind="device"):
            return torch.device("cpu")
    raise NotExpandable(f"{value} as an argument")


def _tensors(values: list[Value]) -> Iterator[TensorValue]:
    for value in values:
        match value:
            case TensorValue():
                yield value
            case SequenceValue(items=items):
                yield from _tensors(list(items))
            case DictValue(items=pairs):
                yield from _tensors([v for _, v in pairs])


class _Reader:
    """An exported program as steps."""

    def __init__(self, exported: Any, inputs: list[TensorValue]) -> None:
        self._exported, self._inputs = exported, inputs
        self._values: dict[Any, Value] = {}
        self._count = -1
        self._parts: dict[Any, tuple[TensorValue, ...]] = {}

    def read(self) -> Expansion:
        graph = self._exported.graph
        nodes = [n for n in graph.nodes if n.op == "placeholder"]
        places = dict(zip(nodes, self._exported.graph_signature.input_specs, strict=True))
        own = [n for n, spec in places.items() if spec.kind.name == "USER_INPUT"]
        if len(own) != len(self._inputs):
            raise NotExpandable("its expansion has other inputs")
        self._values.update(zip(own, self._inputs, strict=True))
        steps = [self._constant(n, spec) for n, spec in places.items() if spec.kind.name != "USER_INPUT"]
        steps += [step for node in graph.nodes if (step := self._step(node)) is not None]
        outputs = next(n for n in graph.nodes if n.op == "output")
        if any(str(s.kind.name) != "USER_OUTPUT" for s in self._exported.graph_signature.output_specs):
            raise NotExpandable("it writes to an argument")
        leaves = [self._value(leaf) for leaf in outputs.args[0]]
        return Expansion(tuple(self._inputs), tuple(_used(steps, leaves)), self._nested(leaves))

    def _constant(self, node: Any, spec: Any) -> Step:
        """A small tensor that the function makes of numbers."""
        import torch

        tensor = self._exported.constants.get(spec.target)
        if spec.kind.name != "CONSTANT_TENSOR" or type(tensor) is not torch.Tensor or tensor.numel() > _SMALL:
            raise NotExpandable("its expansion holds constants")
        found = self._values[node] = self._tensor(tensor)
        kind = (("dtype", DType(found.dtype)),)
        return Step(node.name, ("torch.tensor",), (_numbers(tensor.tolist()),), kind, (found,), True)

    def _nested(self, leaves: list[Value]) -> Value:
        from torch.utils import _pytree as pytree

        return _as_value(pytree.tree_unflatten(leaves, self._exported.call_spec.out_spec))

    def _step(self, node: Any) -> Step | None:
        if node.op in ("placeholder", "output"):
            return None
        if node.op != "call_function":
            raise NotExpandable(f"its expansion holds a {node.op}")
        if getattr(node.target, "__name__", "") == "getitem":
            whole, index = node.args
            self._values[node] = self._parts[whole][index]
            return None
        if not hasattr(node.target, "_schema"):
            raise NotExpandable(f"its expansion holds {node.target}")
        if str(node.target.name()).startswith("aten::_assert"):
            return None
        found = node.meta.get("val")
        single = not isinstance(found, (tuple, list))
        results = tuple(self._tensor(v) for v in ([found] if single else found))
        self._parts[node] = results
        if single:
            self._values[node] = results[0]
        args = tuple(self._value(a) for a in node.args)
        kwargs = tuple((k, self._value(v)) for k, v in node.kwargs.items() if k not in _MEANINGLESS)
        name = f"{node.name}_" if keyword.iskeyword(node.name) else node.name
        return Step(name, names_of(node.target), args, kwargs, results, single)

    def _tensor(self, fake: Any) -> TensorValue:
        import torch

        if not isinstance(fake, torch.Tensor) or not all(isinstance(s, int) for s in fake.shape):
            raise NotExpandable("its expansion depends on the values of a tensor")
        self._count -= 1
        return TensorValue(tuple(fake.shape), str(fake.dtype).removeprefix("torch."), self._count)

    def _value(self, item: Any) -> Value:
        import torch
        from torch.fx import Node

        if isinstance(item, Node):
            if item not in self._values:
                raise NotExpandable("its expansion passes a tuple of tensors on")
            return self._values[item]
        if isinstance(item, torch.dtype):
            return DType(str(item).removeprefix("torch."))
        if isinstance(item, torch.device):
            return ObjectValue("torch.device", 0, "device")
        if isinstance(item, (list, tuple)):
            items = tuple(self._value(i) for i in item)
            if all(isinstance(i, Literal) for i in items):
                return Literal(tuple(i.value for i in items if isinstance(i, Literal)))
            return SequenceValue("list", items)
        if item is None or isinstance(item, (bool, int, float, complex, str)):
            return Literal(item)
        raise NotExpandable(f"its expansion holds a {type(item).__name__}")


def _numbers(item: Any) -> Value:
    return SequenceValue("list", tuple(map(_numbers, item))) if isinstance(item, list) else Literal(item)


def _as_value(item: Any) -> Value:
    if isinstance(item, (tuple, list)):
        return SequenceValue("list" if isinstance(item, list) else "tuple", tuple(map(_as_value, item)))
    if isinstance(item, dict):
        return DictValue(tuple((k, _as_value(v)) for k, v in item.items()))
    return item  # type: ignore[no-any-return]


def _used(steps: list[Step], leaves: list[Value]) -> list[Step]:
    """Without the steps that nothing reads."""
    live = {t.key for t in _tensors(leaves)}
    kept = []
    for step in reversed(steps):
        if any(t.key in live for t in step.results):
            kept.append(step)
            live |= {t.key for t in _tensors([*step.args, *(v for _, v in step.kwargs)])}
    return kept[::-1]
