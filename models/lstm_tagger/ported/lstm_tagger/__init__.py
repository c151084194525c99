"""A bidirectional LSTM that tags every token of a sentence."""

from .model import Tagger, build_model, load_weights

__all__ = ["Tagger", "build_model", "load_weights"]
