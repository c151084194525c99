"""Torch layers whose weight a hook or another module computes in each call: they have a class name of their own."""

from __future__ import annotations

from torch import nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import _WeightNorm
from torch.nn.utils.weight_norm import WeightNorm

_LAYERS = {nn.Linear: "Linear", nn.Conv1d: "Conv1d", nn.Conv2d: "Conv2d", nn.ConvTranspose1d: "ConvTranspose1d"}
_HOOK = "torch.nn.utils.weight_norm"
_PARAMETRIZATION = "torch.nn.utils.parametrizations.weight_norm"


def normed_class(module: nn.Module) -> str | None:
    """``torch.nn.utils.weight_norm.Conv1d`` for a Conv1d under weight_norm; None for other modules."""
    cls = type(module)
    if (layer := _LAYERS.get(cls)) is not None and is_weight_normed(module):
        return f"{_HOOK}.{layer}"
    if (layer := _LAYERS.get(cls.__mro__[1])) is not None and _is_parametrized(module):
        return f"{_PARAMETRIZATION}.{layer}"
    return None


def is_weight_normed(module: nn.Module) -> bool:
    """Whether the hook of ``torch.nn.utils.weight_norm`` is the only one, with one length for each output."""
    hooks = list(module.__dict__.get("_forward_pre_hooks", {}).values())
    return len(hooks) == 1 and isinstance(hooks[0], WeightNorm) and hooks[0].name == "weight" and hooks[0].dim == 0


def _is_parametrized(module: nn.Module) -> bool:
    if not parametrize.is_parametrized(module):
        return False
    held = module.parametrizations
    assert isinstance(held, nn.ModuleDict)
    if list(held) != ["weight"]:
        return False
    made = list(held["weight"].children())
    return len(made) == 1 and isinstance(made[0], _WeightNorm) and made[0].dim == 0
