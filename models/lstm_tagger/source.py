"""A bidirectional LSTM that tags every token of a sentence."""

from typing import Tuple

import torch
from torch import Tensor, nn


class Tagger(nn.Module):
    """Embed, read in both directions, and score the tags of each token.

    Args:
        vocab: number of token ids; id 0 is padding.
    """

    def __init__(
        self,
        vocab: int,
        num_tags: int = 17,
        dim: int = 48,
        hidden: int = 64,
        num_layers: int = 2,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        self.hidden = hidden
        self.num_directions = 2
        self.embedding = nn.Embedding(vocab, dim, padding_idx=0)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(dim, hidden, num_layers, batch_first=True, bidirectional=True, dropout=dropout)
        self.norm = nn.LayerNorm(hidden * self.num_directions)
        self.tags = nn.Linear(hidden * self.num_directions, num_tags)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for name, parameter in self.lstm.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
            else:
                nn.init.xavier_uniform_(parameter)

    def forward(self, tokens: Tensor) -> Tuple[Tensor, Tensor]:
        """Scores of the tags, (batch, length, tags), and one vector a sentence, (batch, 2 * hidden)."""
        x = self.dropout(self.embedding(tokens))
        x, (h, _) = self.lstm(x)
        x = self.norm(x)
        sentence = torch.cat((h[-2], h[-1]), dim=-1)
        return self.tags(self.dropout(x)), torch.tanh(sentence)
