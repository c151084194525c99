"""Torch layers whose weight a hook or another module computes in each call: they have a class name of their own."""

from __future__ import annotations

from torch import nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import _SpectralNorm, _WeightNorm
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

_WEIGHT = {nn.Linear: "Linear", nn.Conv1d: "Conv1d", nn.Conv2d: "Conv2d", nn.ConvTranspose1d: "ConvTranspose1d"}
_SPECTRAL = {nn.Linear: "Linear", nn.Conv1d: "Conv1d", nn.Conv2d: "Conv2d", nn.ConvTranspose2d: "ConvTranspose2d"}

_AXES = {
    **{(layer, 0): "" for layer in _WEIGHT},
    **{(layer, -1): "_whole" for layer in _WEIGHT},
    (nn.Conv1d, 2): "_by_tap",
}
"""By layer and dimension along which the slices have lengths of their own; the taps are those of the kernel.

``dim=None`` is kept as -1 by torch, which has one length for the whole weight then.
"""


def normed_class(module: nn.Module) -> str | None:
    """``torch.nn.utils.weight_norm.Conv1d`` for a Conv1d under weight_norm; None for other modules."""
    cls = type(module)
    if (hook := _hook(module)) is not None:
        if cls in _WEIGHT and isinstance(hook, WeightNorm) and (axis := _AXES.get((cls, hook.dim))) is not None:
            return f"torch.nn.utils.weight_norm.{_WEIGHT[cls]}{axis}"
        if cls in _SPECTRAL and isinstance(hook, SpectralNorm) and _is_usual(module, hook):
            return f"torch.nn.utils.spectral_norm.{_SPECTRAL[cls]}"
    elif (made := _parametrization(module)) is not None:
        layer = cls.__mro__[1]
        if layer in _WEIGHT and isinstance(made, _WeightNorm) and (axis := _AXES.get((layer, made.dim))) is not None:
            return f"torch.nn.utils.parametrizations.weight_norm.{_WEIGHT[layer]}{axis}"
        if layer in _SPECTRAL and isinstance(made, _SpectralNorm) and _is_usual(module, made):
            return f"torch.nn.utils.parametrizations.spectral_norm.{_SPECTRAL[layer]}"
    return None


def _hook(module: nn.Module) -> object | None:
    """The hook that computes the layer's weight, where it is the only one."""
    hooks = list(module.__dict__.get("_forward_pre_hooks", {}).values())
    only = hooks[0] if len(hooks) == 1 else None
    return only if isinstance(only, WeightNorm | SpectralNorm) and only.name == "weight" else None


def _parametrization(module: nn.Module) -> nn.Module | None:
    """The parametrization of the layer's weight, where it is the only one."""
    if not parametrize.is_parametrized(module):
        return None
    held = module.parametrizations
    assert isinstance(held, nn.ModuleDict)
    made = list(held["weight"].children()) if list(held) == ["weight"] else []
    return made[0] if len(made) == 1 else None


def _is_usual(module: nn.Module, norm: SpectralNorm | _SpectralNorm) -> bool:
    """One power iteration a call, over the axis of the outputs, with torch's eps."""
    axis = 1 if isinstance(module, nn.ConvTranspose2d) else 0
    return norm.n_power_iterations == 1 and norm.eps == 1e-12 and norm.dim == axis
