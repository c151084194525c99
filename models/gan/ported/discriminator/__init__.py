"""A small convolutional GAN for pictures of 32 x 32."""

from .model import Discriminator, build_model, load_weights

__all__ = ["Discriminator", "build_model", "load_weights"]
