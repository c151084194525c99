"""Distances and similarities."""

import math

from mindspore import Tensor, nn, ops


class CosineSimilarity(nn.Cell):
    """torch.nn.CosineSimilarity: each norm is at least eps."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def construct(self, x1: Tensor, x2: Tensor) -> Tensor:
        return (x1 / self.norm(x1) * (x2 / self.norm(x2))).sum(self.dim)

    def norm(self, x: Tensor) -> Tensor:
        """The norm, at least eps; its gradient is that of the plain norm, and zero at zero."""
        square = (x * x).sum(self.dim, keepdims=True)
        norm = ops.where(square > 0, ops.sqrt(ops.where(square > 0, square, ops.ones_like(square))), square)
        return norm + ops.stop_gradient(ops.clamp(norm, self.eps) - norm)


class PairwiseDistance(nn.Cell):
    """torch.nn.PairwiseDistance: the p-norm of x1 - x2 + eps over the last axis."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.p = p
        self.eps = eps
        self.keepdim = keepdim

    def construct(self, x1: Tensor, x2: Tensor) -> Tensor:
        size = ops.abs(x1 - x2 + self.eps)
        if self.p == math.inf:
            return size.max(axis=-1, keepdims=self.keepdim)
        if self.p == 1:
            return size.sum(-1, keepdims=self.keepdim)
        if self.p == 2:
            return ops.sqrt((size * size).sum(-1, keepdims=self.keepdim))
        return ops.pow(ops.pow(size, self.p).sum(-1, keepdims=self.keepdim), 1.0 / self.p)
