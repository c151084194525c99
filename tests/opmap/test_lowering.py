"""Binding, choice of overload and form, and how arguments are written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from opmap_calls import X, call, of, text

from ms_port.ir.values import DType, TensorValue
from ms_port.opmap import NoLowering, OpMap

Rows = Callable[..., OpMap]
SOFTMAX = """
own.softmax:
  signature: input, dim, *, dtype=None
  function: ops.softmax
  args: {input: input, axis: dim}
  variants:
    - when: dtype is not none
      expression: "ops.softmax({{ input }}.astype({{ dtype }}), axis={{ dim }})"
  untested: a test's row
"""


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (call("own.softmax", of("x", X), "1"), "ops.softmax(x, 1)"),
        (call("own.softmax", of("x", X), dim="-1"), "ops.softmax(x, axis=-1)"),
        (call("own.softmax", dim="-1", input=of("x", X)), "ops.softmax(input=x, axis=-1)"),
        (call("own.softmax", of("x", X), axis="-1"), "ops.softmax(x, axis=-1)"),
        (call("own.softmax", x=of("x", X), axis="1"), "ops.softmax(input=x, axis=1)"),
        (
            call("own.softmax", of("a + b", X), "1", dtype=of("d", DType("float32"))),
            "ops.softmax((a + b).astype(d), axis=1)",
        ),
        (call("own.softmax", of("x", X), "1", dtype=of("d", None)), "ops.softmax(x, 1)"),
    ],
)
def test_call_styles(rows: Rows, made: object, expected: str) -> None:
    assert text(rows(SOFTMAX).lower(made)) == expected


def test_an_unknown_or_mixed_condition_needs_a_general_form(rows: Rows) -> None:
    op_map = rows(SOFTMAX)
    for dtype in (of("d"), of("d", None, DType("float32"))):
        with pytest.raises(NoLowering, match="not known or differs"):
            op_map.lower(call("own.softmax", of("x", X), "1", dtype=dtype))


def test_general_form_is_taken(rows: Rows) -> None:
    op_map = rows(
        """
own.f:
  signature: a
  general: true
  expression: "f({{ a }})"
  variants: [{when: a == 1, expression: "one()"}]
  untested: a test's row
"""
    )
    assert text(op_map.lower(call("own.f", of("n", 1, 1)))) == "one()"
    assert text(op_map.lower(call("own.f", of("n", 1, 2)))) == "f(n)"
    assert text(op_map.lower(call("own.f", of("n")))) == "f(n)"


OVERLOADS = """
torch.Tensor.own_max:
  overloads:
    - {signature: "", expression: "all_max({{ self }})"}
    - {signature: "dim: int, keepdim=False", expression: "max_of({{ self }}, {{ dim }}, {{ keepdim }})"}
    - {signature: "other: Tensor", function: ops.maximum, args: {input: self, other: other}}
  untested: a test's row
"""


def test_overloads_by_binding_and_type(rows: Rows) -> None:
    op_map, x = rows(OVERLOADS), of("x", X)
    assert text(op_map.lower(call("torch.Tensor.own_max", self=x))) == "all_max(x)"
    assert text(op_map.lower(call("torch.Tensor.own_max", of("d", 1), self=x))) == "max_of(x, d, False)"
    assert text(op_map.lower(call("torch.Tensor.own_max", of("y", X), self=x))) == "ops.maximum(x, y)"
    assert text(op_map.lower(call("torch.Tensor.own_max", dim="-1", self=x))) == "max_of(x, -1, False)"
    with pytest.raises(NoLowering, match="which signature"):
        op_map.lower(call("torch.Tensor.own_max", of("y"), self=x))
    with pytest.raises(NoLowering, match="don't fit"):
        op_map.lower(call("torch.Tensor.own_max", of("s", "text"), self=x))


STAR = """
torch.Tensor.own_view: {signature: "*shape", method: reshape, args: {"*shape": shape}, untested: a test's row}
torch.Tensor.own_tile: {signature: "*sizes", expression: "ops.tile({{ self }}, {{ sizes }})", untested: a test's row}
"""


@pytest.mark.parametrize(
    ("args", "view", "tile"),
    [
        ((of("B", 2), "-1"), "B, -1", "(B, -1)"),
        ((of("n", 2),), "n", "(n,)"),
        ((of("shape", (2, 3)),), "shape", "shape"),
        ((of("*shape", (2, 3)),), "*shape", "shape"),
        ((of("*shape", (2, 3)), "4"), "*shape, 4", "(*shape, 4)"),
        (("(2, 3)",), "(2, 3)", "(2, 3)"),
    ],
)
def test_star_parameters(rows: Rows, args: tuple[object, ...], view: str, tile: str) -> None:
    op_map, x = rows(STAR), of("x", X)
    assert text(op_map.lower(call("torch.Tensor.own_view", *args, self=x))) == f"x.reshape({view})"
    assert text(op_map.lower(call("torch.Tensor.own_tile", *args, self=x))) == f"ops.tile(x, {tile})"


def test_nothing_given_is_dropped_silently(rows: Rows) -> None:
    op_map = rows(
        "own.f: {signature: 'x, out=None, inplace=False', function: ops.f, args: {x: x}, untested: a test's row}"
    )
    assert text(op_map.lower(call("own.f", "x", out="None", inplace="True"))) == "ops.f(x)"
    with pytest.raises(NoLowering, match="'out' has no MindSpore form"):
        op_map.lower(call("own.f", "x", out=of("y", X)))


def test_same_as_moves_the_receiver(rows: Rows) -> None:
    op_map = rows(
        SOFTMAX
        + "torch.Tensor.own_softmax: {same_as: own.softmax}\nown.view: {same_as: torch.Tensor.own_view}\n"
        + STAR
    )
    assert text(op_map.lower(call("torch.Tensor.own_softmax", "-1", self=of("x", X)))) == "ops.softmax(x, -1)"
    assert text(op_map.lower(call("own.view", of("x", X), "2"))) == "x.reshape(2)"


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (call("own.softmax", "x"), "'dim' is missing"),
        (call("own.softmax", "x", "1", "2"), "too many"),
        (call("own.softmax", "x", "1", axes="1"), "no parameter 'axes'"),
        (call("own.softmax", "x", "1", dim="1"), "two values"),
        (call("own.softmax", of("*args", (1, 2))), "starred"),
        (call("own.nothing", "x"), "no row"),
    ],
)
def test_reasons(rows: Rows, made: object, reason: str) -> None:
    with pytest.raises(NoLowering, match=reason):
        rows(SOFTMAX).lower(made)


def test_random_and_notes(rows: Rows) -> None:
    op_map = rows(
        """
own.rand:
  signature: "*size"
  random: Uniform
  expression: "{{ rand }}({{ size }})"
  flag: MSP501
  differs: another stream of numbers
  untested: a test's row
"""
    )
    lowering = op_map.lower(call("own.rand", "2", "3"))
    assert text(lowering) == "__rand__((2, 3))"
    assert lowering.random == "Uniform"
    assert [(note.rule, note.message) for note in lowering.notes] == [("MSP501", "another stream of numbers")]


def test_host_form(rows: Rows) -> None:
    row = 'own.arange: {signature: end, function: ops.arange, host: "np.arange({{ end }}, dtype=np.int64)", untested: a test\'s row}'
    assert text(rows(row).host(call("own.arange", of("n + 1", 5)))) == "np.arange(n + 1, dtype=np.int64)"
    with pytest.raises(NoLowering, match="no numpy form"):
        rows(row).host(call("torch.nn.ReLU"))


def test_runs_that_differ_only_in_shape(op_map: OpMap) -> None:
    """The golden port's conv_norm: kernel sizes differ between runs, the text fits all."""
    made = call(
        "torch.nn.Conv2d",
        "cin",
        "cout",
        of("k", 1, 3, 7),
        stride=of("s", 1, 2, 1),
        padding=of("k // 2", 0, 1, 3),
        bias="False",
    )
    expected = "nn.Conv2d(cin, cout, k, stride=s, pad_mode='pad', padding=k // 2, has_bias=False)"
    assert text(op_map.lower(made)) == expected


def test_tensor_values_show_shape_and_type(rows: Rows) -> None:
    op_map = rows(
        """
own.f:
  signature: x
  function: ops.f
  variants: [{when: x.ndim == 2 and x.is_float, function: ops.g}]
  untested: a test's row
"""
    )
    assert text(op_map.lower(call("own.f", of("x", TensorValue((2, 3), "float32"))))) == "ops.g(x)"
    assert text(op_map.lower(call("own.f", of("x", TensorValue((2, 3), "int64"))))) == "ops.f(x)"
