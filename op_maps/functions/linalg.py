"""Linear algebra that MindSpore lacks."""

from __future__ import annotations

from mindspore import Tensor, ops


def inverse_of(a: Tensor) -> Tensor:
    """torch.linalg.inv (ops.inverse takes no 1x1 matrix)."""
    return 1.0 / a if a.shape[-1] == 1 else ops.inverse(a)


def solve_triangular(a: Tensor, b: Tensor, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """torch.linalg.solve_triangular by the triangle's inverse; only that triangle of a is read."""
    triangle = ops.triu(a) if upper else ops.tril(a)
    if unitriangular:
        eye = ops.eye(a.shape[-1], a.shape[-1], a.dtype)
        triangle = triangle * (1 - eye) + eye
    inverse = inverse_of(triangle)
    return ops.matmul(inverse, b) if left else ops.matmul(b, inverse)


def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """torch._weight_norm: v scaled so that its norm over all axes but dim is g."""
    axes = tuple([axis for axis in range(v.ndim) if axis != dim % v.ndim]) if dim != -1 else tuple(range(v.ndim))
    return v * (g / ops.sqrt(ops.square(v).sum(axes, keepdims=True)))


def grouped_mm(a: Tensor, b: Tensor, offs: Tensor) -> Tensor:
    """F.grouped_mm of (rows, k) and (groups, k, n): each row times the matrix of its group; offs: where groups end."""
    rows = ops.arange(a.shape[0])
    group = (rows.expand_dims(-1) >= offs).astype(offs.dtype).sum(-1).expand_dims(-1)
    out = ops.zeros((a.shape[0], b.shape[-1]), a.dtype)
    for index in range(b.shape[0]):
        out = out + ops.where(group == index, ops.matmul(a, b[index]), 0.0)
    return out


def corrcoef(x: Tensor) -> Tensor:
    """torch.corrcoef: correlations of the rows, within -1 and 1."""
    if x.ndim < 2:
        flat = x.reshape(-1)
        spread = flat - flat.mean()
        return (spread * spread).sum() / (spread * spread).sum()
    apart = x - x.mean(-1, keep_dims=True)
    products = ops.matmul(apart, apart.swapaxes(0, 1))
    spread = ops.sqrt(ops.diagonal(products))
    return ops.clamp(products / spread.expand_dims(0) / spread.expand_dims(1), -1.0, 1.0)


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0) -> Tensor:
    """torch.cdist where the dimensions in front are several or differ (ops.cdist takes one)."""
    x1, x2 = x1 + ops.zeros_like(x2[..., :1, :1]), x2 + ops.zeros_like(x1[..., :1, :1])
    found = ops.cdist(x1.reshape((-1, *x1.shape[-2:])), x2.reshape((-1, *x2.shape[-2:])), p)
    return found.reshape((*x1.shape[:-1], x2.shape[-2]))
