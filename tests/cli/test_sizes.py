"""A second trace with other sizes shows which lines have a size built in."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from ms_port.capture import CaptureError, Inputs, record
from ms_port.emit import Banner, write_package
from ms_port.inputs import example_tensors, parse_specs, resized
from ms_port.opmap import OpMap
from ms_port.pipeline import Options, translate
from ms_port.sizes import SizeFindings, find_built_in_sizes, labelled_sizes, other_size

SPECS = parse_specs(["x:float32[batch=4,length=10,6]"])


class Expressions(nn.Module):
    """Every size is read from a shape, in the ways of ordinary code."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        mask = torch.ones(n, n).tril()
        y = mask @ self.linear(x)
        y = y.reshape(b * n, c) / n**0.5
        return y.view(b, n, -1)[:, : n // 2].mean(1) + torch.arange(x.size(0)).unsqueeze(1)


class Computed(Expressions):
    """A method of integers computes a number from a size: graph mode has none."""

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) / (x.shape[1] - 1).bit_length()


class Length(Expressions):
    """Runs with one length only."""

    def __init__(self) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.zeros(10, 6))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x + self.position) / (x.shape[0] - 1).bit_length()


class Neither(Length):
    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).reshape(4, 10, 6)


@pytest.fixture(scope="module")
def op_map() -> OpMap:
    return OpMap.load()


def findings(make: Callable[[], nn.Module], folder: Path, op_map: OpMap) -> SizeFindings:
    def text_for(sizes: dict[str, int]) -> str | None:
        try:
            recording = record(make, Inputs((), example_tensors(resized(SPECS, sizes))))
        except CaptureError:
            return None
        write_package(translate(recording, op_map, Options("net")), op_map, folder, Banner("", "", "", "", ""))
        return (folder / "net/model.py").read_text()

    text = text_for({})
    assert text is not None
    return find_built_in_sizes(text, "net/model.py", {}, labelled_sizes(SPECS), text_for)


def test_expressions_hold_for_every_size(tmp_path: Path, op_map: OpMap) -> None:
    assert findings(Expressions, tmp_path, op_map) == SizeFindings(())


def test_a_number_computed_from_a_size_is_flagged(tmp_path: Path, op_map: OpMap) -> None:
    [flag] = findings(Computed, tmp_path, op_map).flags
    assert flag.rule == "MSP204" and flag.open and flag.generated is not None
    assert "`Computed.construct` holds for batch=4, length=10 only: with batch=2, length=5" in flag.message
    assert "/ 3" in flag.message


def test_each_label_alone_where_not_all_can_change(tmp_path: Path, op_map: OpMap) -> None:
    found = findings(Length, tmp_path, op_map)
    assert found.fixed == ("length",)
    [flag] = found.flags
    assert "batch=4 only: with batch=2" in flag.message
    assert findings(Neither, tmp_path, op_map) == SizeFindings((), ("batch", "length"))


def test_other_sizes_keep_multiples() -> None:
    assert [other_size(n) for n in (1, 2, 3, 4, 8, 7, 224)] == [2, 3, 4, 2, 4, 8, 112]
