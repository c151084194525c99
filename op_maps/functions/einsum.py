"""torch.einsum by permutations and matmul (ops.einsum has no CPU kernel; mint.einsum runs in GRAPH_MODE only)."""

from __future__ import annotations

from mindspore import Tensor, ops
from mindspore.ops import constexpr


def einsum(equation: str, *operands: Tensor) -> Tensor:
    """torch.einsum. The equation is read while compiling; the operands are contracted from left to right."""
    ranks: tuple[int, ...] = ()
    for operand in operands:
        ranks = (*ranks, operand.ndim)
    labels, result = einsum_labels(equation, ranks)
    x, have = einsum_diagonal(operands[0], labels[0])
    for i in range(1, len(operands)):
        y, other = einsum_diagonal(operands[i], labels[i])
        x, have = einsum_pair(x, have, y, other, einsum_needed(labels, i + 1, result))
    dropped, order = einsum_order(have, result)
    if len(dropped) > 0:
        x = x.sum(dropped)
    return x.permute(order) if len(order) > 1 else x


def einsum_diagonal(x: Tensor, labels: str) -> tuple[Tensor, str]:
    """The diagonal over each label that stands twice."""
    first, second, rest = einsum_repeated(labels)
    while first >= 0:
        x = ops.diagonal(x, 0, first, second)
        labels = rest
        first, second, rest = einsum_repeated(labels)
    return x, labels


def einsum_pair(x: Tensor, left: str, y: Tensor, right: str, needed: str) -> tuple[Tensor, str]:
    """Contract two operands over the labels that both have and nothing needs afterwards."""
    drop_x, drop_y, order_x, order_y, counts, labels = einsum_plan(left, right, needed)
    if len(drop_x) > 0:
        x = x.sum(drop_x)
    if len(drop_y) > 0:
        y = y.sum(drop_y)
    x = x.permute(order_x) if len(order_x) > 1 else x
    y = y.permute(order_y) if len(order_y) > 1 else y
    batch, own, shared = counts
    size_x, size_y = x.shape, y.shape
    rows, inner, columns = 1, 1, 1
    for size in size_x[batch : batch + own]:
        rows = rows * size
    for size in size_x[batch + own :]:
        inner = inner * size
    for size in size_y[batch + shared :]:
        columns = columns * size
    x = x.reshape((*size_x[:batch], rows, inner))
    y = y.reshape((*size_y[:batch], inner, columns))
    out = x * y if inner == 1 else ops.matmul(x, y)
    return out.reshape(out.shape[:batch] + size_x[batch : batch + own] + size_y[batch + shared :]), labels


@constexpr
def einsum_labels(equation: str, ranks: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    """Labels of each operand and of the result; an ellipsis becomes labels of its own."""
    left, arrow, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    spare = [chr(code) for code in range(0x3B1, 0x3C9)]
    widths = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True) if "..." in term]
    width = max(widths, default=0)
    if not arrow:
        joined = left.replace("...", "").replace(",", "")
        result = "..." + "".join(sorted(label for label in set(joined) if joined.count(label) == 1))
    labels = []
    for term, rank in zip(terms, ranks, strict=True):
        own = rank - len(term.replace("...", ""))
        labels.append(term.replace("...", "".join(spare[width - own : width])))
    return tuple(labels), result.replace("...", "".join(spare[:width]))


@constexpr
def einsum_needed(labels: tuple[str, ...], start: int, result: str) -> str:
    """Labels that later operands or the result use."""
    return result + "".join(labels[start:])


@constexpr
def einsum_repeated(labels: str) -> tuple[int, int, str]:
    """Places of a label that stands twice and the labels after its diagonal was taken; -1 if there is none."""
    for first, label in enumerate(labels):
        second = labels.find(label, first + 1)
        if second > 0:
            return first, second, labels.replace(label, "") + label
    return -1, -1, labels


@constexpr
def einsum_order(have: str, result: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Axes to sum over, then the order of those that remain."""
    rest = [label for label in have if label in result]
    return tuple(i for i, label in enumerate(have) if label not in result), tuple(map(rest.index, result))


@constexpr
def einsum_plan(
    left: str, right: str, needed: str
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, int, int], str]:
    """Axes to sum first, orders (batch, own, shared) and (batch, shared, own), how many of each, labels afterwards."""
    keep_x = [label for label in left if label in right or label in needed]
    keep_y = [label for label in right if label in left or label in needed]
    batch = [label for label in keep_x if label in right and label in needed]
    shared = [label for label in keep_x if label in right and label not in needed]
    own_x = [label for label in keep_x if label not in right]
    own_y = [label for label in keep_y if label not in left]
    return (
        tuple(i for i, label in enumerate(left) if label not in keep_x),
        tuple(i for i, label in enumerate(right) if label not in keep_y),
        tuple(map(keep_x.index, batch + own_x + shared)),
        tuple(map(keep_y.index, batch + shared + own_y)),
        (len(batch), len(own_x), len(shared)),
        "".join(batch + own_x + own_y),
    )
