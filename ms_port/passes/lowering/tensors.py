"""Tensors that a constructor makes: parameters and buffers.

A constant becomes ``initializer(value, shape)``; what numpy can compute is computed by numpy (no op runs while a cell
is built); the rest is allocated by shape and gets its values from the weights.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ms_port.ir.program import CallFact, ParameterInstance
from ms_port.ir.tree import expression, literal
from ms_port.ir.values import ClassValue, Literal, TensorValue, Value
from ms_port.passes.lowering.expressions import lower
from ms_port.passes.lowering.parameter_starts import initial_value
from ms_port.passes.lowering.scope import Scope, Untranslatable, dtype_expression, same

_CONSTANT = {"torch.zeros": "'zeros'", "torch.ones": "'ones'", "torch.empty": "'zeros'", "torch.full": None}
_CONSTANT |= {"torch.Tensor": "'zeros'", "torch.FloatTensor": "'zeros'"}
_LEGACY = frozenset({"torch.Tensor", "torch.FloatTensor"})
_RANDOM = {"torch.randn": "Normal(sigma=1.0)", "torch.rand": "Uniform01()"}


def lower_parameter(scope: Scope, node: ast.Call, facts: Sequence[CallFact]) -> ast.expr:
    """``nn.Parameter(tensor, requires_grad)`` -> ``Parameter(initializer(...))``."""
    given = dict(zip(("data", "requires_grad"), node.args, strict=False))
    given.update({k.arg: k.value for k in node.keywords if k.arg is not None})
    if "data" not in given:
        raise Untranslatable(node, "a parameter without data")
    value = parameter_value(scope, given["data"], [f.result for f in facts])
    keywords = []
    if "requires_grad" in given:
        keywords.append(ast.keyword("requires_grad", lower(scope, given["requires_grad"])))
    return ast.Call(ast.Name("Parameter", ast.Load()), [value], keywords)


def is_parameter_call(scope: Scope, node: ast.expr) -> bool:
    """Whether the expression makes an ``nn.Parameter``."""
    facts = scope.calls(node) if isinstance(node, ast.Call) else ()
    return any(
        isinstance(f.callee, ClassValue) and f.callee.is_module is False and "Parameter" in f.callee.name for f in facts
    )


def parameter_value(scope: Scope, node: ast.expr, results: Sequence[Value]) -> ast.expr:
    """What a parameter starts with: an initializer where the source fills, numpy where it computes, else zeros."""
    filled = initial_value(scope, node)
    made = _initializer(scope, filled[0] if filled is not None else node)
    if filled is not None:
        if not isinstance(made, ast.Call) or ast.unparse(made.func) != "initializer":
            made = _allocated(scope, node, results, flagged=False)
        made.args[0] = filled[1]
    if made is not None:
        return made
    try:
        return host_tensor(scope, node, results)
    except Untranslatable:
        return _allocated(scope, node, results)


def buffer_value(scope: Scope, node: ast.expr) -> tuple[ast.expr, bool]:
    """A buffer's start, and whether its values are computed here (else they come with the weights)."""
    made = _initializer(scope, node)
    if made is not None and "Normal" not in ast.unparse(made):
        return made, True
    try:
        return host_tensor(scope, node, scope.values(node)), True
    except Untranslatable:
        return _allocated(scope, node, scope.values(node)), False


def host_tensor(scope: Scope, node: ast.expr, results: Sequence[Value]) -> ast.expr:
    """``Tensor(numpy expression)`` of torch's dtype. Raises Untranslatable."""
    if not results or not all(isinstance(v, TensorValue) for v in results):
        raise Untranslatable(node, "its values are not known")
    value = results[0]
    assert isinstance(value, TensorValue)
    lowered = lower(scope, node)
    if "np.random" in ast.unparse(lowered):
        raise Untranslatable(node, "random numbers: torch's come with the weights")
    if isinstance(lowered, ast.Attribute):
        return lowered
    if _reads_values(scope, node):
        raise Untranslatable(node, "computed from a parameter: its values come with the weights")
    return ast.Call(ast.Name("Tensor", ast.Load()), [lowered, dtype_expression(value.dtype)], [])


_OF_SHAPES = frozenset(
    "shape dtype device ndim size dim numel new_zeros new_ones new_full new_empty new_tensor".split()
)
"""Attributes and methods of a tensor that say nothing of its values."""


def _reads_values(scope: Scope, node: ast.AST) -> bool:
    """Whether an expression depends on the values of a parameter, which the port does not know as it is built."""
    match node:
        case ast.Attribute(attr=name) if name in _OF_SHAPES:
            return False
        case ast.Call(func=ast.Attribute(attr=name)) if name.endswith("_like"):
            return False
    seen = scope.values(node) if isinstance(node, ast.Name | ast.Attribute) else ()
    own = {v.parameter for v in seen if isinstance(v, TensorValue) and v.parameter is not None}
    known = scope.work.program.parameters
    if any(path in known and _comes_with_weights(scope, known[path]) for path in own):
        return True
    return any(_reads_values(scope, child) for child in ast.iter_child_nodes(node))


def _comes_with_weights(scope: Scope, tensor: ParameterInstance) -> bool:
    owner, _, name = tensor.path.rpartition(".")
    module = scope.work.program.modules.get(owner)
    return tensor.kind == "parameter" or (module is not None and (module.cls, name) in scope.work.allocated)


def _initializer(scope: Scope, node: ast.expr) -> ast.expr | None:
    """``torch.zeros(shape)``, ``0.02 * torch.randn(shape)``, ``v * torch.ones(shape)``."""
    scale: ast.expr | None = None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for tensor, other in ((node.left, node.right), (node.right, node.left)):
            if _creation(scope, tensor) and not any(isinstance(v, TensorValue) for v in scope.values(other)):
                node, scale = tensor, other
                break
    name = _creation(scope, node)
    if name is None or not isinstance(node, ast.Call):
        return None
    shape = _shape(scope, node, name)
    if shape is None:
        return None
    if (empty := _empty(scope, node)) is not None:
        return empty
    if name in _RANDOM:
        sigma = ast.unparse(lower(scope, scale)) if scale is not None else "1.0"
        if name == "torch.rand":
            if scale is not None:
                return None
            return None
        init = expression(f"Normal(sigma={sigma})")
    elif name == "torch.full":
        init = lower(scope, node.args[1] if len(node.args) > 1 else _keyword(node, "fill_value"))
    elif scale is not None and name == "torch.ones":
        init = lower(scope, scale)
    elif scale is not None:
        return None
    else:
        init = expression(_CONSTANT[name] or "'zeros'")
    dtype = _dtype(scope, node)
    extra = [] if dtype is None else [dtype]
    return ast.Call(ast.Name("initializer", ast.Load()), [init, shape, *extra], [])


def _empty(scope: Scope, node: ast.Call) -> ast.expr | None:
    """A tensor without elements, for which MindSpore has no initializer."""
    values = scope.values(node)
    first = values[0] if values else None
    if not isinstance(first, TensorValue) or 0 not in first.shape or any(v != first for v in values):
        return None
    return expression(f"Tensor(np.zeros({first.shape!r}, np.{first.dtype}))")


def _keyword(node: ast.Call, name: str) -> ast.expr:
    for keyword in node.keywords:
        if keyword.arg == name:
            return keyword.value
    raise Untranslatable(node, f"`{name}` is not given")


def _creation(scope: Scope, node: ast.expr) -> str | None:
    if not isinstance(node, ast.Call) or not scope.calls(node):
        return None
    callee = scope.calls(node)[0].callee
    name = getattr(callee, "name", "")
    return name if name in _CONSTANT or name in _RANDOM else None


def _shape(scope: Scope, node: ast.Call, name: str) -> ast.expr | None:
    facts = scope.calls(node)
    sizes = node.args[:1] if name == "torch.full" else node.args
    if not sizes:
        keyword = next((k.value for k in node.keywords if k.arg == "size"), None)
        return lower(scope, keyword) if keyword is not None else None
    lowered = [lower(scope, a) for a in sizes]
    first = facts[0].args[0]
    if name in _LEGACY and isinstance(first, Literal) and isinstance(first.value, list | tuple):
        return None  # the values themselves
    if len(sizes) == 1 and not isinstance(sizes[0], ast.Starred) and isinstance(first, Literal):
        if isinstance(first.value, tuple):
            return lowered[0]
        if isinstance(first.value, list):
            return (
                ast.Call(ast.Name("tuple", ast.Load()), [lowered[0]], [])
                if not isinstance(lowered[0], ast.List)
                else ast.Tuple(lowered[0].elts, ast.Load())
            )
    if name in _LEGACY and not all(isinstance(a, Literal) and isinstance(a.value, int) for a in facts[0].args):
        return None
    return ast.Tuple(lowered, ast.Load())


def _dtype(scope: Scope, node: ast.Call) -> ast.expr | None:
    results = [f.result for f in scope.calls(node)]
    dtypes = {r.dtype for r in results if isinstance(r, TensorValue)}
    return None if dtypes == {"float32"} else dtype_expression(dtypes.pop()) if len(dtypes) == 1 else None


def _allocated(scope: Scope, node: ast.AST, results: Sequence[Value], flagged: bool = True) -> ast.Call:
    """Zeros of the right shape: the values come with the weights (which is said where ``flagged``)."""
    shapes = [Literal(v.shape) for v in results if isinstance(v, TensorValue)]
    shape = sizes_of(scope, node, results)
    if not shapes or (shape is None and not same(shapes)):
        raise Untranslatable(node, "its shape differs between instances")
    value = results[0]
    assert isinstance(value, TensorValue)
    if flagged:
        scope.flag(
            node,
            "MSP502",
            "the values of this tensor are not recomputed in the port: they come with the weights",
            "Load the converted weights before use.",
            severity="info",
        )
    arguments = [expression("'zeros'"), shape or literal(value.shape)]
    if value.dtype != "float32":
        arguments.append(dtype_expression(value.dtype))
    return ast.Call(ast.Name("initializer", ast.Load()), arguments, [])


_NEW = frozenset({"new_zeros", "new_ones", "new_empty", "new_full"})


def sizes_of(scope: Scope, node: ast.AST, results: Sequence[Value]) -> ast.expr | None:
    """The shape as the source gives it, found behind what leaves shapes alone: ``torch.randn(n, m).div_(scale)``."""
    shapes = [v.shape for v in results if isinstance(v, TensorValue)]
    inner: list[ast.expr] = []
    match node:
        case ast.Call(func=ast.Attribute(attr=attr)) if attr in _NEW:
            return _attempted(scope, node, "torch.full" if attr == "new_full" else "torch.zeros")
        case ast.Call() if (name := _creation(scope, node)) is not None:
            return _attempted(scope, node, name)
        case ast.Call(func=func, args=args):
            inner = [*([func.value] if isinstance(func, ast.Attribute) else []), *args[:1]]
        case ast.BinOp(left=left, right=right):
            inner = [left, right]
        case ast.UnaryOp(operand=operand):
            inner = [operand]
    for part in inner:
        if [v.shape for v in scope.values(part) if isinstance(v, TensorValue)] == shapes:
            return sizes_of(scope, part, results)
    return None


def _attempted(scope: Scope, node: ast.Call, name: str) -> ast.expr | None:
    try:
        return _shape(scope, node, name)
    except Untranslatable:
        return None


__all__ = ["buffer_value", "host_tensor", "lower_parameter", "parameter_value"]
