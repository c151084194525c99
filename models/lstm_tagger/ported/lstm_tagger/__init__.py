"""Embed, read in both directions, and score the tags of each token."""

from .model import Tagger, build_model, load_weights

__all__ = ["Tagger", "build_model", "load_weights"]
