"""Bad input: one clear message with what, where and what to do; exit code 2; no trace; nothing half-written."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ms_port.cli import run

HERE = Path(__file__).parent
NETS = HERE / "nets.py"
X = ["--input", "x:float32[batch=4,4]"]


class Evil:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch evil-was-here",)


def missing(folder: Path) -> Path:
    return folder / "missing.pt"


def truncated(folder: Path) -> Path:
    torch.save({"first.weight": torch.ones(8, 4)}, folder / "cut.pt")
    whole = (folder / "cut.pt").read_bytes()
    (folder / "cut.pt").write_bytes(whole[: len(whole) // 2])
    return folder / "cut.pt"


def foreign(folder: Path) -> Path:
    (folder / "model.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + b"0" * 100)
    return folder / "model.h5"


def noise(folder: Path) -> Path:
    (folder / "noise.safetensors").write_bytes(b"\xff" * 64)
    return folder / "noise.safetensors"


def pickled_code(folder: Path) -> Path:
    (folder / "evil.pt").write_bytes(pickle.dumps({"w": Evil()}))
    return folder / "evil.pt"


def unfit(folder: Path) -> Path:
    torch.save({"first.weight": torch.ones(9, 4), "other.bias": torch.ones(3)}, folder / "unfit.pt")
    return folder / "unfit.pt"


CHECKPOINTS: list[tuple[Callable[[Path], Path], tuple[str, ...]]] = [
    (missing, ("missing.pt",)),
    (truncated, ("cut.pt",)),
    (foreign, ("model.h5", "TensorFlow")),
    (noise, ("noise.safetensors",)),
    (pickled_code, ("evil.pt",)),
    (unfit, ("first.weight", "[9, 4]", "[8, 4]", "other.bias", "head.weight")),
]


def refused(arguments: list[str], out: Path, capsys: pytest.CaptureFixture[str], *parts: str) -> str:
    """Run, and check the form of the refusal; returns the message."""
    before = sorted(p.name for p in out.parent.iterdir())
    capsys.readouterr()
    code = run(["convert", *arguments, "-o", str(out)])
    captured = capsys.readouterr()
    said = captured.err.partition("error:")[2]
    assert code == 2, captured.err
    assert captured.out == ""
    for part in (*parts, "what to do:"):
        assert part in said
    assert "Traceback" not in captured.err
    assert len(said) < 2500
    assert sorted(p.name for p in out.parent.iterdir()) == before
    return said


TARGETS = [
    (["no_such_module_x:Net", *X], ("there is no module 'no_such_module_x'",)),
    ([f"{HERE / 'nowhere.py'}:Net", *X], ("there is no file",)),
    ([f"{NETS}:Nett", *X], ("has no 'Nett'", "did you mean Net")),
    ([f"{NETS}:number", *X], ("int",)),
    ([f"{NETS}:raising", *X], ("RuntimeError", "no such width", "nets.py:")),
    ([f"{NETS}:not_a_module", *X], ("int",)),
    ([f"{NETS}:Net", "--arg", "depth=3", *X], ("depth",)),
    ([f"{NETS}:Net"], ("no example inputs",)),
    ([f"{NETS}:Net", "--input", "y:float32[4,4]"], ("y", "nets.py:", "x: torch.Tensor")),
    ([f"{NETS}:Net", "--input", "x:float32[4,5]"], ("nets.py:",)),
    ([f"{NETS}:Net", "--input", "x:floaty[4,5]"], ("'floaty' is not a dtype",)),
    ([f"{NETS}:Net", *X, "--static", "time=3"], ("labelled 'time'",)),
    ([f"{NETS}:Net", "--inputs", f"{NETS}:bad_inputs"], ("bad_inputs raised KeyError", "nets.py:")),
    ([f"{NETS}:Net", *X, "--target", "tpu"], ("no target 'tpu'",)),
    ([f"{NETS}:Net", *X, "--name", "a-b"], ("package's name",)),
]


@pytest.mark.parametrize(("arguments", "parts"), TARGETS, ids=lambda v: v[0] if isinstance(v, tuple) else None)
def test_targets_and_inputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], parts: tuple[str, ...]
) -> None:
    refused(arguments, tmp_path / "out", capsys, *parts)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ([f"{NETS}:Words", "--input", "ids:int64[2,64]<50"], ("IndexError", "nets.py:", "<30522")),
        ([f"{NETS}:Net", "--input", "x:int64[4,4]"], ("RuntimeError", "nets.py:", "types")),
    ],
)
def test_what_fails_only_on_real_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], parts: tuple[str, ...]
) -> None:
    refused(arguments, tmp_path / "out", capsys, *parts)


@pytest.mark.parametrize(("make", "parts"), CHECKPOINTS, ids=lambda v: getattr(v, "__name__", None))
def test_checkpoints(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Path], Path],
    parts: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "x" / "out"
    out.parent.mkdir()
    refused([f"{NETS}:Net", *X, "--weights", str(make(tmp_path))], out, capsys, *parts)
    assert not (tmp_path / "evil-was-here").exists()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("torch.relu:\n  function: ops.relu\n  nonsense: 3\n", ("rows.yaml:1", "torch.relu", "nonsense")),
        ("torch.relu: [\n", ("rows.yaml",)),
        ("torch.relu:\n  signature: input\n  expression: '{{ input'\n", ("rows.yaml", "torch.relu")),
    ],
)
def test_bad_op_map(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, parts: tuple[str, ...]) -> None:
    folder = tmp_path / "maps"
    folder.mkdir()
    (folder / "rows.yaml").write_text(text)
    refused([f"{NETS}:Net", *X, "--op-map", str(folder)], tmp_path / "out", capsys, *parts)
    refused([f"{NETS}:Net", *X, "--op-map", str(tmp_path / "none")], tmp_path / "out", capsys, "none")


def test_output_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "thesis.tex").write_text("years of work")
    refused([f"{NETS}:Net", *X], thesis, capsys, "not empty", "thesis")
    assert (thesis / "thesis.tex").read_text() == "years of work"
    (tmp_path / "file").write_text("x")
    refused([f"{NETS}:Net", *X], tmp_path / "file", capsys, "is a file")
    assert run(["convert", f"{NETS}:Net", *X, "-o", "/proc/no/out"]) == 2
    assert "can't write" in capsys.readouterr().err


def test_an_earlier_port_stays_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run(["convert", f"{NETS}:Net", *X, "-o", str(out), "--no-verify"]) == 0
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    for arguments in ([f"{NETS}:raising", *X], [f"{NETS}:Net", *X, "--weights", str(unfit(tmp_path))]):
        refused(arguments, out, capsys)
        assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == before


def test_debug_shows_the_trace_and_json_the_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    assert run(["--debug", "convert", f"{NETS}:raising", *X, "-o", str(tmp_path / "o")]) == 2
    assert "Traceback" in capsys.readouterr().err
    assert run(["convert", f"{NETS}:raising", *X, "-o", str(tmp_path / "o"), "--json"]) == 2
    assert set(json.loads(capsys.readouterr().out)) == {"error", "where", "advice"}


def test_an_internal_error_is_4(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import ms_port.conversion

    def broken(*_: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(ms_port.conversion, "_translate", broken)
    assert run(["convert", f"{NETS}:Net", *X, "-o", str(tmp_path / "o")]) == 4
    said = capsys.readouterr().err
    assert "internal error: ZeroDivisionError: oh" in said
    assert "--debug" in said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ms_port.conversion

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ms_port.conversion, "_translate", interrupted)
    assert run(["convert", f"{NETS}:Net", *X, "-o", str(tmp_path / "o")]) == 130
    assert list(tmp_path.iterdir()) == []


def test_other_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["verify", str(tmp_path)],
        ["verify", str(tmp_path), "--level", "deep"],
        ["weights", "a.pt", "b.safetensors", "--port", str(tmp_path)],
        ["weights", "a.pt", "b.safetensors", "--port", str(tmp_path), "--to", "jax"],
        ["explain", "MSP999"],
        ["ops", "no_such_op_x"],
        ["check-fix", str(tmp_path)],
        ["convert"],
        ["nonsense"],
    ):
        capsys.readouterr()
        assert run(arguments) == 2, arguments
        assert "Traceback" not in capsys.readouterr().err
    assert run(["explain", "msp101"]) == 0
    assert run(["--version"]) == 0
