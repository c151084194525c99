"""A fresh port starts with torch's values where torch's are no random ones: writes in place while a model is built."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from .port import port


def shift(tensor: Tensor, by: float) -> None:
    tensor.data.add_(by)
    tensor.data.div_(2)


class Written(nn.Module):
    def __init__(self, scale: float = 0.5, depths: tuple[int, ...] = (1, 2)) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.rows = nn.Embedding(3, 4)
        self.shifted = nn.Parameter(torch.zeros(3))
        weight = torch.ones(4)
        weight.mul_(3)
        self.register_buffer("weight", weight)
        rates = [x.tolist() for x in torch.linspace(0, 0.6, sum(depths)).split(depths)]
        self.rates = nn.Parameter(torch.tensor(rates[1]))
        self.halves = nn.Parameter(torch.tensor([x.sum().item() for x in torch.split(torch.ones(5), 2)]))
        self.reset(scale)

    def reset(self, scale: float) -> None:
        with torch.no_grad():
            self.linear.weight.fill_(1.0)
            self.linear.weight.mul_(scale).add_(0.25)
            self.linear.weight.data.clamp_(max=0.7)
            self.rows.weight[0].fill_(2.0)
            self.rows.weight.data[1].zero_()
            nn.init.ones_(self.rows.weight[2])
        self.linear.bias.data.zero_()
        self.linear.bias.data.sub_(1.5)
        shift(self.shifted, 2.0)

    def forward(self, i: Tensor) -> Tensor:
        y = self.linear(self.rows(i)) * self.weight
        return y + self.shifted.sum() + self.rates.sum() * self.halves.mean()


def by_name(module: nn.Module) -> None:
    """As GANs do it: what a layer gets depends on what its class is called."""
    name = module.__class__.__name__
    if name.find("Conv") != -1:
        nn.init.constant_(module.weight, 0.25)
    elif "Linear" in name and name != "LinearUnit":
        nn.init.constant_(module.weight, 2.0)
        fan_in, fan_out = nn.init._calculate_fan_in_and_fan_out(module.weight)
        nn.init.constant_(module.bias, fan_in / fan_out)
    elif name.startswith("BatchNorm"):
        module.weight.data.fill_(3.0)


class Dense(nn.Module):
    """Called as MindSpore calls torch's Linear, which it is not."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((2, 4), 0.125))
        nn.init.constant_(self.weight, 1.0 / nn.init._calculate_correct_fan(self.weight, "fan_in"))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.t()


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ConvTranspose2d(2, 2, 3), nn.BatchNorm2d(2), nn.Flatten())
        self.linear = nn.Linear(18, 4)
        self.dense = Dense()
        self.apply(by_name)
        for layer in (self.layers[0], self.layers[1]):
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.dense(self.linear(self.layers(x)))


class Frozen(nn.Module):
    """A size that torch alone can compute: the number stands in the port, and is said."""

    def __init__(self, n: int = 3) -> None:
        super().__init__()
        self.linear = nn.Linear(4, int(torch.ones(n, 4).nonzero().shape[0]))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


BUILD = """
import sys
import numpy as np
sys.path.insert(0, ".")
from {name} import build_model
np.savez("values.npz", **{{n: p.asnumpy() for n, p in build_model().parameters_dict().items()}})
"""


def test_writes_in_place_give_torchs_values(tmp_path: Path) -> None:
    port(Written, (torch.zeros(2, 3, dtype=torch.long),), tmp_path, "written")
    subprocess.run([sys.executable, "-c", BUILD.format(name="written")], cwd=tmp_path, check=True, timeout=200)
    found = np.load(tmp_path / "values.npz")
    wanted = {n.replace("rows.weight", "rows.embedding_table"): t for n, t in Written().state_dict().items()}
    assert found.files and set(found.files) == set(wanted)
    for name, tensor in wanted.items():
        np.testing.assert_allclose(found[name], tensor.numpy(), rtol=1e-6, err_msg=name)


def test_layers_are_chosen_by_the_names_of_their_classes(tmp_path: Path) -> None:
    made = port(Named, (torch.zeros(2, 1, 3, 3),), tmp_path, "named")
    assert not made.program.flags
    subprocess.run([sys.executable, "-c", BUILD.format(name="named")], cwd=tmp_path, check=True, timeout=200)
    found = np.load(tmp_path / "values.npz")
    renamed = {"layers.2.weight": "gamma", "layers.2.bias": "beta"}
    for name, tensor in Named().named_parameters():
        here = f"layers.2.{renamed[name]}" if name in renamed else name
        np.testing.assert_allclose(found[here], tensor.detach().numpy(), rtol=1e-6, err_msg=name)


def test_a_number_that_only_torch_computes_is_said(tmp_path: Path) -> None:
    made = port(Frozen, (torch.zeros(2, 4),), tmp_path, "frozen")
    [flag] = made.program.flags
    assert (flag.rule, flag.severity) == ("MSP202", "info") and "is 12 in the port" in flag.message
