"""Limits of number types (a dict keyed by dtype would stop the gradient in GRAPH_MODE)."""

from __future__ import annotations

from collections.abc import Iterator

import mindspore as ms
from mindspore import Parameter, nn


def finfo_min(dtype: ms.Type) -> float:
    """torch.finfo(dtype).min."""
    return -finfo_max(dtype)


def finfo_max(dtype: ms.Type) -> float:
    """torch.finfo(dtype).max."""
    if dtype == ms.float16:
        return 65504.0
    if dtype == ms.bfloat16:
        return 3.3895313892515355e38
    if dtype == ms.float64:
        return 1.7976931348623157e308
    return 3.4028234663852886e38


def finfo_eps(dtype: ms.Type) -> float:
    """torch.finfo(dtype).eps."""
    if dtype == ms.float16:
        return 0.0009765625
    if dtype == ms.bfloat16:
        return 0.0078125
    if dtype == ms.float64:
        return 2.220446049250313e-16
    return 1.1920928955078125e-07


def finfo_tiny(dtype: ms.Type) -> float:
    """torch.finfo(dtype).tiny."""
    if dtype == ms.float16:
        return 6.103515625e-05
    if dtype == ms.float64:
        return 2.2250738585072014e-308
    return 1.1754943508222875e-38


def cast_parameters(cell: nn.Cell, dtype: ms.Type) -> nn.Cell:
    """torch.nn.Module.to(dtype): every parameter and buffer of a float type gets this one."""
    for parameter in cell.get_parameters():
        if parameter.dtype in (ms.float16, ms.bfloat16, ms.float32, ms.float64):
            parameter.set_dtype(dtype)
    return cell


def named_parameters_of(cell: nn.Cell, buffers: tuple[str, ...] = ()) -> Iterator[tuple[str, Parameter]]:
    """torch.nn.Module.named_parameters: without running statistics and buffers (``name`` or ``Class.name``)."""
    statistics = ("moving_mean", "moving_variance", "running_mean", "running_var", "num_batches_tracked")
    left_out = set()
    for _, part in cell.cells_and_names():
        kind = type(part).__name__
        own = ("weight_u", "weight_v") if kind.startswith("SpectralNorm") else ()
        for name, parameter in part.parameters_and_names(expand=False):
            if name in (*statistics, *own, *buffers) or f"{kind}.{name}" in buffers:
                left_out.add(id(parameter))
    return ((name, p) for name, p in cell.parameters_and_names() if id(p) not in left_out)


def parameters_of(cell: nn.Cell, buffers: tuple[str, ...] = ()) -> Iterator[Parameter]:
    """torch.nn.Module.parameters: without running statistics and buffers (``name`` or ``Class.name``)."""
    return (parameter for _, parameter in named_parameters_of(cell, buffers))


def set_requires_grad(cell: nn.Cell, requires_grad: bool, buffers: tuple[str, ...] = ()) -> nn.Cell:
    """torch.nn.Module.requires_grad_: whether the parameters of a cell are trained; buffers never are."""
    for parameter in parameters_of(cell, buffers):
        parameter.requires_grad = requires_grad
    return cell
