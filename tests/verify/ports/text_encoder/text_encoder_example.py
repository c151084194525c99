"""What the port was converted with: the configuration, and example inputs with padding."""

import torch
from text_encoder_source import EncoderConfig, TextEncoder

TINY = EncoderConfig(
    vocab_size=120,
    hidden_size=32,
    num_layers=2,
    num_heads=4,
    intermediate_size=64,
    max_positions=16,
    hidden_act="gelu_tanh",
)


def inputs():
    """Arguments and keyword arguments of forward; the mask is mixed, never all ones."""
    mask = (torch.arange(12)[None] < torch.tensor([[12], [9], [2], [6]])).long()
    torch.manual_seed(3)
    ids = torch.randint(1, TINY.vocab_size, (4, 12)) * mask
    return (ids,), {"attention_mask": mask, "token_type_ids": mask, "output_hidden_states": True}


def build():
    """The model as it was converted."""
    return TextEncoder(TINY)
