"""What torch computes for a sample: in float64 (the truth) and in its own float32, outputs and gradients."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ms_port.verify.double import LOW, double_precision

Array = NDArray[Any]


@dataclass
class Side:
    """One run. A complex leaf is projected by its real and imaginary part."""

    paths: list[str] = field(default_factory=list)
    """Subscripts of the outputs' leaves: ``""``, ``[0][1]``."""
    outputs: list[Any] = field(default_factory=list)
    projections: list[Array | None] = field(default_factory=list)
    inputs: dict[int, Array] = field(default_factory=dict)
    """Gradients by place of the input; only those that torch has."""
    parameters: dict[str, Array] = field(default_factory=dict)
    buffers: dict[str, Array] = field(default_factory=dict)


def evaluate(
    module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], double: bool, gradient: bool, seed: int = 0
) -> Side:
    """Run a copy of the module. Raises whatever torch raises."""
    own = copy.deepcopy(module)
    own = own.double() if double else own
    leaves = [_leaf(t, double, gradient) for t in inputs]
    side = Side()
    torch.manual_seed(seed)
    with double_precision() if double else nullcontext():
        # no leaf: torch refuses writes in place to a leaf that needs a gradient
        output = own(*(t * 1 if t.requires_grad else t for t in leaves))
        found = list(leaves_of(output))
        terms = []
        for path, leaf in found:
            projection = _projection(path, leaf)
            side.paths.append(path)
            side.projections.append(projection)
            side.outputs.append(_numeric(leaf))
            if gradient and projection is not None and leaf.requires_grad:
                real = torch.view_as_real(leaf) if leaf.is_complex() else leaf
                terms.append((real * torch.from_numpy(projection).to(real.dtype)).sum())
        if terms:
            torch.autograd.backward(sum(terms[1:], terms[0]))
    if terms:
        side.inputs = {i: _numeric(t.grad) for i, t in enumerate(leaves) if t.grad is not None}
        side.parameters = {n: _numeric(p.grad) for n, p in own.named_parameters() if p.grad is not None}
    side.buffers = {n: _numeric(b) for n, b in own.named_buffers()}
    return side


def _leaf(tensor: torch.Tensor, double: bool, gradient: bool) -> torch.Tensor:
    own = tensor.double() if double and tensor.dtype in LOW else tensor.clone()
    own = own.to(torch.complex128) if double and own.dtype == torch.complex64 else own
    return own.requires_grad_(gradient and own.is_floating_point())


def leaves_of(item: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Tensors and plain values of an output in order; None is nothing."""
    if isinstance(item, (tuple, list)) and not isinstance(item, torch.Size):
        for index, part in enumerate(item):
            yield from leaves_of(part, f"{path}[{index}]")
    elif item is not None:
        yield path, tuple(item) if isinstance(item, torch.Size) else item


def _projection(path: str, leaf: object) -> Array | None:
    if not isinstance(leaf, torch.Tensor) or not (leaf.is_floating_point() or leaf.is_complex()):
        return None
    shape = (*leaf.shape, 2) if leaf.is_complex() else tuple(leaf.shape)
    rng = np.random.default_rng(zlib.crc32(path.encode()))
    return np.asarray(rng.standard_normal(shape).astype(np.float32))


def _numeric(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    plain = leaf.detach().resolve_conj().resolve_neg()
    return (plain.float() if plain.dtype is torch.bfloat16 else plain).numpy().copy()
