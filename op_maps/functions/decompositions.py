"""Factorisations of matrices with their gradients: MindSpore's own kernels have none."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor, nn, ops
from mindspore.scipy import linalg as dense

from .linalg import inverse_of


class Cholesky(nn.Cell):
    """The lower triangle L with ``A = L L^T``, of (..., n, n)."""

    def construct(self, a: Tensor) -> Tensor:
        return ops.cholesky(a)

    def bprop(self, a: Tensor, low: Tensor, slope: Tensor) -> tuple[Tensor]:
        eye = ops.eye(a.shape[-1], a.shape[-1], a.dtype)
        inner = ops.tril(ops.matmul(low.swapaxes(-1, -2), slope))
        inner = inner - 0.5 * inner * eye
        inverse = inverse_of(low)
        outer = ops.matmul(ops.matmul(inverse.swapaxes(-1, -2), inner), inverse)
        return (0.5 * (outer + outer.swapaxes(-1, -2)),)


def cholesky(a: Tensor, upper: bool = False) -> Tensor:
    """torch.linalg.cholesky; ``upper``: the transposed factor."""
    low = Cholesky()(a)
    return low.swapaxes(-1, -2) if upper else low


def cholesky_inverse(low: Tensor, upper: bool = False) -> Tensor:
    """torch.cholesky_inverse: the inverse of ``L L^T``. Torch's gradient is not cut to the triangle."""
    half = ops.triu(low) if upper else ops.tril(low)
    inverse = inverse_of(low + ops.stop_gradient(half - low))
    if upper:
        return ops.matmul(inverse, inverse.swapaxes(-1, -2))
    return ops.matmul(inverse.swapaxes(-1, -2), inverse)


def no_errors(a: Tensor) -> Tensor:
    """The ``info`` of torch's ``*_ex`` functions: 0 for each matrix, which MindSpore does not look at."""
    return ops.zeros(a.shape[:-2], dtype=ms.int32)


class TallQr(nn.Cell):
    """Q and R of (..., m, n) where m is at least n."""

    def construct(self, a: Tensor) -> tuple[Tensor, Tensor]:
        return ops.qr(a, "reduced")

    def bprop(self, a: Tensor, factors: tuple[Tensor, Tensor], slopes: tuple[Tensor, Tensor]) -> tuple[Tensor]:
        q, r = factors
        inner = ops.matmul(r, slopes[1].swapaxes(-1, -2)) - ops.matmul(slopes[0].swapaxes(-1, -2), q)
        low = ops.tril(inner)
        both = low + ops.tril(inner, -1).swapaxes(-1, -2)
        return (ops.matmul(slopes[0] + ops.matmul(q, both), inverse_of(r).swapaxes(-1, -2)),)


def qr(a: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """torch.linalg.qr; ``complete`` and ``r`` have no gradient for tall matrices, as in torch."""
    rows, columns = a.shape[-2], a.shape[-1]
    if mode == "r":
        return ops.zeros((0,), dtype=a.dtype), ops.qr(a, "reduced")[1]
    if mode == "complete" and rows > columns:
        return ops.qr(a, "complete")
    if rows >= columns:
        return TallQr()(a)
    first, second = ops.split(a, [rows, columns - rows], axis=-1)
    q, r = TallQr()(first)
    return q, ops.cat((r, ops.matmul(q.swapaxes(-1, -2), second)), axis=-1)


class Eigh(nn.Cell):
    """Eigenvalues (rising) and eigenvectors of symmetric (n, n) matrices."""

    def construct(self, a: Tensor) -> tuple[Tensor, Tensor]:
        return dense.eigh(a)

    def bprop(self, a: Tensor, found: tuple[Tensor, Tensor], slopes: tuple[Tensor, Tensor]) -> tuple[Tensor]:
        values, vectors = found
        size = a.shape[-1]
        eye = ops.eye(size, size, a.dtype)
        apart = values.expand_dims(-2) - values.expand_dims(-1) + eye
        turned = ops.matmul(vectors.swapaxes(-1, -2), slopes[1]) * (1.0 - eye) / apart
        inner = turned + slopes[0].expand_dims(-1) * eye
        return (ops.matmul(ops.matmul(vectors, inner), vectors.swapaxes(-1, -2)),)


def eigh(a: Tensor, uplo: str = "L") -> tuple[Tensor, Tensor]:
    """torch.linalg.eigh: one triangle of a is read. (A sign of each vector is free: it may be the other one.)"""
    half = ops.tril(a) if uplo == "L" else ops.triu(a).swapaxes(-1, -2)
    full = half + ops.tril(half, -1).swapaxes(-1, -2)
    full = a + ops.stop_gradient(full - a)  # torch's gradient is that of a symmetric matrix
    if a.ndim == 2:
        return Eigh()(full)
    values, vectors = [], []
    flat = full.reshape(-1, a.shape[-1], a.shape[-1])
    for index in range(flat.shape[0]):
        value, vector = Eigh()(flat[index])
        values.append(value)
        vectors.append(vector)
    return ops.stack(values).reshape(a.shape[:-1]), ops.stack(vectors).reshape(a.shape)


def svd(a: Tensor, full_matrices: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """torch.linalg.svd: U, S and V^T."""
    s, u, v = ops.svd(a, full_matrices=full_matrices)
    return u, s, v.swapaxes(-1, -2)


class SquareLu(nn.Cell):
    """L and U of a square matrix whose rows are in the order of its pivots."""

    def construct(self, a: Tensor) -> tuple[Tensor, Tensor]:
        _, low, up = dense.lu(a)
        return low, up

    def bprop(self, a: Tensor, factors: tuple[Tensor, Tensor], slopes: tuple[Tensor, Tensor]) -> tuple[Tensor]:
        low, up = factors
        inner = ops.tril(ops.matmul(low.swapaxes(-1, -2), slopes[0]), -1)
        inner = inner + ops.triu(ops.matmul(slopes[1], up.swapaxes(-1, -2)))
        left = ops.matmul(inverse_of(low).swapaxes(-1, -2), inner)
        return (ops.matmul(left, inverse_of(up).swapaxes(-1, -2)),)


def lu_of_matrix(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """P, L and U of (m, n)."""
    rows, columns = a.shape
    wide = ops.stop_gradient(a)
    if rows > columns:  # mindspore.scipy's lu takes no more rows than columns
        wide = ops.cat((wide, ops.zeros((rows, rows - columns), a.dtype)), axis=1)
    order = ops.stop_gradient(dense.lu(wide)[0]).astype(a.dtype)
    turned = ops.matmul(order.swapaxes(0, 1), a)
    if rows == columns:
        low, up = SquareLu()(turned)
    elif rows < columns:
        first, second = ops.split(turned, [rows, columns - rows], axis=1)
        low, part = SquareLu()(first)
        up = ops.cat((part, ops.matmul(inverse_of(low), second)), axis=1)
    else:
        first, second = ops.split(turned, [columns, rows - columns], axis=0)
        part, up = SquareLu()(first)
        low = ops.cat((part, ops.matmul(second, inverse_of(up))), axis=0)
    return order, low, up


def lu(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """torch.linalg.lu: ``A = P L U``."""
    if a.ndim == 2:
        return lu_of_matrix(a)
    rows, columns = a.shape[-2], a.shape[-1]
    flat = a.reshape(-1, rows, columns)
    orders, lows, ups = [], [], []
    for index in range(flat.shape[0]):
        order, low, up = lu_of_matrix(flat[index])
        orders.append(order)
        lows.append(low)
        ups.append(up)
    lead = a.shape[:-2]
    inner = min(rows, columns)
    return (
        ops.stack(orders).reshape((*lead, rows, rows)),
        ops.stack(lows).reshape((*lead, rows, inner)),
        ops.stack(ups).reshape((*lead, inner, columns)),
    )


def lu_factor(a: Tensor) -> tuple[Tensor, Tensor]:
    """torch.linalg.lu_factor: L (without its diagonal of ones) and U in one matrix, and the pivots from 1."""
    rows, columns = a.shape[-2], a.shape[-1]
    order, low, up = lu(a)
    inner = min(rows, columns)
    whole = ops.tril(low, -1)
    if columns > inner:
        whole = ops.cat((whole, ops.zeros((*a.shape[:-1], columns - inner), a.dtype)), axis=-1)
    upper = ops.triu(up)
    if rows > inner:
        upper = ops.cat((upper, ops.zeros((*a.shape[:-2], rows - inner, columns), a.dtype)), axis=-2)
    return whole + upper, pivots_of(order, inner)


def pivots_of(order: Tensor, count: int) -> Tensor:
    """The swaps that make a permutation matrix, counted from 1: row i was swapped with row pivots[i]."""
    wanted = order.argmax(-2).astype(ms.int32)  # which row of A stands in each place
    places = ops.arange(order.shape[-1]).astype(ms.int32)
    current = ops.broadcast_to(places, wanted.shape)
    pivots = []
    for index in range(count):
        target = wanted[..., index : index + 1]
        found = (current == target).astype(ms.int32).argmax(-1).astype(ms.int32).expand_dims(-1)
        held = current[..., index : index + 1]
        current = ops.where(places == index, target, ops.where(places == found, held, current))
        pivots.append(found + 1)
    return ops.cat(pivots, axis=-1)


def order_of(pivots: Tensor, rows: int) -> Tensor:
    """The permutation matrix of a column of swaps, as float32."""
    places = ops.arange(rows).astype(ms.int32)
    current = ops.broadcast_to(places, (*pivots.shape[:-1], rows))
    for index in range(pivots.shape[-1]):
        other = (pivots[..., index : index + 1] - 1).astype(ms.int32)
        held = current[..., index : index + 1]
        taken = ops.where(places == other, current, ops.zeros_like(current)).sum(-1).astype(ms.int32).expand_dims(-1)
        current = ops.where(places == index, taken, ops.where(places == other, held, current))
    return (places.expand_dims(-1) == current.expand_dims(-2)).astype(ms.float32)


def lu_unpack(factors: Tensor, pivots: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """torch.lu_unpack: P, L and U of what lu_factor gave."""
    rows, columns = factors.shape[-2], factors.shape[-1]
    inner = min(rows, columns)
    eye = ops.eye(rows, inner, factors.dtype)
    low = ops.tril(factors[..., :inner], -1) + eye
    return order_of(pivots, rows).astype(factors.dtype), low, ops.triu(factors[..., :inner, :])


def lu_solve(factors: Tensor, pivots: Tensor, b: Tensor, left: bool = True, adjoint: bool = False) -> Tensor:
    """torch.linalg.lu_solve."""
    order, low, up = lu_unpack(factors, pivots)
    inverse = ops.matmul(ops.matmul(inverse_of(up), inverse_of(low)), order.swapaxes(-1, -2))
    if adjoint:
        inverse = inverse.swapaxes(-1, -2)
    return ops.matmul(inverse, b) if left else ops.matmul(b, inverse)


def householder_product(a: Tensor, tau: Tensor) -> Tensor:
    """torch.linalg.householder_product: the first columns of the product of reflections that geqrf gave."""
    rows, columns = a.shape[-2], a.shape[-1]
    q = ops.broadcast_to(ops.eye(rows, rows, a.dtype), (*a.shape[:-2], rows, rows))
    places = ops.arange(rows)
    for index in range(tau.shape[-1]):
        column = a[..., index]
        vector = ops.where(places > index, column, (places == index).astype(a.dtype)).expand_dims(-1)
        scale = tau[..., index].expand_dims(-1).expand_dims(-1)
        q = q - scale * ops.matmul(ops.matmul(q, vector), vector.swapaxes(-1, -2))
    return q[..., :columns]


def matrix_exp(a: Tensor) -> Tensor:
    """torch.linalg.matrix_exp: a series of the matrix halved until it is small, squared as often."""
    size = ops.stop_gradient(ops.abs(a).sum(-2).max(-1)).expand_dims(-1).expand_dims(-1)
    halvings = ops.clamp(ops.ceil(ops.log2(ops.maximum(size, ops.full_like(size, 1e-6)))) + 1.0, 0.0, 16.0)
    small = a * ops.pow(ops.full_like(halvings, 0.5), halvings)
    eye = ops.eye(a.shape[-1], a.shape[-1], a.dtype)
    total = eye + small
    term = small
    for order in range(2, 13):
        term = ops.matmul(term, small) / order
        total = total + term
    for step in range(16):
        total = ops.where(halvings > step, ops.matmul(total, total), total)
    return total
