"""Pictures, (batch, channels, 32, 32), to one score each, (batch,)."""

from .model import Discriminator, build_model, load_weights

__all__ = ["Discriminator", "build_model", "load_weights"]
