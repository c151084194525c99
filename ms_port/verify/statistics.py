"""Running statistics that fit the noisy weights: near those of the example batch, so that eval keeps its sizes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from ms_port.verify.judge import Array
from ms_port.verify.noise import perturb

NORMS: Mapping[Callable[..., Any], str] = {F.batch_norm: "training", F.instance_norm: "use_input_stats"}
"""What normalises by running statistics -> its argument that says that it uses those of the batch."""


class FittedStatistics(TorchFunctionMode):
    """Before a normalisation in eval mode runs first, its statistics become those of what it gets, with noise.

    Each is measured behind those that were fitted already: were they all taken from a pass in training mode, what the
    noise adds to one would go on to the next, and after a hundred layers the activations would be a million times what
    they were there, on which no comparison of two float32 programs means anything.
    """

    def __init__(self, names: Mapping[int, str], seed: int) -> None:
        """Args: ``names``: id of a running mean or variance -> its name in the port; ``seed``: of the noise."""
        super().__init__()
        self.names, self.seed = names, seed
        self.fitted: set[int] = set()
        """Ids of what was set."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in NORMS:
            given = _SIGNATURES[func].bind(*args, **kwargs)
            given.apply_defaults()
            values = given.arguments
            if not values[NORMS[func]]:
                self._fit(values["input"], values["running_mean"], values["running_var"])
        return func(*args, **kwargs)

    def _fit(self, x: Tensor, mean: Tensor | None, variance: Tensor | None) -> None:
        if mean is None or variance is None or id(mean) in self.fitted:
            return
        names = self.names.get(id(mean)), self.names.get(id(variance))
        if names[0] is None or names[1] is None or x.dim() < 2 or x.shape[1] != mean.numel():
            return
        channels = x.transpose(0, 1).flatten(1).double()
        spread = channels.var(dim=1, unbiased=False).numpy()
        if not np.isfinite(spread).all() or not spread.any():
            return
        least = 0.05 * float(spread.mean())
        center = _near(names[0], channels.mean(dim=1).numpy(), np.sqrt(np.maximum(spread, least)), self.seed)
        spread = np.maximum(perturb(names[1], spread, "variance", self.seed), least)
        for buffer, value in ((mean, center), (variance, spread)):
            buffer.copy_(torch.from_numpy(value))
            self.fitted.add(id(buffer))


def _near(name: str, means: Array, deviations: Array, seed: int) -> Array:
    """Means with noise that is small beside the deviations."""
    return perturb(name, means / deviations, "mean", seed) * deviations


_SIGNATURES = {function: inspect.signature(function) for function in NORMS}
