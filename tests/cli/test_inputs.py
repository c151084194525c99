"""--input and --static: parsing, and the tensors made from them."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ms_port.errors import BadInput
from ms_port.inputs import DTYPES, Dim, InputSpec, example_tensors, parse_spec, parse_specs, parse_static


def test_spec() -> None:
    spec = parse_spec("input_ids : int64[batch=8, 128]<30522")
    assert spec == InputSpec("input_ids", "int64", (Dim(8, "batch"), Dim(128)), 30522)
    assert str(spec) == "input_ids:int64[batch=8,128]<30522"
    assert parse_spec("s:float32[]").shape == ()


names = st.from_regex(re.compile(r"[A-Za-z_]\w{0,8}", re.ASCII), fullmatch=True)
labels = st.none() | names
specs = st.builds(
    InputSpec,
    names,
    st.sampled_from([d for d in DTYPES if "int" not in d]),
    st.lists(st.builds(Dim, st.integers(1, 7), labels), max_size=4).map(tuple),
)


@given(specs)
def test_text_and_back(spec: InputSpec) -> None:
    assert parse_spec(str(spec)) == spec


@given(specs, st.integers(0, 2**31))
def test_tensors_fit_their_spec_and_are_seeded(spec: InputSpec, seed: int) -> None:
    first = example_tensors([spec], seed)[spec.name]
    assert tuple(first.shape) == spec.shape
    assert first.dtype == getattr(torch, spec.dtype)
    assert torch.equal(first, example_tensors([spec, InputSpec("other", "float32", ())], seed)[spec.name])


@given(st.integers(1, 5), st.integers(2, 9), st.integers(0, 99))
def test_masks_are_mixed(rows: int, length: int, seed: int) -> None:
    for dtype, limit in (("int64", 2), ("bool", None)):
        mask = example_tensors([InputSpec("m", dtype, (Dim(rows), Dim(length)), limit)], seed)["m"].long()
        assert mask[:, 0].all()
        assert not mask.all()
        assert (mask.diff(dim=1) <= 0).all()
        if dtype == "bool":
            assert (mask.sum(1) < length).all()


def test_integers_stay_in_range() -> None:
    values = example_tensors([parse_spec("ids:int32[50,40]<7")])["ids"]
    assert values.dtype == torch.int32
    assert set(values.flatten().tolist()) == set(range(7))
    assert example_tensors([parse_spec("ids:int64[4,9]")])["ids"].max() <= 1


def test_static_changes_labelled_dims() -> None:
    found = parse_specs(["x:float32[batch=2,3,size=8,size=8]", "m:int64[batch=2]<2"], {"batch": 5, "size": 16})
    assert [s.shape for s in found] == [(5, 3, 16, 16), (5,)]


BAD = [
    (["x"], "not an input specification"),
    (["x:float32"], "not an input specification"),
    (["x:floaty[2]"], "'floaty' is not a dtype"),
    (["x:float32[2,b]"], "'b' is not a dimension"),
    (["x:float32[-1]"], "'-1' is not a dimension"),
    (["x:float32[2]<5"], "a range ('<5') is for integers"),
    (["x:int64[2]<0"], "holds no integer"),
    (["x:float32[2]", "x:float32[3]"], "given twice"),
    (["x:float32[b=2]", "y:float32[b=3]"], "'b' is 2 in one input and 3 in another"),
]


@pytest.mark.parametrize(("texts", "what"), BAD)
def test_bad_specs(texts: list[str], what: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_specs(texts)
    assert what in caught.value.what
    assert caught.value.where
    assert caught.value.advice


def test_bad_static() -> None:
    assert parse_static("batch=32, seq=128") == {"batch": 32, "seq": 128}
    assert parse_static(None) == {}
    for text in ("32", "batch", "batch=x", "batch=0"):
        with pytest.raises(BadInput, match="not label=size"):
            parse_static(text)
    with pytest.raises(BadInput, match="labelled 'time'") as caught:
        parse_specs(["x:float32[batch=2]"], {"time": 3})
    assert "batch" in (caught.value.advice or "")
