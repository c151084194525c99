"""The cheap warm-up build: fills wait, and are made up for exactly."""

from __future__ import annotations

import edge
import pytest
import torch
from torch import nn

from ms_port.capture.deferred import deferred_fills


class Values(nn.Module):
    """Looks at its values while it is built."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(3, 3))
        nn.init.orthogonal_(self.weight)
        self.embed = nn.Embedding(5, 3, padding_idx=1)
        with torch.no_grad():
            self.embed.weight[2].mul_(2).add_(1)
        self.norm = float(self.embed.weight.detach().norm())
        self.register_buffer("noise", torch.randn(2))


@pytest.mark.parametrize(
    "factory", [Values, edge.Noisy, edge.Tagger, lambda: nn.Transformer(8, 2, 1, 1, 8, batch_first=True)]
)
def test_made_up_fills_equal_plain_ones(factory):
    torch.manual_seed(1)
    expected = factory()
    state = torch.get_rng_state()
    torch.manual_seed(1)
    with deferred_fills() as fills:
        model = factory()
    fills.make_up()
    assert torch.equal(torch.get_rng_state(), state)
    found = model.state_dict()
    assert all(torch.equal(found[name], value) for name, value in expected.state_dict().items())
    assert getattr(model, "norm", None) == getattr(expected, "norm", None)


def test_fills_of_plain_layers_wait():
    with deferred_fills() as fills:
        nn.Linear(4, 4)
        nn.init.trunc_normal_(torch.empty(3))
    assert len(fills._waiting) == 3
