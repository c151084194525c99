"""Through what a gradient flows: expressions, layers and functions of the project."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from ms_port.script.inference import Inference
from ms_port.script.kinds import is_module
from ms_port.script.source import dotted
from ms_port.script.syntax import own_nodes

CUTS = frozenset(
    "detach item numpy tolist argmax eq ne gt lt ge le size dim numel long int bool new_zeros new_ones new_full new_tensor new_empty zeros_like ones_like".split()
)
"""Methods behind which no gradient flows."""
VALUES = ("ndarray", "number", "str", "shape", "dtype", "device")
"""Kinds without a gradient."""


def flows(node: ast.AST, cuts: Callable[[ast.Call], bool] | None = None) -> Iterator[ast.AST]:
    """Nodes through which a gradient can flow: not behind detach, item and their kind, nor behind what ``cuts`` names."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CUTS:
        return
    if isinstance(node, ast.Call) and cuts is not None and cuts(node):
        return
    if isinstance(node, (ast.Lambda, ast.FunctionDef)):
        yield node
    if isinstance(node, (ast.With, ast.AsyncWith)) and any(
        "no_grad" in ast.unparse(i.context_expr) for i in node.items
    ):
        return
    if isinstance(node, (ast.JoinedStr, ast.Compare)):
        return
    if isinstance(node, ast.Attribute) and node.attr in ("data", "shape", "dtype", "device", "grad"):
        return
    yield node
    if dotted(node) is not None and isinstance(node, ast.Attribute):
        yield from flows(node.value, cuts)
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        # the method's own name is no value
        for part in [node.func.value, *node.args, *(k.value for k in node.keywords)]:
            yield from flows(part, cuts)
        return
    for child in ast.iter_child_nodes(node):
        yield from flows(child, cuts)


def thing(kind: object) -> bool:
    """Whether a value is a model, an optimizer and the like, and no tensor."""
    if (
        isinstance(kind, tuple)
        and kind[0] == "inst"
        and kind[1].family in ("dataset", "sampler", "optimizer", "scheduler")
    ):
        return True
    if isinstance(kind, tuple) and kind[0] in ("list", "tuple") and len(kind) > 1:
        return all(map(thing, kind[1:]))
    return is_module(kind) or kind in (
        "optimizer",
        "scheduler",
        "scaler",
        "loader",
        "dataset",
        *VALUES,
    )


def plain_layer(api: str) -> bool:
    """Layers without parameters: losses, activations and the like carry a gradient on, and start none."""
    last = api.rpartition(".")[2]
    return last.endswith("Loss") or last in (
        "ReLU",
        "Softmax",
        "LogSoftmax",
        "Sigmoid",
        "Tanh",
        "Dropout",
        "Flatten",
        "Identity",
        "CosineSimilarity",
        "LeakyReLU",
    )


def computes(node: ast.AST, inference: Inference, seen: set[ast.AST]) -> bool:
    """Whether a function of the project runs modules or reads parameters."""
    if node in seen:
        return False
    seen.add(node)
    for inner in ast.walk(node):
        if inference.of(inner) == "parameter":
            return True
        if isinstance(inner, ast.Call):
            kind = inference.of(inner.func)
            if is_module(kind) and not (isinstance(kind, tuple) and kind[0] == "layer" and plain_layer(str(kind[1]))):
                return True
            if isinstance(kind, tuple) and kind[0] == "func" and computes(kind[1].node, inference, seen):
                return True
    return False


def gives_detached(node: ast.AST) -> bool:
    """Whether all that a function gives back is detached. That it looks at ``loss.item()`` on the way cuts nothing."""
    if isinstance(node, ast.Lambda):
        return _detached(node.body, "")
    values = [n.value for n in own_nodes(node) if isinstance(n, ast.Return) and n.value is not None]
    return bool(values) and all(_detached(value, getattr(node, "name", "")) for value in values)


def _detached(value: ast.expr, own: str) -> bool:
    """Whether no gradient flows through a returned value; ``own`` is the function itself."""
    match value:
        case ast.Constant() | ast.Attribute(attr="data"):
            return True
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return all(_detached(part, own) for part in parts)
        case ast.GeneratorExp(elt=part) | ast.ListComp(elt=part):
            return _detached(part, own)
        case ast.IfExp(body=one, orelse=other):
            return _detached(one, own) and _detached(other, own)
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)) if name == own:
            return True
        case ast.Call(func=ast.Name(id="tuple" | "list" | "Variable"), args=[part]):
            return _detached(part, own)
        case ast.Call(func=ast.Attribute(attr=name)) if name in CUTS:
            return True
        case ast.Call(func=ast.Attribute(value=part)):
            return _detached(part, own)
    return False


def returns(node: ast.AST) -> bool:
    """Whether a function gives back something through which a gradient can flow."""
    if isinstance(node, ast.Lambda):
        return True
    values = (
        [n.value for n in own_nodes(node) if isinstance(n, ast.Return) and n.value is not None]
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        else []
    )
    inner = [
        n.value
        for child in ast.iter_child_nodes(node)
        for n in own_nodes(child)
        if isinstance(n, ast.Return) and n.value is not None
    ]
    return any(
        isinstance(part, (ast.Name, ast.Attribute, ast.Call)) for value in [*values, *inner] for part in flows(value)
    )


def builtin(func: ast.expr) -> bool:
    return isinstance(func, ast.Name) and func.id in (
        "print",
        "len",
        "float",
        "int",
        "str",
        "range",
        "zip",
        "enumerate",
        "sum",
        "list",
        "tuple",
        "isinstance",
        "max",
        "min",
        "abs",
        "round",
        "iter",
        "next",
        "map",
        "sorted",
        "type",
        "getattr",
        "hasattr",
        "dict",
        "set",
    )
