"""``out=`` is refused where torch would cast what it writes, or where the value is read in the same expression."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from ms_port.capture import Inputs, record
from ms_port.opmap import OpMap
from ms_port.pipeline import Options, translate


class Cast(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.zeros(3, 4, dtype=torch.float16)
        torch.add(x, 1, out=y)
        return y


class TruthsAsNumbers(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.zeros(3, 4)
        torch.gt(x, 0, out=y)
        return y


class Counted(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.zeros(4)
        torch.arange(4, out=y)
        return x * y


class Within(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = torch.zeros(3, 4)
        return y + 1, torch.add(x, 1, out=y), y


@pytest.mark.parametrize("model", [Cast, TruthsAsNumbers, Counted, Within])
def test_refused(model: type[nn.Module]) -> None:
    program = translate(record(model, Inputs((torch.randn(3, 4),), {})), OpMap.load(), Options("net"))
    assert {"MSP101"} <= {flag.rule for flag in program.flags if flag.open and flag.severity == "error"}
