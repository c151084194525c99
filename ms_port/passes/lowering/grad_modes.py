"""Blocks and switches that decide whether gradients flow: what they bind is cut by ``ops.stop_gradient``."""

from __future__ import annotations

import ast

from ms_port.ir.values import Literal, TensorValue, holds_tensor
from ms_port.passes.lowering.scope import Scope, Untranslatable


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


def detached(scope: Scope, source: ast.expr, value: ast.expr) -> ast.expr:
    """Under ``no_grad`` the value's gradient is cut."""
    seen = scope.values(source)
    if not scope.detaching or scope.host or not any(holds_tensor(v) for v in seen):
        return value
    if isinstance(value, ast.Tuple):
        items: list[ast.expr] = [ast.Call(_stop_gradient(), [item], []) for item in value.elts]
        return ast.Tuple(items, ast.Load())
    if not all(isinstance(v, TensorValue) for v in seen):
        raise Untranslatable(source, "several tensors bound at once under no_grad")
    return ast.Call(_stop_gradient(), [value], [])


def _stop_gradient() -> ast.expr:
    return ast.Attribute(ast.Name("ops", ast.Load()), "stop_gradient", ast.Load())
