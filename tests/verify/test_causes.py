"""Causes from the table, the calls of a module, and the instrumented copy of a port: torch and Python alone."""

from __future__ import annotations

import ast
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ms_port.verify.built import constructions
from ms_port.verify.cause_table import ROWS
from ms_port.verify.causes import _parameters, causes
from ms_port.verify.sites import HELPER, instrument
from ms_port.verify.torch_calls import OUTSIDE, Finished, Watch, frontier, is_source

G = torch.Generator().manual_seed(0)


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=G)


X, W, B = rand(2, 4, 6, 6), rand(4, 4, 3, 3), rand(4)
ROW, SQUARE, POSITIVE = rand(3, 4), rand(4, 4), rand(4).abs() + 0.5
LSTM = nn.LSTM(4, 5)
MASK = torch.tensor([[True, False, True, False]])


def lstm(x: Tensor, order: tuple[int, ...] = (0, 1, 2, 3)) -> Tensor:
    weights = [torch.cat([w.chunk(4)[i] for i in order]) for w in LSTM._flat_weights]
    zeros = torch.zeros(1, x.shape[1], 5)
    return torch._VF.lstm(x, (zeros, zeros), weights, True, 1, 0.0, False, False, False)[0]


def normed(mean: Tensor, variance: Tensor, **more: object) -> Tensor:
    return F.batch_norm(X, mean.clone(), variance.clone(), POSITIVE, B, **more)  # type: ignore[arg-type]


CASES: dict[str, tuple[Callable[[], Tensor], Callable[[], Tensor]]] = {
    "approximate='tanh'": (lambda: F.gelu(ROW), lambda: F.gelu(ROW, approximate="tanh")),
    "eps=1e-07": (lambda: F.layer_norm(0.01 * ROW, (4,)), lambda: F.layer_norm(0.01 * ROW, (4,), eps=1e-7)),
    "dim=0": (lambda: torch.softmax(ROW, -1), lambda: torch.softmax(ROW, 0)),
    "pad_mode 'same'": (
        lambda: F.conv2d(X, W, B, stride=2, padding=1),
        lambda: F.conv2d(F.pad(X, (0, 1, 0, 1)), W, B, stride=2),
    ),
    "stride=1": (lambda: F.max_pool2d(X, 2), lambda: F.max_pool2d(X, 2, stride=1)),
    "count_include_pad": (
        lambda: F.avg_pool2d(X, 3, 1, 1, count_include_pad=False),
        lambda: F.avg_pool2d(X, 3, 1, 1),
    ),
    "without bias": (lambda: F.linear(ROW, SQUARE, B), lambda: F.linear(ROW, SQUARE)),
    "weight transposed": (lambda: F.linear(ROW, SQUARE, B), lambda: F.linear(ROW, SQUARE.T, B)),
    "running_mean and running_var": (lambda: normed(POSITIVE, 2 * POSITIVE), lambda: normed(2 * POSITIVE, POSITIVE)),
    "weight and bias exchanged": (
        lambda: normed(B, POSITIVE),
        lambda: F.batch_norm(X, B.clone(), POSITIVE.clone(), B, POSITIVE),
    ),
    "gates in the order igfo": (lambda: lstm(rand_fixed), lambda: lstm(rand_fixed, (0, 2, 1, 3))),
    "mode='reflect'": (lambda: F.pad(X[0], (1, 1), mode="replicate"), lambda: F.pad(X[0], (1, 1), mode="reflect")),
    "the other side": (lambda: F.pad(X, (1, 0)), lambda: F.pad(X, (0, 1))),
    "align_corners=True": (
        lambda: F.interpolate(X, size=(9, 9), mode="bilinear", align_corners=False),
        lambda: F.interpolate(X, size=(9, 9), mode="bilinear", align_corners=True),
    ),
    "sum instead of mean": (lambda: X.mean(dim=(2, 3)), lambda: X.sum(dim=(2, 3))),
    "unbiased": (lambda: ROW.std(dim=-1), lambda: ROW.std(dim=-1, unbiased=False)),
    "mask inverted": (lambda: ROW.masked_fill(MASK, 0.0), lambda: ROW.masked_fill(~MASK, 0.0)),
    "attn_mask inverted": (
        lambda: F.scaled_dot_product_attention(ROW, ROW, ROW, attn_mask=torch.eye(3, dtype=torch.bool)),
        lambda: F.scaled_dot_product_attention(ROW, ROW, ROW, attn_mask=~torch.eye(3, dtype=torch.bool)),
    ),
    "integer division": (lambda: torch.arange(5) / 2, lambda: torch.arange(5) // 2),
    "difference instead of sum": (lambda: ROW + SQUARE[:3], lambda: ROW - SQUARE[:3]),
    "this step is missing": (lambda: ROW * 0.3, lambda: ROW),
    "reshaped": (lambda: SQUARE[:3].transpose(0, 1), lambda: SQUARE[:3].reshape(4, 3)),
    "cut to integers": (lambda: ROW * 3.0, lambda: (ROW * 3.0).trunc()),
}
rand_fixed = rand(3, 2, 4)


class Calls(nn.Module):
    """Runs one function as its own code."""

    def __init__(self, function: Callable[[], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self) -> Tensor:
        return self.function()


def watched(function: Callable[[], Tensor], change: dict[int, object] | None = None) -> Watch:
    model = Calls(function)
    watch = Watch("", 0, change or {})  # type: ignore[arg-type]
    with suppress(Finished), torch.no_grad(), watch.watching(model):
        model()
    assert watch.done
    return watch


@pytest.mark.parametrize("text", CASES)
def test_the_table_finds_the_cause(text: str) -> None:
    right, wrong = CASES[text]
    want, watch = wrong(), watched(right)
    number = max(watch.output_from)
    for cause in causes(watch.calls[number]):
        try:
            (got,) = watched(right, {number: cause.change}).outputs
        except (RuntimeError, TypeError, ValueError, AttributeError, AssertionError):
            continue
        if got.shape == want.shape and torch.allclose(got.double(), want.double(), atol=1e-5):
            assert text in cause.text
            return
    pytest.fail("no cause fits")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.calls)
def test_rows_name_arguments_of_their_signature(row) -> None:
    names, _ = _parameters(row.signature)
    assert set(row.options) <= set(names) | {"key_padding_mask", "attn_mask"}


def test_calls_with_their_makers_and_the_first_wrong_one() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            y = self.fc(x) * 2
            y += 1
            return y.relu() - x

    net = Net()
    watch = Watch("", 0)
    with suppress(Finished), torch.no_grad(), watch.watching(net):
        net(ROW)
    names = [call.name.rpartition(".")[2] for call in watch.calls]
    assert names == ["fc", "mul", "add_", "relu", "sub"]
    assert watch.calls[0].child == "fc" and watch.calls[0].made_by == (OUTSIDE,)
    assert [call.made_by[0] for call in watch.calls[1:]] == [0, 1, 2, 3]
    assert all(c.place and c.place.file == __file__ for c in watch.calls[1:])
    assert torch.equal(watch.calls[2].args[0], watch.calls[1].results[0])  # before the write
    assert torch.equal(watch.calls[2].results[0], watch.calls[1].results[0] + 1)
    fused = {0: True, 1: False, 2: True, 3: False, 4: False}  # the port has no value for the product alone
    assert frontier(watch.calls, fused, watch.output_from) == 3


def test_where_objects_are_made() -> None:
    def pair(width: int) -> nn.Module:
        return nn.Sequential(nn.Linear(width, 2), nn.GELU())

    with constructions(nn.Module, is_source) as table:
        made = pair(3)
    _, built = table[id(made[0])]
    assert built.file == __file__
    assert built.arguments["in_features"] == 3 and built.arguments["bias"] is True
    assert Path(__file__).read_text().splitlines()[built.line - 1].strip().startswith("return nn.Sequential(nn.Linear")
    assert table[id(made[1])][1].arguments == {"approximate": "none"} and table[id(made[1])][1].plain
    assert nn.Module.__init__.__qualname__ == "Module.__init__"


def test_the_instrumented_copy_has_the_same_lines(tmp_path: Path) -> None:
    ports = Path(__file__).parent / "ports"
    for name, cls in (("vision_transformer", "DropPath"), ("text_encoder", "EncoderLayer"), ("mixed", "Mix")):
        sites = instrument(ports / name, name, cls, tmp_path)
        before = (ports / name / name / "model.py").read_text()
        after = (tmp_path / name / "model.py").read_text()
        assert after.count("\n") == before.count("\n")
        assert ast.dump(ast.parse(unwrapped(after))) == ast.dump(ast.parse(before))
        lines = before.splitlines()
        assert all(site.text.split()[0][:3] in lines[site.place.line - 1] for site in sites if site.text)
        assert any(not site.name for site in sites)
        compile((tmp_path / name / f"{HELPER}.py").read_text(), "sites", "exec")
    assert instrument(ports / "mixed", "mixed", "Missing", tmp_path / "none") == []


def unwrapped(text: str) -> str:
    """The copy without what was put into it."""

    class Unwrap(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.expr:
            self.generic_visit(node)
            own = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == HELPER
            return node.args[0] if own else node

        def visit_Assign(self, node: ast.Assign) -> ast.stmt | None:
            self.generic_visit(node)
            return None if ast.unparse(node.targets[0]) == ast.unparse(node.value) else node

        def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt | None:
            return None if node.names[0].name == HELPER else node

    return ast.unparse(Unwrap().visit(ast.parse(text)))
