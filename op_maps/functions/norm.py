"""Vector norms with torch's gradient at zero, and what is built on them."""

from __future__ import annotations

from mindspore import Tensor, ops


def vector_norm(x: Tensor, p: float = 2.0, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
    """torch.linalg.vector_norm. At a zero vector the gradient is 0 as in torch (that of ops.norm is NaN)."""
    axis = tuple(range(x.ndim)) if axis is None else axis
    if p == float("inf"):
        return ops.amax(ops.abs(x), axis, keepdims)
    if p == -float("inf"):
        return ops.amin(ops.abs(x), axis, keepdims)
    if p == 0:
        return (x != 0).astype(x.dtype).sum(axis, keepdims=keepdims)
    if p == 1:
        return ops.abs(x).sum(axis, keepdims=keepdims)
    if p == 2:
        total = ops.square(x).sum(axis, keepdims=keepdims)
    else:
        total = (ops.abs(x) ** p).sum(axis, keepdims=keepdims)
    zero = total == 0
    safe = ops.where(zero, ops.ones_like(total), total)
    root = ops.sqrt(safe) if p == 2 else safe ** (1.0 / p)
    return ops.where(zero, ops.zeros_like(total), root)


def normalize(x: Tensor, p: float = 2.0, axis: int | tuple[int, ...] = 1, eps: float = 1e-12) -> Tensor:
    """torch.nn.functional.normalize: each vector divided by its norm, or by eps where that is larger."""
    return x / ops.clamp(vector_norm(x, p, axis, True), min=eps)


def cosine_similarity(x1: Tensor, x2: Tensor, axis: int = 1, eps: float = 1e-8) -> Tensor:
    """F.cosine_similarity: each norm is at least eps; the bound takes no part in the gradient."""
    norm1, norm2 = vector_norm(x1, 2.0, axis, True), vector_norm(x2, 2.0, axis, True)
    norm1 = norm1 + ops.stop_gradient(ops.clamp(norm1, min=eps) - norm1)
    norm2 = norm2 + ops.stop_gradient(ops.clamp(norm2, min=eps) - norm2)
    return (x1 / norm1 * (x2 / norm2)).sum(axis)
