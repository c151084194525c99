"""What a constructor puts into a tensor before it makes a Parameter of it.

``w = torch.empty(4, 4); nn.init.normal_(w); self.w = nn.Parameter(w)`` is ``Parameter(initializer(Normal(), (4, 4)))``.
"""

from __future__ import annotations

import ast

from ms_port.ir.values import FunctionValue
from ms_port.passes.lowering.expressions import lower
from ms_port.passes.lowering.scope import Scope, Untranslatable

STARTS = frozenset(f"torch.Tensor.{name}" for name in ("normal_", "uniform_", "zero_", "fill_"))
"""Tensor methods that say what an initializer says."""

_SIZES = frozenset("size shape dim ndim numel".split())


def initial_value(scope: Scope, node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """(the filled tensor, the initializer) of ``nn.init.normal_(t)``, ``t.uniform_()``, or a local so filled."""
    if isinstance(node, ast.Name):
        filled = filled_local(scope, node.id)
        return None if filled is None else (filled[0], initializer_of(scope, filled[1]))
    if not isinstance(node, ast.Call) or (target := filled_tensor(scope, node)) is None:
        return None
    inner = initial_value(scope, target)
    return inner[0] if inner is not None else target, initializer_of(scope, node)


def started(filling: ast.expr) -> ast.expr:
    """``np.zeros((4,)).set_data(initializer(I, ...))`` as the array of ``initializer(I, (4,))``: it has no name."""
    match filling:
        case ast.Call(func=ast.Attribute(value=made, attr="set_data"), args=[ast.Call(args=[init, *_]) as start]):
            shape: ast.expr = ast.Attribute(made, "shape", ast.Load())
            if isinstance(made, ast.Call) and ast.unparse(made.func) == "np.zeros":
                shape = made.args[0]
            return _as_array(ast.Call(start.func, [init, shape], []))
    return filling


def array_of(initializer: ast.expr, name: str) -> ast.expr:
    """The array that an initializer gives for one that has a name."""
    shape = ast.Attribute(ast.Name(name, ast.Load()), "shape", ast.Load())
    return _as_array(ast.Call(ast.Name("initializer", ast.Load()), [initializer, shape], []))


def _as_array(start: ast.expr) -> ast.expr:
    for method in ("init_data", "asnumpy"):
        start = ast.Call(ast.Attribute(start, method, ast.Load()), [], [])
    return start


def filled_local(scope: Scope, name: str) -> tuple[ast.expr, ast.Call] | None:
    """How a local is made and the last call that fills it; None unless it then is but a Parameter, asked for sizes."""
    made: list[ast.expr] = []
    fills: list[ast.Call] = []
    known: set[int] = set()
    for statement in scope.function.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=stored)], value=value) if stored == name:
                made.append(value)
            case ast.Expr(value=ast.Call() as call):
                target = filled_tensor(scope, call)
                if isinstance(target, ast.Name) and target.id == name:
                    fills.append(call)
                    known.add(id(target))
    maker = made[0] if len(made) == 1 else None
    if not isinstance(maker, ast.Call):
        return None
    start: ast.expr = maker
    if not fills and (filled := filled_tensor(scope, maker)) is not None:
        start, fills = filled, [maker]  # `w = torch.empty(4).normal_()`
    if not fills:
        return None
    for statement in scope.function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Attribute) and node.attr in _SIZES:
                known.add(id(node.value))
            if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).rpartition(".")[2] == "Parameter":
                known.add(id(node.args[0]))
    uses = [n for s in scope.function.body for n in ast.walk(s) if isinstance(n, ast.Name) and n.id == name]
    if any(isinstance(n.ctx, ast.Load) and id(n) not in known for n in uses):
        return None
    return start, fills[-1]


def filled_tensor(scope: Scope, call: ast.Call) -> ast.expr | None:
    """The tensor that a call fills as an initializer does: the first argument of ``nn.init``'s, a method's receiver."""
    names = {f.callee.name for f in scope.calls(call) if isinstance(f.callee, FunctionValue) and f.callee.torch}
    api = names.pop() if len(names) == 1 else ""
    if api in STARTS:
        return call.func.value if isinstance(call.func, ast.Attribute) else None
    return call.args[0] if api.startswith("torch.nn.init.") and call.args else None


def initializer_of(scope: Scope, call: ast.Call) -> ast.expr:
    """``Normal(sigma=0.02)`` of the call's lowered form ``w.set_data(initializer(Normal(sigma=0.02), w.shape))``."""
    match lower(scope, call):
        case ast.Call(func=ast.Attribute(attr="set_data"), args=[ast.Call(args=[initializer, *_])]):
            return initializer
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Attribute(value=ast.Call(args=[initializer, *_]))))):
            return initializer  # as an array: `started`
    raise Untranslatable(call, f"`{ast.unparse(call)}` has no initializer")
