"""The state of the random generators of torch, numpy and Python."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class RandomState:
    """One snapshot; numpy and CUDA are looked at only where they are in use already."""

    torch_state: torch.Tensor
    cuda_states: tuple[torch.Tensor, ...]
    python_state: Any
    numpy_state: Any

    @classmethod
    def now(cls) -> RandomState:
        """The current state."""
        numpy = sys.modules.get("numpy")
        cuda = tuple(torch.cuda.get_rng_state_all()) if torch.cuda.is_initialized() else ()
        return cls(torch.get_rng_state(), cuda, random.getstate(), numpy.random.get_state() if numpy else None)

    def restore(self) -> None:
        """Go back to this state."""
        torch.set_rng_state(self.torch_state)
        if self.cuda_states:
            torch.cuda.set_rng_state_all(list(self.cuda_states))
        random.setstate(self.python_state)
        if self.numpy_state is not None:
            sys.modules["numpy"].random.set_state(self.numpy_state)
