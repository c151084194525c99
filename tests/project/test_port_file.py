"""port.json: inputs, outputs, and texts that name files."""

from pathlib import Path

from ms_port.inputs import parse_spec
from ms_port.ir.values import DictValue, Literal, ObjectValue, SequenceValue, TensorValue
from ms_port.project.port_file import _input_rows, output_structure, relocated, source_hashes, versions

IMAGE, LOGITS = TensorValue((2, 3), "float32"), TensorValue((2, 9), "float32")


def test_inputs_are_flattened_and_labelled() -> None:
    value = DictValue((("a", SequenceValue("list", (IMAGE, LOGITS))), ("b", IMAGE)))
    rows = list(_input_rows("x", value, True, (), {"batch": 2}))
    assert [r["name"] for r in rows] == ["x.a.0", "x.a.1", "x.b"]
    assert rows[1] == {
        "name": "x.a.1", "dtype": "float32", "shape": [2, 9], "dims": ["batch", None], "range": None, "keyword": True,
    }  # fmt: skip
    [row] = _input_rows("ids", TensorValue((4,), "int64"), False, [parse_spec("ids:int64[n=4]<7")], {})
    assert (row["dims"], row["range"]) == (["n"], 7)


def test_outputs() -> None:
    output = ObjectValue(
        "Out",
        kind="output",
        fields=(("logits", LOGITS), ("cache", Literal(None)), ("hidden", SequenceValue("tuple", (IMAGE,)))),
    )
    assert output_structure({"eval": output, "train": output}) == {
        "structure": ["float32[2,9]", ["float32[2,3]"]],
        "fields": ["logits", "hidden"],
    }
    both = output_structure({"eval": LOGITS, "train": SequenceValue("tuple", (LOGITS, LOGITS))})
    assert both == {"structure": "float32[2,9]", "fields": None, "structure_train": ["float32[2,9]", "float32[2,9]"]}


def test_files_are_named_from_out(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/net.py").write_text("")
    out = tmp_path / "a/b/out"
    assert relocated("net.py:Net", tmp_path / "src", out) == "../../../src/net.py:Net"
    assert relocated("torch.nn:Linear", tmp_path, out) == "torch.nn:Linear"
    assert relocated("missing.py:x", tmp_path, out) == "missing.py:x"
    hashes = source_hashes([str(tmp_path / "src/net.py"), str(Path(versions.__code__.co_filename))], out)
    assert "../../../src/net.py" in hashes
    assert all(len(h) == 64 for h in hashes.values())
