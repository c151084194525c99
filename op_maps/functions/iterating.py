"""What itertools and functools do, in loops that GRAPH_MODE unrolls with the gradients of the items."""

from collections.abc import Callable, Sequence
from typing import Any


def product(*pools: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Every choice of one item from each pool, the last pool running fastest."""
    made: list[tuple[Any, ...]] = [()]
    for pool in pools:
        longer = []
        for front in made:
            for item in pool:
                longer.append((*front, item))
        made = longer
    return made


def combinations(items: Sequence[Any], r: int) -> list[tuple[Any, ...]]:
    """Every choice of ``r`` items in their order."""
    chosen: list[tuple[tuple[Any, ...], int]] = [((), 0)]
    for _ in range(r):
        longer = []
        for taken, start in chosen:
            for i in range(start, len(items)):
                longer.append(((*taken, items[i]), i + 1))
        chosen = longer
    return [taken for taken, _ in chosen]


def permutations(items: Sequence[Any], r: int | None = None) -> list[tuple[Any, ...]]:
    """Every ordered choice of ``r`` items (of all, where it is not given)."""
    chosen: list[tuple[tuple[Any, ...], tuple[int, ...]]] = [((), ())]
    for _ in range(len(items) if r is None else r):
        longer = []
        for taken, places in chosen:
            for i in range(len(items)):
                if i not in places:
                    longer.append(((*taken, items[i]), (*places, i)))
        chosen = longer
    return [taken for taken, _ in chosen]


def chain(*pools: Sequence[Any]) -> list[Any]:
    """The items of all pools, one pool after the other."""
    made = []
    for pool in pools:
        for item in pool:
            made.append(item)
    return made


def reduce_items(function: Callable[[Any, Any], Any], items: Sequence[Any]) -> Any:
    """The items taken together by a function of two, from the left."""
    value = items[0]
    for item in items[1:]:
        value = function(value, item)
    return value


def reduce_from(function: Callable[[Any, Any], Any], items: Sequence[Any], first: Any) -> Any:
    """``first`` and the items taken together by a function of two, from the left."""
    value = first
    for item in items:
        value = function(value, item)
    return value
