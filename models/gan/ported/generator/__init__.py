"""A small convolutional GAN for pictures of 32 x 32."""

from .model import Generator, build_model, load_weights

__all__ = ["Generator", "build_model", "load_weights"]
