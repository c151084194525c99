"""What a value is by what is done with it, where nothing in the project says what was handed in."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ms_port.script.kinds import TENSOR_ONLY
from ms_port.script.project import Kind
from ms_port.script.source import dotted

MODULE = frozenset(
    "parameters named_parameters train eval modules children named_modules named_children requires_grad_".split()
)
"""Methods that only modules have, among the things that a training script hands around."""


def by_use(scope: ast.AST, name: str) -> Kind:
    """The kind of a dotted name (``net``, ``self.net``) in the code of a function or class; None where it stays open."""
    names = _aliases(scope, name)
    methods: set[str] = set()
    attributes: set[str] = set()
    called = device = stepped = loader = other = False
    for node in ast.walk(scope):
        if isinstance(node, ast.Attribute) and dotted(node.value) in names:
            attributes.add(node.attr)
        if isinstance(node, (ast.For, ast.AsyncFor)):
            loader = loader or (_iterates(node.iter, names) and _moves_batches(node))
        if not isinstance(node, ast.Call):
            continue
        called = called or dotted(node.func) in names
        device = device or any(k.arg == "device" and dotted(k.value) in names for k in node.keywords)
        if isinstance(node.func, ast.Attribute):
            mine = dotted(node.func.value) in names
            methods |= {node.func.attr} if mine else set()
            # scaler.step(optimizer)
            stepped = stepped or (node.func.attr == "step" and any(dotted(a) in names for a in node.args))
            other = other or (not mine and node.func.attr == "step")
    if stepped or "param_groups" in attributes or {"step", "zero_grad"} <= methods:
        return "optimizer"
    if "scale" in methods and methods & {"update", "step", "unscale_"}:
        return "scaler"
    if methods & MODULE or "zero_grad" in methods:
        return "module"
    if "step" in methods:
        return "scheduler" if other or "get_last_lr" in methods else "optimizer"
    if device:
        return "device"
    if loader:
        return "loader"
    return "module" if called and any(_gives_a_loss(scope, n) for n in names) else None


def _aliases(scope: ast.AST, name: str) -> set[str]:
    """The name, and local names that are bound to it: ``model, config = self.model, self.config``."""
    found = {name}
    for node in ast.walk(scope):
        if not (isinstance(node, ast.Assign) and len(node.targets) == 1):
            continue
        target, value = node.targets[0], node.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            pairs = list(zip(target.elts, value.elts, strict=True))
        found |= {t.id for t, v in pairs if isinstance(t, ast.Name) and dotted(v) == name}
    return found


def _iterates(node: ast.expr, names: set[str]) -> bool:
    """Whether a loop runs over the value, itself or through ``enumerate``, ``tqdm`` and their kind."""
    while isinstance(node, ast.Call) and node.args:
        node = node.args[0]
    return dotted(node) in names


def _moves_batches(loop: ast.For | ast.AsyncFor) -> bool:
    """Whether what a loop gets is moved to a device."""
    items = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    return any(
        isinstance(n, ast.Attribute)
        and n.attr in ("to", "cuda")
        and isinstance(n.value, ast.Name)
        and n.value.id in items
        for n in ast.walk(loop)
    )


def _gives_a_loss(scope: ast.AST, name: str) -> bool:
    """Whether what its call gives is treated as a tensor: ``loss = criterion(x, y)``, then ``loss.backward()``."""
    made = {t.id for n in _results(scope, name) for t in n.targets if isinstance(t, ast.Name)}
    return any(
        isinstance(n, ast.Attribute) and n.attr in TENSOR_ONLY and isinstance(n.value, ast.Name) and n.value.id in made
        for n in ast.walk(scope)
    )


def _results(scope: ast.AST, name: str) -> Iterator[ast.Assign]:
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and dotted(node.value.func) == name:
            yield node
