"""The parts that scripts get, against torch: optimizers step by step, clipping, the scaler, checkpoints, samplers, distributions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from migrating import parts

NAMES = {"SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "clip_grad_norm_", "clip_grad_value_", "GradScaler", "save", "load"} | {
    "DataLoader", "TensorDataset", "DistributedSampler", "Categorical", "NormalDistribution", "MultivariateNormalDistribution", "UniformDistribution", "kl_divergence", "pad_sequence", "as_tensor", "FloatTensor", "ModuleDict", "Normalize", "Resize", "CenterCrop", "ToTensor", "assign", "random_split", "Generator", "WeightedRandomSampler", "pretrained_embedding", "load_state", "AveragedModel", "dense_of", "normal_draw", "strided", "OPTIMIZERS", "SCHEDULERS", "DATASETS", "index_by_numpy", "conv1d_of", "conv2d_of", "conv3d_of", "named_parameters", "named_buffers", "state_of", "SWALR", "update_bn", "set_attribute", "unique", "DoubleLSTMCell", "as_double"
}  # fmt: skip
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adam", {"lr": 0.05, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.05, "amsgrad": True, "betas": (0.5, 0.9)}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.02, "momentum": 0.9, "centered": True, "weight_decay": 0.01}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.1}),
    ("Adadelta", {"lr": 1.0, "weight_decay": 0.01}),
    ("Adamax", {"lr": 0.05}),
    ("NAdam", {"lr": 0.05, "weight_decay": 0.01}),
    ("RAdam", {"lr": 0.05}),
    ("SGD", {"lr": 0.1, "maximize": True}),
]  # fmt: skip


@pytest.fixture(scope="module")
def ours() -> Any:
    pytest.importorskip("mindspore")
    return parts(NAMES)


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=lambda o: o if isinstance(o, str) else "-".join(o))
def test_ten_steps(ours: Any, name: str, options: dict[str, Any]) -> None:
    import mindspore as ms

    rng = np.random.default_rng(0)
    start = [rng.standard_normal(shape).astype(np.float32) for shape in ((3, 2), (4,))]
    real = [torch.nn.Parameter(torch.tensor(a)) for a in start]
    mine = [ms.Parameter(ms.Tensor(a), name=f"p{i}") for i, a in enumerate(start)]
    one = getattr(torch.optim, name)([{"params": real[:1]}, {"params": real[1:], "lr": 0.01}], **options)
    other = getattr(ours, name)([{"params": mine[:1]}, {"params": mine[1:], "lr": 0.01}], **options)
    for step in range(10):
        gradients = [rng.standard_normal(a.shape).astype(np.float32) for a in start]
        for p, g in zip(real, gradients, strict=True):
            p.grad = torch.tensor(g)
        one.step()
        if step == 5:  # the state goes through a file's form and back
            again = getattr(ours, name)([{"params": mine[:1]}, {"params": mine[1:], "lr": 0.01}], **options)
            again.load_state_dict(other.state_dict())
            other = again
        other([ms.Tensor(g) for g in gradients])
        for p, q in zip(real, mine, strict=True):
            np.testing.assert_allclose(q.asnumpy(), p.detach().numpy(), rtol=2e-5, atol=2e-6)


def test_clipping(ours: Any) -> None:
    import mindspore as ms

    grads = [np.array([3.0, -4.0], np.float32), np.array([[12.0]], np.float32)]
    for norm in (1.0, 100.0):
        real = [torch.nn.Parameter(torch.zeros(g.shape)) for g in grads]
        mine = [ms.Parameter(ms.Tensor(np.zeros_like(g)), name=f"q{i}") for i, g in enumerate(grads)]
        for p, q, g in zip(real, mine, grads, strict=True):
            p.grad, q.grad = torch.tensor(g), ms.Tensor(g)
        total = torch.nn.utils.clip_grad_norm_(real, norm)
        assert float(ours.clip_grad_norm_(mine, norm)) == pytest.approx(float(total), rel=1e-5)
        for p, q in zip(real, mine, strict=True):
            np.testing.assert_allclose(q.grad.asnumpy(), p.grad.numpy(), rtol=1e-5)


def test_scaler_skips_a_step_that_overflows(ours: Any) -> None:
    import mindspore as ms

    p = ms.Parameter(ms.Tensor(np.ones(2, np.float32)), name="p")
    optimizer, scaler = ours.SGD([p], lr=1.0), ours.GradScaler("cpu", init_scale=4.0)
    p.grad = ms.Tensor(np.array([np.inf, 1.0], np.float32))
    scaler.step(optimizer)
    scaler.update()
    assert p.asnumpy().tolist() == [1.0, 1.0] and scaler.get_scale() == 2.0
    p.grad = ms.Tensor(np.array([2.0, 2.0], np.float32))
    scaler.step(optimizer)
    scaler.update()
    assert p.asnumpy().tolist() == [0.0, 0.0]
    assert ours.GradScaler().get_scale() == 1.0  # off on CPU, as torch's is without CUDA


def test_checkpoints_keep_their_nesting(ours: Any, tmp_path: Path) -> None:
    import mindspore as ms

    state = {"epoch": 3, "model": {"w": ms.Tensor([1.0, 2.0])}, "list": [ms.Tensor(3), "x"]}
    ours.save(state, tmp_path / "a.pth")
    back = ours.load(tmp_path / "a.pth", map_location="cpu")
    assert back["epoch"] == 3 and back["model"]["w"].asnumpy().tolist() == [1.0, 2.0] and back["list"][1] == "x"
    cell = ms.nn.SequentialCell(ms.nn.Dense(1, 1), ms.nn.ReLU())
    weight = cell[0].weight.asnumpy()
    ours.save(cell, tmp_path / "c.pth")
    cell[0].weight.set_data(ms.Tensor(weight + 1))
    best = ours.load(tmp_path / "c.pth")  # in the process that saved it
    np.testing.assert_array_equal(best[0].weight.asnumpy(), weight)
    np.testing.assert_array_equal(cell[0].weight.asnumpy(), weight + 1)
    ours._Cell.made.clear()  # in another one
    with pytest.raises(NotImplementedError, match="state_dict"):
        ours.load(tmp_path / "c.pth")


@pytest.mark.parametrize("workers", [0, 2])
def test_loader(ours: Any, workers: int) -> None:
    data = [({"x": np.full(2, i, np.float32), "y": i}, [i, float(i)]) for i in range(5)]
    one = list(torch.utils.data.DataLoader(data, 2))  # type: ignore[arg-type]
    other = list(ours.DataLoader(data, 2, num_workers=workers))
    assert len(one) == len(other) == 3
    for a, b in zip(one, other, strict=True):
        assert a[0]["x"].tolist() == b[0]["x"].asnumpy().tolist() and a[0]["y"].tolist() == b[0]["y"].asnumpy().tolist()
        assert str(a[1][1].numpy().dtype) == str(b[1][1].asnumpy().dtype) == "float64"
    assert len(ours.DataLoader(data, 2, drop_last=True)) == 2


def test_distributed_sampler_shares_everything(ours: Any) -> None:
    seen = [list(ours.DistributedSampler(range(7), num_replicas=2, rank=r, shuffle=True)) for r in (0, 1)]
    assert set(seen[0]) | set(seen[1]) == set(range(7)) and len(seen[0]) == len(seen[1]) == 4


def test_a_seeded_split_is_the_same_in_each_run(ours: Any) -> None:
    """Whatever was drawn before: otherwise a later run evaluates on what an earlier one trained with."""
    import mindspore as ms

    found = []
    for seed in (1, 2):
        ms.set_seed(seed)
        generator = ours.Generator().manual_seed(42)
        first, second = ours.random_split(range(20), [15, 5], generator=generator)
        loader = ours.DataLoader(range(6), batch_size=6, shuffle=True, generator=generator)
        epochs = [next(iter(loader)).asnumpy().tolist() for _ in range(2)]
        assert sorted([*first, *second]) == list(range(20)) and epochs[0] != epochs[1]
        found.append((list(first), list(second), epochs))
    assert found[0] == found[1]


def test_weights_of_zero_are_not_drawn(ours: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import mindspore as ms

    draws = np.array([0.0, 0.49, 1 - 2**-24], np.float32)
    monkeypatch.setattr(ms.ops, "rand", lambda *shape: ms.Tensor(draws))
    assert list(ours.WeightedRandomSampler([0.0, 1.0, 0.0, 1.0], 3)) == [1, 1, 3]
    monkeypatch.setattr(ms.ops, "rand", lambda *shape: ms.Tensor(np.ones(shape, np.float32)))
    assert ours.Categorical(ms.Tensor(np.full(3, 1 / 3, np.float32))).sample().asnumpy() == 2  # a sum below 1


def test_distributions(ours: Any) -> None:
    import mindspore as ms

    probs = np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]], np.float32)
    value = np.array([2, 0])
    real, mine = torch.distributions.Categorical(torch.tensor(probs)), ours.Categorical(ms.Tensor(probs))
    np.testing.assert_allclose(
        mine.log_prob(ms.Tensor(value)).asnumpy(), real.log_prob(torch.tensor(value)).numpy(), rtol=1e-5
    )
    np.testing.assert_allclose(mine.entropy().asnumpy(), real.entropy().numpy(), rtol=1e-5)
    assert mine.sample().shape == (2,) and mine.sample((4,)).shape == (4, 2)
    normal = torch.distributions.Normal(1.0, 2.0)
    assert float(ours.NormalDistribution(1.0, 2.0).log_prob(ms.Tensor(0.5))) == pytest.approx(
        float(normal.log_prob(torch.tensor(0.5))), rel=1e-5
    )


def test_more_distributions(ours: Any) -> None:
    import mindspore as ms

    known = torch.distributions
    generator = np.random.RandomState(0)
    loc, value = generator.randn(4, 2).astype(np.float32), generator.randn(4, 2).astype(np.float32)
    covariance = np.array([[2.0, 0.5], [0.5, 1.0]], np.float32)
    pairs = [
        (
            known.MultivariateNormal(torch.tensor(loc), torch.tensor(covariance)),
            ours.MultivariateNormalDistribution(ms.Tensor(loc), ms.Tensor(covariance)),
        ),
        (
            known.MultivariateNormal(torch.tensor(loc[0]), scale_tril=torch.linalg.cholesky(torch.tensor(covariance))),
            ours.MultivariateNormalDistribution(
                ms.Tensor(loc[0]), scale_tril=ms.Tensor(np.linalg.cholesky(covariance).astype(np.float32))
            ),
        ),
        (known.Uniform(-4.0, 4.0), ours.UniformDistribution(-4.0, 4.0)),
    ]
    for real, mine in pairs:
        expected = real.log_prob(torch.tensor(value)).numpy()
        np.testing.assert_allclose(mine.log_prob(ms.Tensor(value)).asnumpy(), expected, rtol=1e-5)
        np.testing.assert_allclose(mine.entropy().asnumpy(), real.entropy().numpy(), rtol=1e-5)
        assert mine.sample((3,)).shape == tuple(real.sample((3,)).shape)
    real = known.kl_divergence(known.Normal(torch.tensor(loc), 2.0), known.Normal(torch.tensor(value), 0.5))
    mine = ours.kl_divergence(
        ours.NormalDistribution(ms.Tensor(loc), 2.0), ours.NormalDistribution(ms.Tensor(value), 0.5)
    )
    np.testing.assert_allclose(mine.asnumpy(), real.numpy(), rtol=1e-5)


def test_pictures(ours: Any) -> None:
    from PIL import Image
    from torchvision import transforms

    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8))
    real = transforms.Compose(
        [
            transforms.Resize(16),
            transforms.CenterCrop(12),
            transforms.ToTensor(),
            transforms.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)),
        ]
    )
    mine = picture
    for step in (
        ours.Resize(16),
        ours.CenterCrop(12),
        ours.ToTensor(),
        ours.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)),
    ):
        mine = step(mine)
    np.testing.assert_allclose(mine.asnumpy(), real(picture).numpy(), rtol=1e-5, atol=1e-6)


def test_small_ones(ours: Any) -> None:
    import mindspore as ms

    rows = [torch.ones(n) for n in (1, 3, 2)]
    wanted = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1.0).numpy()
    assert ours.pad_sequence([ms.Tensor(r.numpy()) for r in rows], True, -1.0).asnumpy().tolist() == wanted.tolist()
    assert ours.FloatTensor(2, 3).shape == (2, 3) and ours.FloatTensor([1, 2]).dtype == ms.float32
    assert ours.as_tensor([1, 2]).dtype == ms.int64 and ours.as_tensor([1.0]).dtype == ms.float32
    x = ms.Tensor(np.zeros(3, np.float32))
    y = x
    ours.assign(x, x + 2)
    assert y.asnumpy().tolist() == [2.0, 2.0, 2.0]


def test_a_pretrained_embedding_refuses_what_it_has_not(ours: Any) -> None:
    import mindspore as ms

    table = ms.Tensor(np.ones((3, 2), np.float32))
    assert not ours.pretrained_embedding(table).embedding_table.requires_grad
    for option in ({"max_norm": 1.0}, {"padding_idx": 0}, {"scale_grad_by_freq": True}, {"sparse": True}):
        with pytest.raises(NotImplementedError, match="MSP602"):
            ours.pretrained_embedding(table, **option)


def test_what_torch_saved(ours: Any, tmp_path: Path) -> None:
    from mindspore import nn

    net = torch.nn.Sequential(torch.nn.Conv1d(3, 4, 2), torch.nn.BatchNorm1d(4), torch.nn.Embedding(5, 2))
    optimizer = torch.optim.Adam(net.parameters())
    for p in net.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    net[1].running_mean += 3
    half = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    held = {
        "state": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 3,
        "t": torch.arange(6).reshape(2, 3).T,
        "half": half,
    }
    torch.save(held, tmp_path / "a.pt")
    found = ours.load(tmp_path / "a.pt", map_location="cpu")
    assert found["epoch"] == 3
    np.testing.assert_array_equal(found["t"].asnumpy(), held["t"].numpy())
    np.testing.assert_array_equal(found["half"].asnumpy(), half.float().numpy())
    port = nn.SequentialCell(nn.Conv1d(3, 4, 2, has_bias=True), nn.BatchNorm1d(4), nn.Embedding(5, 2))
    ours.load_state(port, found["state"])
    np.testing.assert_array_equal(port[0].weight.asnumpy().reshape(4, 3, 2), net[0].weight.detach().numpy())
    np.testing.assert_array_equal(port[1].moving_mean.asnumpy(), net[1].running_mean.numpy())
    np.testing.assert_array_equal(port[2].embedding_table.asnumpy(), net[2].weight.detach().numpy())
    mine = ours.OPTIMIZERS.Adam(list(port.trainable_params()))
    ours.load_state(mine, found["optimizer"])
    np.testing.assert_allclose(mine.state[port[1].gamma]["exp_avg"].asnumpy(), 0.1, rtol=1e-6)
    assert mine.state[port[1].gamma]["step"] == 1
    torch.save(net, tmp_path / "whole.pt")
    with pytest.raises(NotImplementedError, match="state_dict"):
        ours.load(tmp_path / "whole.pt")


def test_averaged_model(ours: Any) -> None:
    import mindspore as ms
    from mindspore import nn

    for fn in (None, lambda mean, new, number: mean * 0.9 + new * 0.1):
        real, port = torch.nn.Linear(2, 2), nn.Dense(2, 2)
        theirs, mine = torch.optim.swa_utils.AveragedModel(real, avg_fn=fn), ours.AveragedModel(port, avg_fn=fn)
        for number in range(3):
            with torch.no_grad():
                real.weight.copy_(torch.arange(4.0).reshape(2, 2) * number + 1)
            port.weight.set_data(ms.Tensor(real.weight.detach().numpy()))
            theirs.update_parameters(real)
            mine.update_parameters(port)
        np.testing.assert_allclose(mine.module.weight.asnumpy(), theirs.module.weight.detach().numpy(), rtol=1e-6)


def test_slices_with_steps(ours: Any) -> None:
    import mindspore as ms

    array = np.arange(96, dtype=np.float32).reshape(2, 3, 4, 4)
    x = ms.Tensor(array)
    for index in (np.s_[:, :, ::2, ::2], np.s_[..., 1::2, :], np.s_[1, ::2], np.s_[::2], np.s_[:, -1, :3:2, 0]):
        np.testing.assert_array_equal(ours.strided(x, index).asnumpy(), array[index])
        gradient = ms.grad(lambda t, index=index: (ours.strided(t, index) * 2).sum())(x).asnumpy()
        wanted = np.zeros_like(array)
        wanted[index] = 2
        np.testing.assert_array_equal(gradient, wanted)


def test_sparse_is_dense(ours: Any) -> None:
    indices, values = [[0, 1, 1, 0], [2, 0, 0, 1]], [3.0, 4.0, 5.0, 6.0]
    for size in ((2, 3), None):
        given = () if size is None else (size,)
        wanted = torch.sparse_coo_tensor(indices, values, *given).to_dense().numpy()
        np.testing.assert_array_equal(ours.dense_of(indices, np.asarray(values, np.float32), *given).asnumpy(), wanted)


def test_indices_are_numpys_integers(ours: Any) -> None:
    import mindspore as ms

    x = ms.Tensor(np.zeros((2, 3), np.float32))
    for place in np.arange(2):
        x[place, np.int64(1)] = 5
        x[np.int32(0)] = 2
    assert x.asnumpy().tolist() == [[2, 2, 2], [0, 5, 0]]
    assert float(x[np.int64(1), np.int32(1)]) == 5


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_convolutions_of_torchs_arguments(ours: Any, axes: int) -> None:
    import mindspore as ms

    x = np.random.default_rng(0).standard_normal((2, 4, *(7,) * axes)).astype(np.float32)
    for options in (
        {"padding": 1, "stride": 2},
        {"padding": tuple(range(axes)), "groups": 2, "bias": False},
        {"padding": "same"},
    ):
        real = getattr(torch.nn, f"Conv{axes}d")(4, 6, 3, **options)
        port = getattr(ours, f"conv{axes}d_of")(4, 6, 3, **options)
        port.weight.set_data(ms.Tensor(real.weight.detach().numpy().reshape(port.weight.shape)))
        if real.bias is not None:
            port.bias.set_data(ms.Tensor(real.bias.detach().numpy()))
        np.testing.assert_allclose(
            port(ms.Tensor(x)).asnumpy(), real(torch.tensor(x)).detach().numpy(), rtol=1e-4, atol=1e-5
        )


def test_parameters_have_the_names_that_torch_gives_them(ours: Any) -> None:
    import mindspore as ms
    from mindspore import nn

    class Own(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.gamma = ms.Parameter(ms.Tensor(np.ones(2, np.float32)))
            self.norm, self.table, self.volume = nn.LayerNorm((2,)), nn.Embedding(3, 2), nn.BatchNorm3d(2)
            self.blocks = nn.CellList([nn.BatchNorm2d(2), nn.Dense(2, 2)])

    class Real(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gamma = torch.nn.Parameter(torch.ones(2))
            self.norm, self.table, self.volume = (
                torch.nn.LayerNorm(2),
                torch.nn.Embedding(3, 2),
                torch.nn.BatchNorm3d(2),
            )
            self.blocks = torch.nn.ModuleList([torch.nn.BatchNorm2d(2), torch.nn.Linear(2, 2)])

    net, real = Own(), Real()
    for given in ({}, {"recurse": False}, {"prefix": "net"}):
        wanted = [name for name, _ in real.named_parameters(**given)]
        assert [name for name, _ in ours.named_parameters(net, **given)] == wanted
    kept = [n for n in real.state_dict() if not n.endswith("num_batches_tracked")]
    assert list(ours.state_of(net)) == kept
    assert sorted(n for n, _ in ours.named_buffers(net)) == sorted(n for n in kept if "running" in n)
    state = {name: ms.Tensor(np.full(v.shape, 7, np.float32)) for name, v in ours.state_of(net).items()}
    ours.load_state(net, state)
    assert all((p.asnumpy() == 7).all() for p in net.get_parameters())


def test_settings_of_layers_that_are_written_later(ours: Any) -> None:
    import mindspore as ms

    batches = [np.random.default_rng(i).standard_normal((5, 3)).astype(np.float32) for i in range(3)]
    real, mine = torch.nn.BatchNorm1d(3), ms.nn.BatchNorm1d(3).set_train()
    real.momentum, real.eps = 0.7, 0.01
    for name, value in (("momentum", 0.7), ("eps", 0.01)):
        ours.set_attribute(mine, name, value)
    for batch in batches:
        np.testing.assert_allclose(mine(ms.Tensor(batch)).asnumpy(), real(torch.tensor(batch)).detach(), atol=1e-5)
    np.testing.assert_allclose(mine.moving_variance.asnumpy(), real.running_var, rtol=1e-5)
    torch.optim.swa_utils.update_bn([torch.tensor(b) for b in batches], real)
    ours.update_bn([ms.Tensor(b) for b in batches], mine)
    np.testing.assert_allclose(mine.moving_mean.asnumpy(), real.running_mean, rtol=1e-5)
    np.testing.assert_allclose(mine.moving_variance.asnumpy(), real.running_var, rtol=1e-5)


def test_swalr(ours: Any) -> None:
    import mindspore as ms

    one = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    other = ours.SGD([ms.Parameter(ms.Tensor(np.zeros(1, np.float32)))], lr=0.5)
    for options in (
        {"swa_lr": 0.1, "anneal_epochs": 3},
        {"swa_lr": 0.2, "anneal_epochs": 0, "anneal_strategy": "linear"},
    ):
        a, b = torch.optim.swa_utils.SWALR(one, **options), ours.SWALR(other, **options)
        for _ in range(5):
            one.step()
            a.step()
            b.step()
            assert b.get_last_lr() == pytest.approx(a.get_last_lr())


def test_unique(ours: Any) -> None:
    import mindspore as ms

    array = np.array([[3, 1], [2, 1], [3, 1]])
    for options in ({}, {"return_counts": True}, {"return_inverse": True, "return_counts": True}, {"dim": 0}):
        wanted, found = torch.unique(torch.tensor(array), **options), ours.unique(ms.Tensor(array), **options)
        wanted, found = (v if isinstance(v, tuple) else (v,) for v in (wanted, found))
        assert [w.tolist() for w in wanted] == [f.asnumpy().tolist() for f in found]


def test_an_lstm_cell_in_float64(ours: Any) -> None:
    import mindspore as ms

    real, mine = torch.nn.LSTMCell(3, 4).double(), ours.as_double(ours.DoubleLSTMCell(3, 4))
    for name, value in real.named_parameters():
        getattr(mine, name).set_data(ms.Tensor(value.detach().numpy()))
    x = np.random.default_rng(0).standard_normal((2, 3))
    wanted = real(torch.tensor(x), real(torch.tensor(x)))
    found = mine(ms.Tensor(x), mine(ms.Tensor(x)))
    for one, other in zip(wanted, found, strict=True):
        assert other.dtype == ms.float64
        np.testing.assert_allclose(other.asnumpy(), one.detach().numpy(), rtol=1e-12)
