"""Functions of torch that need more than a row or a template."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ms_port.script import seeds

if TYPE_CHECKING:
    from ms_port.script.expressions import Expressions, Special


def _gradient(e: Expressions, node: ast.Call) -> str | None:
    return e.refuse(node, "MSP604", "torch.autograd.grad", "write the function of its inputs and take ms.grad of it")


def _checkpoint(e: Expressions, node: ast.Call) -> str | None:
    """``checkpoint(f, x)`` saves memory by computing again: the values are those of ``f(x)``."""
    keywords = [
        k for k in node.keywords if k.arg not in ("use_reentrant", "preserve_rng_state", "determinism_check", "debug")
    ]
    given = [
        *map(e.render, node.args[1:]),
        *(f"{k.arg}={e.render(k.value)}" if k.arg else f"**{e.render(k.value)}" for k in keywords),
    ]
    return f"{e.atom(node.args[0])}({', '.join(given)})" if node.args else None


def _einsum(e: Expressions, node: ast.Call) -> str | None:
    """``einsum(pattern, [a, b])`` is ``einsum(pattern, a, b)``."""
    given = node.args[1].elts if len(node.args) == 2 and isinstance(node.args[1], (ast.List, ast.Tuple)) else None
    if given is None:
        return e.lowered(node, "torch.einsum")
    flat = ast.copy_location(ast.Call(node.func, [node.args[0], *given], []), node)
    return e.lowered(flat, "torch.einsum")


def _sparse(e: Expressions, node: ast.Call) -> str | None:
    """A sparse tensor becomes a dense one."""
    text = f"{e.needs.name('dense_of')}{e._arguments(node)}"
    e.note("MSP602", e.source.segment(node), f"{text}: with all its zeros", "", "warning", "torch.sparse_coo_tensor")
    return text


def _normed(name: str) -> Special:
    """``weight_norm(nn.Conv1d(...))``: one layer, by the arguments of the inner call."""

    def normed(e: Expressions, node: ast.Call) -> str | None:
        inner = node.args[0] if len(node.args) == 1 and not node.keywords else None
        layer = (e.api_name(inner.func) or "").rpartition(".")[2] if isinstance(inner, ast.Call) else ""
        if not isinstance(inner, ast.Call) or f"{name}.{layer}" not in e.op_map:
            return e.refuse(node, "MSP602", name, "it is known over a Linear or convolution that is made in the call")
        return e.lowered(ast.copy_location(ast.Call(inner.func, inner.args, inner.keywords), node), f"{name}.{layer}")

    return normed


def _made(value: str) -> Special:
    """``torch.ones([])``: ops.ones knows no shape without axes."""

    def made(e: Expressions, node: ast.Call) -> str | None:
        given = [*node.args, *(k.value for k in node.keywords if k.arg == "size")]
        bare = len(given) == 1 and isinstance(given[0], (ast.List, ast.Tuple)) and not given[0].elts
        name = e.api_name(node.func) or ""
        if not bare:
            return e.lowered(node, name)
        kinds = [e.render(k.value) for k in node.keywords if k.arg == "dtype"] or [f"{e.needs.name('ms')}.float32"]
        text = f"{e.needs.name('Tensor')}({value}, {kinds[0]})"
        e.change(node, "MSP601", text, name)
        return e.parameter(node, text)

    return made


NORMS = ("weight_norm", "spectral_norm", "parametrizations.weight_norm", "parametrizations.spectral_norm")

SPECIAL: dict[str, Special] = {
    **{f"torch.nn.utils.{norm}": _normed(f"torch.nn.utils.{norm}") for norm in NORMS},
    "torch.einsum": _einsum,
    "torch.ones": _made("1"),
    "torch.zeros": _made("0"),
    "torch.empty": _made("0"),
    "torch.manual_seed": seeds.seed,
    "torch.random.manual_seed": seeds.seed,
    "torch.sparse_coo_tensor": _sparse,
    "torch.sparse.FloatTensor": _sparse,
    "torch.cuda.sparse.FloatTensor": _sparse,
    "torch.autograd.grad": _gradient,
    "torch.utils.checkpoint.checkpoint": _checkpoint,
}
