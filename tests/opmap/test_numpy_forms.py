"""`host:` forms: what constructors compute with numpy equals what torch computes."""

from __future__ import annotations

import ast

import numpy as np
import pytest
import torch

from ms_port.opmap import Call, OpMap
from ms_port.opmap.translate import Translator, namespace

X = torch.arange(24.0).reshape(2, 3, 4)
COUNT = torch.arange(6)
NAMES = {**namespace(), "x": X, "i": COUNT}

MADE = [
    "torch.zeros(2, 3)",
    "torch.zeros((2,), dtype=torch.int64)",
    "torch.zeros(2, dtype=torch.bool)",
    "torch.ones(2, 3, dtype=torch.float16)",
    "torch.full((2,), 1.5)",
    "torch.full((2,), True)",
    "torch.full((2,), 3)",
    "torch.full((2,), 3, dtype=torch.float32)",
    "torch.arange(5)",
    "torch.arange(5.0)",
    "torch.arange(0, 1, 0.25)",
    "torch.arange(0, 10, 2, dtype=torch.float32)",
    "torch.linspace(0, 1, 5)",
    "torch.eye(3, 4)",
    "torch.eye(2, dtype=torch.bool)",
    "torch.tensor([1, 2])",
    "torch.tensor([1e-5, 2])",
    "torch.tensor(1.5)",
    "torch.tensor([True])",
    "torch.tensor([1, 2], dtype=torch.float32)",
    "torch.triu_indices(3, 4, 1)",
    "torch.tril_indices(3, 3)",
]
COMPUTED = [
    "torch.exp(x)",
    "x.sin()",
    "torch.pow(x, 2)",
    "x.neg()",
    "torch.add(x, x, alpha=2)",
    "torch.div(x, 5, rounding_mode='floor')",
    "x.div(5, rounding_mode='trunc')",
    "torch.clamp(x, 1, 5)",
    "x.clamp(min=2)",
    "x.view(-1, 4)",
    "x.reshape(6, 4)",
    "x.permute(2, 0, 1)",
    "x.transpose(0, 1)",
    "x.unsqueeze(0)",
    "x.flatten()",
    "x.flatten(1)",
    "torch.flatten(x, 1, 2)",
    "torch.cat((x, x), 1)",
    "torch.stack([x, x], dim=-1)",
    "torch.outer(i, i)",
    "x.flip(1)",
    "torch.roll(x, 1, 1)",
    "torch.tril(x)",
    "x.triu(1)",
    "x.sum(-1)",
    "x.mean((0, 1), keepdim=True)",
    "torch.cumsum(x, 1)",
    "x.repeat(2, 1, 1)",
    "x.repeat_interleave(2, dim=1)",
    "torch.stack(torch.meshgrid(i, i, indexing='ij'))",
    "torch.stack(torch.meshgrid([i, i], indexing='xy'))",
    "torch.einsum('i,j->ij', i, i)",
    "torch.where(x > 3, x, 0.0)",
    "x.masked_fill(x > 3, 0.0)",
    "i.float()",
    "x.long()",
    "i.to(torch.float32)",
    "i.to(x)",
    "x.max()",
    "i.expand(1, -1)",
    "i.expand(4, -1)",
    "x.expand(5, -1, -1, 4)",
    "i.unsqueeze(0).expand(3, 6)",
]


class NumpyTranslator(Translator):
    """Writes every call in its numpy form."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        api = self._api(node.func)
        assert api is not None
        args = tuple(self.argument(arg) for arg in node.args)
        keywords = tuple((keyword.arg or "", self.argument(keyword.value)) for keyword in node.keywords)
        receiver = None
        if api.startswith("torch.Tensor."):
            assert isinstance(node.func, ast.Attribute)
            receiver = self.argument(node.func.value)
        return self.op_map.host(Call(api, args, keywords, receiver)).expression


def numpy_of(op_map: OpMap, text: str) -> np.ndarray:
    tree = NumpyTranslator(op_map, NAMES).translate(text)
    return np.asarray(eval(ast.unparse(tree), {"np": np, "x": X.numpy(), "i": COUNT.numpy()}))


@pytest.mark.parametrize("text", MADE)
def test_what_is_made_has_torchs_dtype(op_map: OpMap, text: str) -> None:
    made, truth = numpy_of(op_map, text), eval(text, dict(NAMES)).numpy()
    assert made.dtype == truth.dtype
    np.testing.assert_array_equal(made, truth)


@pytest.mark.parametrize("text", COMPUTED)
def test_what_is_computed_equals(op_map: OpMap, text: str) -> None:
    made, truth = numpy_of(op_map, text), eval(text, dict(NAMES)).numpy()
    assert made.shape == truth.shape
    np.testing.assert_allclose(made.astype(np.float64), truth.astype(np.float64), rtol=1e-6)


def test_a_form_that_would_drop_an_argument_is_refused(op_map: OpMap) -> None:
    from ms_port.opmap import NoLowering

    with pytest.raises(NoLowering):
        numpy_of(op_map, "torch.max(x, 1)")
