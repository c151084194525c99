from .model import build_model, load_weights
