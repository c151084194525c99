"""What has no right form is refused or flagged; fresh layers start where torch's start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from opmap_calls import call, of, text

from ms_port.ir.values import TensorValue
from ms_port.opmap import Call, NoLowering, OpMap

MATRIX, ROWS = of("x", TensorValue((3, 3), "float32")), of("y", TensorValue((3,), "float32"))


def put(dtype: str) -> Call:
    indices = of("[i]", (TensorValue((3,), dtype),))
    return call("torch.ops.aten.index_put", MATRIX, indices, ROWS, of("True", True))


@pytest.mark.parametrize(
    "made",
    [
        put("bool"),
        put("uint8"),
        call("torch.linalg.cholesky_ex", MATRIX, check_errors=of("True", True)),
        call("torch.linalg.inv_ex", MATRIX, check_errors=of("True", True)),
        call("torch.linalg.lu_factor_ex", MATRIX, check_errors=of("True", True)),
        call(
            "torch.nn.functional.avg_pool3d",
            of("x", TensorValue((2, 4, 4, 4), "float32")),
            of("2", 2),
            divisor_override=of("3", 3),
        ),
    ],
)
def test_without_a_form(op_map: OpMap, made: Call) -> None:
    with pytest.raises(NoLowering):
        op_map.lower(made)


def test_sums_by_integers_have_a_form(op_map: OpMap) -> None:
    assert text(op_map.lower(put("int64"))) == "index_put_sum(x, [i], y)"


@pytest.mark.parametrize("name", ["linalg.cholesky_ex", "linalg.inv_ex", "linalg.lu_factor_ex"])
def test_infos_that_are_not_computed_are_flagged(op_map: OpMap, name: str) -> None:
    (note,) = op_map.lower(call(f"torch.{name}", MATRIX)).notes
    assert note.rule == "MSP501" and "info" in note.message


FRESH = """
import numpy as np
from layers import SpectralNormDense
for left_first in (False, True):
    layer = SpectralNormDense(40, 30, left_first=left_first)
    u, v, weight = (p.asnumpy() for p in (layer.weight_u, layer.weight_v, layer.weight_orig))
    assert np.allclose([np.linalg.norm(u), np.linalg.norm(v)], 1, atol=1e-5)
    assert u.dtype == v.dtype == np.float32 and 0.01 < np.abs(layer.bias.asnumpy()).max() <= 40**-0.5
    near = u @ weight @ v / np.linalg.norm(weight, 2)
    assert near > 0.9 if left_first else near < 0.7, near
"""


def test_fresh_spectral_norm_has_unit_vectors(op_map: OpMap, tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text(op_map.function_sources(frozenset({"SpectralNormDense"})))
    done = subprocess.run([sys.executable, "-c", FRESH], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
