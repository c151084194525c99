"""einops' rearrange, repeat and reduce: patterns are read while the graph is compiled."""

from __future__ import annotations

import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.ops import constexpr

from .einsum import einsum


def rearrange(x: Tensor | list[Tensor], pattern: str, axes: dict[str, int] | None = None) -> Tensor:
    """einops.rearrange; ``axes`` are the sizes that it takes as keywords."""
    x = ops.stack(x) if isinstance(x, (list, tuple)) else x
    cut, order, _, _, merged = einops_plan(pattern, x.shape, axis_sizes(axes))
    return ops.permute(x.reshape(cut), order).reshape(merged)


def repeat(x: Tensor | list[Tensor], pattern: str, axes: dict[str, int] | None = None) -> Tensor:
    """einops.repeat; ``axes`` are the sizes that it takes as keywords."""
    x = ops.stack(x) if isinstance(x, (list, tuple)) else x
    cut, order, ones, spread, merged = einops_plan(pattern, x.shape, axis_sizes(axes))
    return ops.broadcast_to(ops.permute(x.reshape(cut), order).reshape(ones), spread).reshape(merged)


def reduce(x: Tensor | list[Tensor], pattern: str, reduction: str, axes: dict[str, int] | None = None) -> Tensor:
    """einops.reduce by ``mean``, ``sum``, ``max``, ``min`` or ``prod``."""
    x = ops.stack(x) if isinstance(x, (list, tuple)) else x
    cut, gone, order, merged = einops_reduction(pattern, x.shape, axis_sizes(axes))
    x = x.reshape(cut)
    if len(gone) > 0:
        if reduction == "mean":
            x = ops.mean(x, gone)
        elif reduction == "sum":
            x = ops.sum(x, gone)
        elif reduction == "max":
            x = ops.amax(x, gone)
        elif reduction == "min":
            x = ops.amin(x, gone)
        else:
            for axis in gone[::-1]:
                x = ops.prod(x, axis)
    return ops.permute(x, order).reshape(merged)


def einops_einsum(*operands: Tensor | str) -> Tensor:
    """einops.einsum: names of axes instead of letters, the pattern last."""
    return einsum(einops_letters(operands[-1]), *operands[:-1])


class Rearrange(nn.Cell):
    """einops.layers.torch.Rearrange."""

    def __init__(self, pattern: str, axes: dict[str, int] | None = None) -> None:
        super().__init__()
        self.pattern = pattern
        self.sizes = axis_sizes(axes)

    def construct(self, x: Tensor) -> Tensor:
        cut, order, _, _, merged = einops_plan(self.pattern, x.shape, self.sizes)
        return ops.permute(x.reshape(cut), order).reshape(merged)


class Reduce(nn.Cell):
    """einops.layers.torch.Reduce."""

    def __init__(self, pattern: str, reduction: str, axes: dict[str, int] | None = None) -> None:
        super().__init__()
        self.pattern = pattern
        self.reduction = reduction
        self.axes = axes

    def construct(self, x: Tensor) -> Tensor:
        return reduce(x, self.pattern, self.reduction, self.axes)


def pack(tensors: list[Tensor], pattern: str) -> tuple[Tensor, list[tuple[int, ...]]]:
    """einops.pack: the tensors joined along ``*``, and the sizes that it stands for in each."""
    before, after = star_place(pattern)
    joined = []
    shapes = []
    for x in tensors:
        stop = x.ndim - after
        shapes.append(x.shape[before:stop])
        joined.append(x.reshape((*x.shape[:before], -1, *x.shape[stop:])))
    return ops.cat(joined, axis=before), shapes


def unpack(x: Tensor, shapes: list[tuple[int, ...]], pattern: str) -> list[Tensor]:
    """einops.unpack: the tensors that ``pack`` joined."""
    before, _ = star_place(pattern)
    parts = []
    for start, length, inner in packed_places(shapes, x.shape[before]):
        part = x.narrow(before, start, length)
        parts.append(part.reshape((*x.shape[:before], *inner, *x.shape[before + 1 :])))
    return parts


@constexpr
def star_place(pattern: str) -> tuple[int, int]:
    """How many axes stand before and after ``*``."""
    axes = pattern.split()
    return axes.index("*"), len(axes) - axes.index("*") - 1


@constexpr
def packed_places(shapes: list[tuple[int, ...]], whole: int) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
    """Start, length and sizes of each part of an axis of size ``whole``; one size may be -1."""
    lengths = [int(np.prod(shape)) for shape in shapes]  # negative where a size is to be found
    known = sum(length for length in lengths if length >= 0)
    lengths = [length if length >= 0 else whole - known for length in lengths]
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    return tuple(
        (start, length, tuple(int(n) for n in shape))
        for start, length, shape in zip(starts, lengths, shapes, strict=True)
    )


def axis_sizes(axes: dict[str, int] | None) -> tuple[tuple[str, int], ...]:
    """The sizes given, as constants of the graph."""
    sizes = ()
    if axes is not None:
        for name in axes.keys():  # noqa: SIM118
            sizes = (*sizes, (name, axes[name]))
    return sizes


def pattern_groups(side: str, dots: int) -> list[list[str]]:
    """``b (h w) 1`` as [[b], [h, w], []]; the ellipsis stands for ``dots`` axes."""
    groups: list[list[str]] = []
    hidden = [f"...{i}" for i in range(dots)]
    inside = False
    for word in side.replace("(", " ( ").replace(")", " ) ").replace("...", " ... ").split():
        if word in "()":
            inside = word == "("
            groups += [[]] if inside else []
        elif inside:
            groups[-1] += hidden if word == "..." else [] if word == "1" else [word]
        elif word == "...":
            groups += [[name] for name in hidden]
        else:
            groups.append([] if word == "1" else [word])
    return groups


def pattern_sides(pattern: str, rank: int) -> tuple[list[list[str]], list[list[str]]]:
    """Both sides of a pattern for a tensor of this rank."""
    left, right = pattern.split("->")
    dots = rank - len(pattern_groups(left, 0)) if "..." in left else 0
    return pattern_groups(left, dots), pattern_groups(right, dots)


def pattern_sizes(
    groups: list[list[str]], shape: tuple[int, ...], sizes: tuple[tuple[str, int], ...]
) -> dict[str, int]:
    """The size of every axis of the left side."""
    known = dict(sizes)
    for group, size in zip(groups, shape, strict=True):
        open_ = [name for name in group if name not in known]
        rest = int(np.prod([known[name] for name in group if name in known]))
        if open_:
            known[open_[0]] = size // rest
    return known


@constexpr
def einops_plan(pattern: str, shape: tuple[int, ...], sizes: tuple[tuple[str, int], ...]):
    """Shapes and order: cut the axes, permute them, new ones as 1, their sizes, merge."""
    left, right = pattern_sides(pattern, len(shape))
    known = pattern_sizes(left, shape, sizes)
    names = [name for group in left for name in group]
    wanted = [name for group in right for name in group]
    known |= {name: int(name) for name in wanted if name.isdigit()}
    cut = tuple(known[name] for name in names)
    order = tuple(names.index(name) for name in wanted if name in names)
    ones = tuple(known[name] if name in names else 1 for name in wanted)
    spread = tuple(known[name] for name in wanted)
    merged = tuple(int(np.prod([known[name] for name in group])) for group in right)
    return cut, order, ones, spread, merged


@constexpr
def einops_reduction(pattern: str, shape: tuple[int, ...], sizes: tuple[tuple[str, int], ...]):
    """The cut shape, the axes that go, the order of the rest, the merged shape."""
    left, right = pattern_sides(pattern, len(shape))
    known = pattern_sizes(left, shape, sizes)
    names = [name for group in left for name in group]
    wanted = [name for group in right for name in group]
    kept = [name for name in names if name in wanted]
    cut = tuple(known[name] for name in names)
    gone = tuple(i for i, name in enumerate(names) if name not in wanted)
    order = tuple(kept.index(name) for name in wanted)
    return cut, gone, order, tuple(int(np.prod([known[name] for name in group])) for group in right)


@constexpr
def einops_letters(pattern: str) -> str:
    """``b i d, b j d -> b i j`` as ``abc,adc->abd``."""
    letters: dict[str, str] = {}
    sides = []
    for side in pattern.split("->"):
        parts = []
        for operand in side.split(","):
            names = operand.replace("...", " ... ").split()
            parts.append("".join("..." if n == "..." else letters.setdefault(n, chr(97 + len(letters))) for n in names))
        sides.append(",".join(parts))
    return "->".join(sides)
