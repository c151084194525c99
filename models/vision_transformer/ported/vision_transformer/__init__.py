"""Image classifier; in training it also returns the logits of a head on the mean patch."""

from .model import VisionTransformer, build_model, load_weights

__all__ = ["VisionTransformer", "build_model", "load_weights"]
