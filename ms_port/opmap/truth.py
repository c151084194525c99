"""The torch side of an example: outputs, gradients and state in float64 (the truth) and in torch's own float32."""

from __future__ import annotations

import contextlib
import copy
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Run:
    """What is evaluated: an expression over inputs and, for a layer, ``m``."""

    expression: str
    module: torch.nn.Module | None
    inputs: Mapping[str, torch.Tensor]
    names: Mapping[str, Any]
    fixed: frozenset[str]
    """Float inputs without gradient."""
    gradient: bool
    in_place: bool
    """Whether the expression sets its input (torch.nn.init)."""
    seed: int


@dataclass(frozen=True)
class Side:
    """What came out. Gradients are those of a seeded random projection of all float outputs."""

    paths: list[str]
    """Subscripts of the outputs' leaves: ``""``, ``[0][1]``."""
    outputs: list[Any]
    projections: list[Array | None]
    gradients: dict[str, Array]
    """By input and parameter; empty without a float output that depends on one."""
    state: dict[str, Array]


def evaluate(run: Run, dtype: torch.dtype) -> Side:
    """Evaluate in one precision. Raises whatever torch raises; torch's settings are as before afterwards."""
    module = None if run.module is None else copy.deepcopy(run.module).to(dtype)
    own = {key: _leaf(run, key, tensor, dtype) for key, tensor in run.inputs.items()}
    with contextlib.ExitStack() as stack:
        stack.callback(torch.set_default_dtype, torch.get_default_dtype())
        torch.set_default_dtype(dtype)
        torch.manual_seed(run.seed % 2**31)
        names = {**run.names, **{key: _stand_in(run, tensor) for key, tensor in own.items()}, "m": module}
        leaves = list(_leaves(eval(run.expression, names)))
        projections = [_projection(run, path, leaf) for path, leaf in leaves]
        terms = [
            (leaf.to(dtype) * torch.from_numpy(np.asarray(projection)).to(dtype)).sum()
            for (_, leaf), projection in zip(leaves, projections, strict=True)
            if projection is not None and leaf.requires_grad
        ]
        if terms and run.gradient and not run.in_place:
            torch.autograd.backward(sum(terms[1:], terms[0]))
        else:
            terms = []
    targets = {**own, **({} if module is None else dict(module.named_parameters()))}
    gradients = {
        key: (torch.zeros_like(tensor) if tensor.grad is None else tensor.grad).detach().numpy()
        for key, tensor in targets.items()
        if tensor.requires_grad and terms
    }
    state = {} if module is None else {key: tensor.detach().numpy() for key, tensor in module.state_dict().items()}
    return Side([path for path, _ in leaves], [_numeric(leaf) for _, leaf in leaves], projections, gradients, state)


def _leaf(run: Run, name: str, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """An input in the wanted precision; only float32 is raised."""
    own = tensor.to(dtype) if tensor.dtype is torch.float32 else tensor.clone()
    return own.requires_grad_(run.gradient and own.is_floating_point() and name not in run.fixed)


def _stand_in(run: Run, tensor: torch.Tensor) -> torch.Tensor:
    """What the expression sees: no leaf, since in-place calls on leaves that need a gradient are refused."""
    if run.in_place:
        return tensor.detach()
    return tensor * 1 if tensor.requires_grad else tensor


def _projection(run: Run, path: str, leaf: object) -> Array | None:
    if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
        return None
    rng = np.random.default_rng([run.seed, zlib.crc32(path.encode())])
    return np.asarray(rng.standard_normal(tuple(leaf.shape)).astype(np.float32))


def _numeric(leaf: Any) -> Any:
    return leaf.detach().numpy() if isinstance(leaf, torch.Tensor) and leaf.dtype is not torch.bfloat16 else leaf


def _leaves(item: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(item, (tuple, list)) and not isinstance(item, torch.Size):
        for index, part in enumerate(item):
            yield from _leaves(part, f"{path}[{index}]")
    elif item is not None:
        yield path, tuple(item) if isinstance(item, torch.Size) else item


def perturb(module: torch.nn.Module, seed: int) -> None:
    """Random values for parameters and running statistics: fresh ones hide a dropped bias or gamma."""
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for name, tensor in module.state_dict(keep_vars=True).items():
            if tensor.is_floating_point():
                noise = torch.from_numpy(np.asarray(rng.standard_normal(tuple(tensor.shape)))).to(tensor.dtype)
                # Variances stay positive, and scales of ones stay near one.
                tensor.copy_(noise.abs() + 0.5 if name.endswith("running_var") else tensor + 0.3 * noise)
