"""Stem, stages of bottlenecks, pooled linear head."""

from .model import ResidualClassifier, build_model, load_weights

__all__ = ["ResidualClassifier", "build_model", "load_weights"]
