"""A size that depends on values is flagged; that torch looks at values to refuse some is no such size."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from ms_port.capture import Inputs, record
from ms_port.capture.lift import lift


class Checked(nn.Module):
    """torch reads the values of each of these, and shapes alone make the results' sizes."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        spectrum = torch.stft(x[0], 4, window=torch.ones(4), return_complex=True)
        sound = torch.istft(spectrum, 4, window=torch.ones(4))
        loss = nn.functional.gaussian_nll_loss(x, x + 1, torch.ones_like(x))
        return torch.cov(x), torch.corrcoef(x), sound, loss


class Sized(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.one_hot((x[0] > 0).long()).sum() + torch.nonzero(x).sum()


@pytest.mark.parametrize(("model", "apis"), [(Checked, set()), (Sized, {"one_hot", "nonzero"})])
def test_sizes_that_depend_on_values(model: type[nn.Module], apis: set[str]) -> None:
    program = lift(record(model, Inputs((torch.randn(2, 16),), {})), "net")
    found = {str(flag.op).rpartition(".")[2] for flag in program.flags if flag.rule == "MSP201"}
    assert found == apis
