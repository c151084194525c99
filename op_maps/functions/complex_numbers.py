"""Complex arithmetic from real and imaginary parts: MindSpore's products of complex tensors have no gradient."""

from __future__ import annotations

from mindspore import Tensor, ops


def complex_mul(x: Tensor, y: Tensor) -> Tensor:
    """The product of two tensors of which at least one is complex."""
    if not ops.is_complex(x):
        return ops.Complex()(x * ops.real(y), x * ops.imag(y))
    if not ops.is_complex(y):
        return ops.Complex()(ops.real(x) * y, ops.imag(x) * y)
    a, b, c, d = ops.real(x), ops.imag(x), ops.real(y), ops.imag(y)
    return ops.Complex()(a * c - b * d, a * d + b * c)


def complex_abs(x: Tensor) -> Tensor:
    """The absolute value, real (ops.abs gives a complex tensor); its gradient at zero is 0."""
    square = ops.square(ops.real(x)) + ops.square(ops.imag(x))
    zero = square == 0
    return ops.where(zero, ops.zeros_like(square), ops.sqrt(ops.where(zero, ops.ones_like(square), square)))


def view_as_complex(x: Tensor) -> Tensor:
    """torch.view_as_complex: the last axis holds real and imaginary part."""
    return ops.Complex()(x[..., 0], x[..., 1])
