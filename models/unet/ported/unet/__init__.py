"""Contract `depth` times, expand as often, and classify every pixel."""

from .model import UNet, build_model, load_weights

__all__ = ["UNet", "build_model", "load_weights"]
