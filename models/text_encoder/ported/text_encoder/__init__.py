"""Embeddings, encoder layers, pooling and a decoder that shares the word embeddings."""

from .model import EncoderConfig, TextEncoder, build_model, load_weights

__all__ = ["EncoderConfig", "TextEncoder", "build_model", "load_weights"]
