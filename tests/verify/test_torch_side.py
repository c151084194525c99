"""The torch side: float64 whatever the code asks for, snapshots, replayed draws, and a model left as it was."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ms_port.verify.double import double_precision
from ms_port.verify.draws import Draws
from ms_port.verify.judge import Truth
from ms_port.verify.noise import KINDS, numbers, perturb
from ms_port.verify.torch_side import run, state_of, tensors


class HardCoded(nn.Module):
    """Everything that keeps `model.double()` from being the truth."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.table = torch.randn(4)

    def forward(self, x: Tensor) -> Tensor:
        scale = torch.rsqrt(x.to(torch.float32).pow(2).mean(-1, keepdim=True)).half().float()
        steps = torch.arange(4, dtype=torch.float32) / 7
        return self.fc(x * scale) * torch.ones(4) * self.table + steps.type_as(x) + torch.tensor([1 / 3])


def test_hard_coded_types_are_raised_and_torch_is_left_alone() -> None:
    torch.manual_seed(0)
    model = HardCoded()
    x = torch.randn(3, 4)
    table, weight = model.table, model.fc.weight.detach().clone()
    with state_of(model, double=True), double_precision():
        y = model(x.double())
        z = x.double().numpy()
        scale = 1 / np.sqrt((z**2).mean(-1, keepdims=True))
        want = (z * scale) @ model.fc.weight.detach().numpy().T + model.fc.bias.detach().numpy()
        want = want * table.double().numpy() + np.arange(4) / 7 + 1 / 3
    assert y.dtype == torch.float64
    np.testing.assert_allclose(y.detach().numpy(), want, rtol=0, atol=1e-13)
    assert torch.get_default_dtype() == torch.float32
    assert model.table is table and model.fc.weight.dtype == torch.float32
    assert torch.equal(model.fc.weight, weight)


def test_state_is_given_back_also_after_an_error() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).eval()
    own = {k: v.clone() for k, v in model.state_dict().items()}
    with pytest.raises(ValueError, match="Expected more than 1"), state_of(model, {"0.weight": torch.ones(2, 2)}):  # noqa: PT012
        assert torch.equal(model[0].weight, torch.ones(2, 2))
        model.train()
        model(torch.randn(8, 2))
        model(torch.randn(1, 2))
    assert all(torch.equal(v, own[k]) for k, v in model.state_dict().items())
    assert not model.training and not model[1].training


def test_records_are_snapshots_in_forward_order() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.act = nn.Linear(3, 3), nn.ReLU(inplace=True)

        def forward(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
            y = self.act(self.fc(x))
            return self.act(y - 1), {"y": y}

    torch.manual_seed(1)
    model, x = Net(), torch.randn(5, 3)
    with state_of(model):
        single = run(model, lambda m, double: m(x), ["", "fc", "act"], train=False)
    assert single.order == [("fc", 0), ("act", 0), ("act", 1), ("", 0)]
    before = model.fc(x).detach().numpy()
    np.testing.assert_array_equal(single.values["fc", 0][0], before)  # not what ReLU made of it
    assert len(single.values["", 0]) == 2
    with state_of(model, double=True):
        truth = run(model, lambda m, double: m(x.double()), ["", "fc"], train=False, double=True, single=single)
    leaf = truth.values["fc", 0][0]
    assert isinstance(leaf, Truth) and leaf.values.dtype == np.float32
    assert 0 < leaf.error < 1e-6


class Drawing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop, self.spatial = nn.Dropout(0.4), nn.Dropout2d(0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.spatial(self.drop(x)) * torch.empty(2, 1, 1, 1).bernoulli_(0.7)
        x = x + torch.rand(x.shape) + torch.randn_like(x) + x.new_empty(1).uniform_(-1, 1)
        q = x.flatten(2)
        return self.drop(F.scaled_dot_product_attention(q, q, q, dropout_p=0.2))


def test_draws_are_replayed_in_both_precisions() -> None:
    model, x = Drawing().train(), torch.randn(2, 3, 4, 4)
    records = []
    for double in (False, True, False):
        with state_of(model, double=double):
            y = x.double() if double else x
            records.append(run(model, lambda m, d, y=y: m(y), [], train=True, double=double))
    outputs = [r.outputs[0].double() for r in records]
    assert torch.equal(outputs[0], outputs[2])
    assert (outputs[0] - outputs[1]).abs().max() < 1e-5
    assert not any(r.random for r in records)
    assert [(d.path, d.kind, d.number) for d in records[0].draws.drawn] == [
        ("drop", "dropout", 0),
        ("spatial", "dropout", 0),
        ("", "uniform", 0),
        ("", "uniform", 1),
        ("", "normal", 2),
        ("", "uniform", 3),
        ("", "dropout", 4),
        ("drop", "dropout", 1),
    ]
    assert records[0].draws.drawn[1].shape == (2, 3, 1, 1)


def test_written_out_attention_is_torchs() -> None:
    q, k = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 5, 8)
    mask = torch.rand(5, 5) > 0.3
    mask[:, 0] = True
    for options in ({"is_causal": True}, {"attn_mask": mask}, {"attn_mask": mask.float(), "scale": 0.3}):
        want = F.scaled_dot_product_attention(q, k, k, enable_gqa=True, **options)
        with Draws().replaying(nn.Identity()):
            got = F.scaled_dot_product_attention(q, k, k, enable_gqa=True, dropout_p=1e-9, **options)
        assert (got - want).abs().max() < 1e-5


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("batch_first", [False, True])
def test_dropout_between_recurrent_layers(kind: type[nn.RNNBase], batch_first: bool) -> None:
    layer = kind(3, 5, num_layers=3, bidirectional=True, batch_first=batch_first, dropout=1e-7).train()
    x = torch.randn(2, 4, 3)
    layer.dropout = 0.0
    want = tensors(layer(x))
    layer.dropout = 1e-7  # a step of the draws is larger: nothing is dropped
    record = run(nn.Sequential(layer), lambda m, double: m(x), [], train=True)
    assert not record.random
    shape = (4, 2, 10) if batch_first else (2, 4, 10)
    assert [(d.path, d.kind, d.shape) for d in record.draws.drawn] == 2 * [("0", "dropout", shape)]
    assert all((a - b).abs().max() < 1e-5 for a, b in zip(want, record.outputs, strict=True))


def test_unknown_draws_are_noticed() -> None:
    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[torch.randperm(3)]

    state = torch.get_rng_state()
    record = run(Net(), lambda m, double: m(torch.randn(3)), [], train=False)
    assert record.random
    assert torch.equal(state, torch.get_rng_state())


def test_noise_moves_every_element_and_keeps_the_size() -> None:
    rng = np.random.default_rng(0)
    for shape in ((64,), (32, 64), (8, 4, 3, 3), (1, 1, 48)):
        for array in (np.zeros(shape), np.ones(shape), rng.standard_normal(shape) * 0.02):
            array = array.astype(np.float32)
            moved = perturb("p", array, "parameter", 0)
            assert moved.dtype == np.float32 and (moved != array).all()
            np.testing.assert_array_equal(moved, perturb("p", array, "parameter", 0))
            fan_in = array.size / shape[0]
            assert np.abs(moved - array).max() < (1 if len(shape) == 1 else 1.2 / np.sqrt(fan_in))
    assert (perturb("p", np.full(50, 1e-6, np.float32), "parameter", 0) > 0).all()
    assert (perturb("p", np.ones(50, np.float32), "variance", 0) >= 0.5).all()
    same = np.ones(3, np.float32)
    assert perturb("p", same, "fixed", 0) is same
    assert set(KINDS) == {"parameter", "mean", "variance", "fixed"}
    assert 0 < numbers("a", 0, "uniform", (1000,)).min() and numbers("a", 0, "uniform", (1000,)).max() < 1


def test_tensors_of_any_nesting() -> None:
    a, b, c = torch.zeros(1), torch.zeros(2), torch.zeros(3)
    assert [t.shape[0] for t in tensors({"x": (a, None, [b, 3]), "y": {"z": c}})] == [1, 2, 3]
