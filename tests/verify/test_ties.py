"""torch's reference sorts equal values as MindSpore does."""

from __future__ import annotations

import pytest
import torch

from ms_port.verify.ties import StableSorts

KEYS = torch.randint(0, 4, (200,), generator=torch.Generator().manual_seed(0))
UP, DOWN = KEYS.sort(stable=True)[1], KEYS.sort(stable=True, descending=True)[1]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x: torch.sort(x)[1], UP),
        (lambda x: torch.sort(x, 0, True).indices, DOWN),
        (lambda x: torch.sort(x, dim=-1, descending=True, stable=False)[1], DOWN),
        (lambda x: x.sort(0)[1], UP),
        (lambda x: torch.argsort(x), UP),
        (lambda x: x.argsort(-1, descending=True), DOWN),
        (lambda x: torch.argsort(input=x), KEYS.argsort()),
    ],
)
def test_equal_values_keep_their_order(call, expected):
    with StableSorts():
        assert torch.equal(call(KEYS), expected)


def test_torch_alone_does_not_keep_it():
    assert not torch.equal(KEYS.sort()[1], UP), "the mode is no longer needed"
