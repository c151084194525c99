"""Padding along ``seq`` is harmless, or the report says what it changes."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from ms_port.inputs import parse_specs
from ms_port.padding import find_padding

IDS, MASK = "ids:int64[batch=4,seq=12]<30", "mask:int64[batch=4,seq=12]<2"


class Encoder(nn.Module):
    """Attention with a mask, and a mean over time with or without it."""

    def __init__(self, mean: str = "") -> None:
        super().__init__()
        self.tokens, self.head, self.mean = nn.Embedding(30, 8), nn.Linear(8, 3), mean

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids)
        x = F.scaled_dot_product_attention(x, x, x, attn_mask=mask[:, None, :].bool())
        if self.mean == "plain":
            x = x.mean(1)
        if self.mean == "masked":
            x = (x * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        return self.head(x)


class Tagger(nn.Module):
    def __init__(self, both: bool, norm: bool = False) -> None:
        super().__init__()
        self.tokens, self.lstm = nn.Embedding(30, 8), nn.LSTM(8, 6, batch_first=True, bidirectional=both)
        self.norm = nn.BatchNorm1d(6) if norm else None

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        out = self.lstm(self.tokens(ids))[0]
        return out if self.norm is None else self.norm(out.swapaxes(1, 2)).swapaxes(1, 2)


def test_masked_models_bear_padding() -> None:
    for mean in ("", "masked"):
        found = find_padding(Encoder(mean), parse_specs([IDS, MASK]))
        assert not found.flags and "does not change" in found.notes[0], found
    assert not find_padding(Tagger(both=False), parse_specs([IDS])).flags


def test_a_mean_without_mask_is_flagged_with_its_line() -> None:
    (flag,) = find_padding(Encoder("plain"), parse_specs([IDS, MASK])).flags
    assert flag.rule == "MSP706" and not flag.open and "`head`" in flag.message
    assert flag.source is not None and flag.source.file == __file__
    line = open(__file__, encoding="utf-8").read().splitlines()[flag.source.line - 1]
    assert "self.head(x)" in line


def test_a_backward_lstm_and_batch_norm_are_flagged() -> None:
    (flag,) = find_padding(Tagger(both=True), parse_specs([IDS])).flags
    assert "`lstm` (LSTM)" in flag.message and "no mask" in flag.message
    (flag,) = find_padding(Tagger(both=False, norm=True), parse_specs([IDS])).flags
    assert "`norm` (BatchNorm1d) counts padded positions" in flag.message


def test_nothing_is_said_where_nothing_is_labelled() -> None:
    found = find_padding(Tagger(both=True), parse_specs(["ids:int64[4,12]<30"]))
    assert found.flags == () and found.notes == ()


@dataclass
class Wrapped:
    scores: torch.Tensor


class Told(nn.Module):
    """The scores in a dataclass, or the best class: nothing in them that can be compared."""

    def __init__(self, wrap: bool) -> None:
        super().__init__()
        self.tokens, self.wrap = nn.Embedding(30, 8), wrap

    def forward(self, ids: torch.Tensor) -> object:
        x = self.tokens(ids).mean(1)
        return Wrapped(x) if self.wrap else x.argmax(-1)


def test_outputs_that_are_not_compared_are_said() -> None:
    for wrap in (False, True):
        found = find_padding(Told(wrap), parse_specs([IDS]))
        assert not found.flags and "not tried: the outputs hold no float tensor" in found.notes[0], found
