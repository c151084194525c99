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


def fft_c2c(x: Tensor, dim: tuple[int, ...], normalization: int, forward: bool) -> Tensor:
    """aten._fft_c2c; normalization: 0 none, 1 by the root of the count, 2 by the count."""
    if forward:
        return ops.fftn(x, dim=tuple(dim), norm=("backward", "ortho", "forward")[normalization])
    return ops.ifftn(x, dim=tuple(dim), norm=("forward", "ortho", "backward")[normalization])


def fft_r2c(x: Tensor, dim: tuple[int, ...], normalization: int, onesided: bool) -> Tensor:
    """aten._fft_r2c."""
    norm = ("backward", "ortho", "forward")[normalization]
    return ops.rfftn(x, dim=tuple(dim), norm=norm) if onesided else ops.fftn(x, dim=tuple(dim), norm=norm)


def fft_c2r(x: Tensor, dim: tuple[int, ...], normalization: int, last_dim_size: int) -> Tensor:
    """aten._fft_c2r."""
    sizes = ()
    for axis in dim[:-1]:
        sizes = (*sizes, x.shape[axis])
    norm = ("forward", "ortho", "backward")[normalization]
    return ops.irfftn(x, s=(*sizes, last_dim_size), dim=tuple(dim), norm=norm)
