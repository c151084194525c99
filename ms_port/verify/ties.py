"""Equal values are sorted in the order in which they stood, as MindSpore sorts them.

``torch.sort`` leaves the order of equal values open, and beyond sixteen elements it is another than MindSpore's. What
a model computes between a sort and its inverse (tokens in the order of their experts) is then permuted, and right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_SORTS = {torch.sort, torch.Tensor.sort, torch.argsort, torch.Tensor.argsort}
_PLACES = ("dim", "descending")


class StableSorts(TorchFunctionMode):
    """Every sort of the block is a stable one, which torch may give at any time."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func not in _SORTS or not args or len(args) > 1 + len(_PLACES):
            return func(*args, **kwargs)
        named = dict(zip(_PLACES, args[1:], strict=False))
        return func(args[0], **{**kwargs, **named, "stable": True})
