"""A U-Net for segmentation: transposed convolutions on the way up, skip connections across."""

from .model import UNet, build_model, load_weights

__all__ = ["UNet", "build_model", "load_weights"]
