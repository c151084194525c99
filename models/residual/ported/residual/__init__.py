"""A residual image classifier made of pre-activated bottleneck blocks."""

from .model import ResidualClassifier, build_model, load_weights

__all__ = ["ResidualClassifier", "build_model", "load_weights"]
