"""What the values of a script are (tensor, module, optimizer, loader ...), inferred from its source without running it.

A kind is a string (``"tensor"``, ``"parameter"``, ``"module"``, ``"optimizer"``, ``"scheduler"``, ``"scaler"``, ``"loader"``, ``"batch"``,
``"dataset"``, ``"device"``, ``"dtype"``, ``"shape"``, ``"number"``, ``"str"``, ``"ndarray"``, ``"transform"``), a tuple (``("api", dotted name)``, ``("class", Class)``,
``("inst", Class)``, ``("func", Function)``, ``("layer", API)``, ``("list", kind)``, ``("tuple", kind, ...)``, ``("dict", kind)``) or None: not known.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ms_port.script.project import Kind

DEVICE_FLAGS = ("is_cuda", "is_npu", "is_xpu", "is_mps")
"""Attributes of a tensor that tell where it lies."""
TENSOR_ONLY = frozenset(
    "clone unsqueeze squeeze_ unsqueeze_ permute backward detach detach_ cuda cpu item long half requires_grad_ contiguous expand expand_as view_as "
    "masked_fill masked_fill_ masked_select add_ sub_ mul_ div_ zero_ fill_ copy_ clamp_ clamp addmm bmm matmul mm softmax "
    "log_softmax sigmoid tanh relu exp_ normal_ uniform_ scatter scatter_ gather index_select index_add_ numel eq ne gt lt ge le "
    "type_as new_zeros new_ones new_tensor new_full data_ptr chunk unbind topk logsumexp rsqrt tril triu bernoulli_ "
    "addcmul_ addcdiv_ lerp_ flip_ unflatten movedim cumsum narrow pow_ sqrt_ sign_ erf to_sparse to_dense is_floating_point is_contiguous numpy repeat_interleave".split()
)
MAPPING = frozenset("items keys values get pop update".split())


def join(one: Kind, other: Kind) -> Kind:
    """The better known of two kinds."""
    if one is None or one == other:
        return other
    if other is None:
        return one
    if "tensor" in (one, other) and {one, other} <= {"tensor", "number", "batch", "parameter"}:
        return "tensor"
    return one


def is_tensor(kind: Kind) -> bool:
    return kind in ("tensor", "parameter", "batch")


def is_module(kind: Kind) -> bool:
    if kind == "module":
        return True
    if isinstance(kind, tuple) and kind[0] == "inst":
        return kind[1].family in ("module", "sequential", "list", "dict", "lightning")
    return isinstance(kind, tuple) and kind[0] == "layer"


def is_optimizer(kind: Kind) -> bool:
    """An optimizer of torch's, or of a class of the project derived from one."""
    return kind == "optimizer" or (isinstance(kind, tuple) and kind[0] == "inst" and kind[1].family == "optimizer")


def joined(kinds: Sequence[Kind]) -> Kind:
    found: Kind = None
    for kind in kinds:
        found = join(found, kind)
    return found


def arithmetic(left: Kind, right: Kind) -> Kind:
    if is_tensor(left) or is_tensor(right):
        return "tensor"
    if "ndarray" in (left, right):
        return "ndarray"
    if isinstance(left, tuple) and left[0] in ("list", "tuple"):
        return left
    return left if left == right else join(left, right) if {left, right} <= {"number", None} else None


def element(kind: Kind) -> Kind:
    """What iteration over a value gives."""
    if isinstance(kind, tuple):
        if kind[0] in ("list", "iter"):
            return kind[1]
        if kind[0] == "tuple":
            return joined(kind[1:])
        if kind[0] == "inst" and kind[1].family == "dataset":
            return None
        if kind[0] == "inst" and kind[1].family == "list":
            return "module"
        if kind[0] == "layer" and kind[1].endswith(("ModuleList", "Sequential")):
            return "module"
        if kind[0] == "layer" and kind[1].endswith("ParameterList"):
            return "parameter"
        if kind[0] == "dict":
            return "str"
    if kind == "loader":
        return "batch"
    if kind in ("tensor", "batch"):
        return kind
    if kind == "parameter":
        return "tensor"
    if kind == "shape":
        return "number"
    return None


def part(kind: Kind, index: int) -> Kind:
    """What unpacking gives at one place."""
    if isinstance(kind, tuple) and kind[0] == "tuple":
        return kind[index + 1] if index + 1 < len(kind) else None
    return element(kind)


def item_of(held: Kind, index: ast.expr) -> Kind:
    if isinstance(held, tuple):
        if held[0] == "tuple" and isinstance(index, ast.Constant) and isinstance(index.value, int):
            return held[index.value + 1] if -len(held) < index.value < len(held) - 1 else None
        if held[0] == "tuple" and isinstance(index, ast.UnaryOp):
            return held[-1]
        if held[0] in ("list", "tuple") and isinstance(index, ast.Slice):
            return held
        if held[0] == "dict":
            return held[1]
        if (held[0] == "inst" and held[1].family == "dict") or (held[0] == "layer" and held[1].endswith("ModuleDict")):
            return "module"
        return element(held)
    if held == "parameter":
        return "tensor"
    if held == "shape":
        return "shape" if isinstance(index, ast.Slice) else "number"
    if held == "module":
        return "module"
    return held if held in ("tensor", "batch", "ndarray") else None
