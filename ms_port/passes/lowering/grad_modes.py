"""Blocks and switches that decide whether gradients flow: what they bind is cut by ``ops.stop_gradient``."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ms_port.ir.values import Literal, holds_tensor
from ms_port.passes.lowering.scope import Scope


def context(scope: Scope, node: ast.expr) -> str:
    """What a ``with`` block does, told by the object that was entered."""
    values = scope.values(node)
    cls = getattr(values[0], "cls", "") if values else ast.unparse(node)
    if "autocast" in cls:
        enabled = [k.value for k in getattr(node, "keywords", []) if k.arg == "enabled"]
        off = bool(enabled) and scope.constant(enabled[0]) is not None and ast.unparse(enabled[0]) == "False"
        return "plain" if off else "autocast"
    if "no_grad" in cls or "inference_mode" in cls:
        return "no_grad"
    if "set_grad_enabled" in cls:
        return grad_mode(scope, node)
    return "plain"


def grad_mode(scope: Scope, node: ast.expr) -> str:
    """``set_grad_enabled(flag)``: by the flag where it never varied."""
    facts = scope.calls(node) if isinstance(node, ast.Call) else ()
    flags = {f.args[0] for f in facts if f.args}
    if flags == {Literal(True)}:
        return "plain"
    if flags != {Literal(False)}:
        scope.flag(
            node,
            "MSP306",
            "whether gradients flow here changes while the model runs; the port lets them flow",
            "Wrap what must not train in ops.stop_gradient.",
        )
        return "plain"
    return "no_grad"


def sets_grad_mode(scope: Scope, node: ast.expr) -> bool:
    """``torch.set_grad_enabled(flag)`` as a statement: it holds for what follows."""
    facts = scope.calls(node) if isinstance(node, ast.Call) else ()
    if not facts or "set_grad_enabled" not in getattr(facts[0].callee, "name", ""):
        return False
    scope.detaching = grad_mode(scope, node) == "no_grad"
    return True


def detached(scope: Scope, source: ast.expr, value: ast.expr, targets: Sequence[ast.expr] | None = None) -> ast.expr:
    """Under ``no_grad`` the value's gradient is cut: what is returned (``targets`` None), or bound to ``targets``.

    A function that is decorated as a whole cuts what leaves it: its local names need nothing.
    """
    seen = scope.values(source)
    if not scope.detaching or scope.host or not any(holds_tensor(v) for v in seen):
        return value
    if scope.detached_whole and targets is not None and all(map(_is_local, targets)):
        return value
    if isinstance(value, ast.Tuple):
        parts = source.elts if isinstance(source, ast.Tuple) and len(source.elts) == len(value.elts) else ()
        plain = {i for i, part in enumerate(parts) if not any(holds_tensor(v) for v in scope.values(part))}
        items = [v if i in plain else ast.Call(_stop_gradient(), [v], []) for i, v in enumerate(value.elts)]
        return ast.Tuple(items, ast.Load())
    return ast.Call(_stop_gradient(), [value], [])


def _is_local(target: ast.expr) -> bool:
    names = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    return all(isinstance(name, ast.Name) for name in names)


def _stop_gradient() -> ast.expr:
    return ast.Attribute(ast.Name("ops", ast.Load()), "stop_gradient", ast.Load())
