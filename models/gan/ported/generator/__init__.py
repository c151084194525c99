"""Noise, (batch, latent), to pictures, (batch, channels, 32, 32), in -1 ... 1."""

from .model import Generator, build_model, load_weights

__all__ = ["Generator", "build_model", "load_weights"]
