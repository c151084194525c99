"""OUT: whole at every moment, edits kept, other people's folders left alone."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ms_port.errors import BadInput
from ms_port.project import Edit, Staging

V1 = {"net/model.py": "one\n", "net/fixes.py": "def a():\n    raise NotImplementedError\n", "train.py": "train\n"}


def run(out: Path, files: dict[str, str], report: str = "") -> tuple[Edit, ...]:
    with Staging(out) as stage:
        for name, text in files.items():
            (stage.root / name).parent.mkdir(parents=True, exist_ok=True)
            (stage.root / name).write_text(text)
        (stage.root / "report").mkdir()
        (stage.root / "report/report.json").write_text(report)
        (stage.root / "port.json").write_text("{}")
        edits = stage.keep_edits(files)
        stage.commit()
    out = out.resolve()
    assert [p.name for p in out.parent.iterdir()] == [out.name], "something was left beside OUT"
    return edits


def test_new_and_again(tmp_path: Path) -> None:
    out = tmp_path / "x" / "out"
    assert run(out, V1, "1") == ()
    assert run(out, {**V1, "net/model.py": "two\n"}, "2") == ()
    assert (out / "net/model.py").read_text() == "two\n"
    assert (out / "report/report.json").read_text() == "2"
    assert (out / ".ms_port/base/net/model.py").read_text() == "two\n"


def test_an_empty_folder_is_fine_and_another_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    run(tmp_path / "out", V1)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("x")
    with pytest.raises(BadInput, match="not empty"):
        Staging(other)
    file = tmp_path / "file"
    file.write_text("x")
    for bad in (file, file / "below"):
        with pytest.raises(BadInput):
            Staging(bad)
    assert (other / "thesis.tex").read_text() == "x"


def test_edits_are_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out, V1)
    (out / "net/model.py").write_text("mine\n")
    (out / "train.py").write_text("my train\n")
    new = {**V1, "net/model.py": "two\n"}
    (out / ".ms_port/base/net/model.py").unlink()  # without it nothing can be merged
    assert set(run(out, new)) == {Edit("net/model.py", "kept, new version beside it"), Edit("train.py", "kept")}
    for _ in range(2):  # a further run changes nothing, and the new version stays until it is taken away
        assert (out / "net/model.py").read_text() == "mine\n"
        assert (out / "net/model.py.new").read_text() == "two\n"
        assert (out / "train.py").read_text() == "my train\n"
        assert set(run(out, new)) == {Edit("net/model.py", "kept"), Edit("train.py", "kept")}
    (out / "net/model.py.new").unlink()
    run(out, new)
    assert not (out / "net/model.py.new").exists()
    # Taking the generated version ends the matter.
    (out / "net/model.py").write_text("two\n")
    (out / "train.py").write_text("train\n")
    assert run(out, new) == ()


LINES = {"net/model.py": "".join(f"line {i}\n" for i in range(20))}


def changed(old: str, new: str, text: str = LINES["net/model.py"]) -> str:
    assert old in text
    return text.replace(old, new)


def test_edits_are_merged(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out, LINES)
    model = out / "net/model.py"
    model.write_text(changed("line 3\n", "my line 3\n"))
    new = changed("line 15\n", "new line 15\nand another\n")
    both = changed("line 3\n", "my line 3\n", new)
    assert run(out, {"net/model.py": new}) == (Edit("net/model.py", "merged"),)
    assert model.read_text() == both
    assert run(out, {"net/model.py": new}) == (Edit("net/model.py", "kept"),)
    assert run(out, LINES) == (Edit("net/model.py", "merged"),), "and back: the base is what was generated last"
    assert model.read_text() == changed("line 3\n", "my line 3\n")


def test_a_conflict_is_marked_and_nothing_is_lost(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out, LINES)
    model = out / "net/model.py"
    model.write_text(changed("line 3\n", "my line 3\n"))
    new = {"net/model.py": changed("line 3\n", "new line 3\n")}
    (edit,) = run(out, new)
    assert edit == Edit("net/model.py", "merged", conflicts=1)
    assert edit.described == "merged, 1 conflict marked with <<<<<<<"
    text = model.read_text()
    assert "<<<<<<< yours\nmy line 3\n=======\nnew line 3\n>>>>>>> generated now\n" in text
    assert run(out, new) == (Edit("net/model.py", "kept", conflicts=1),), "open until the person settles it"
    assert model.read_text() == text
    model.write_text(changed("line 3\n", "both\n"))
    assert run(out, new) == (Edit("net/model.py", "kept"),)


def test_diff_shows_what_a_run_would_change(tmp_path: Path) -> None:
    """Not the person's own lines, which stay."""
    out = tmp_path / "out"
    run(out, {**LINES, "old.py": "no longer generated\n"})
    (out / "net/model.py").write_text(changed("line 3\n", "my line 3\n"))

    def diff(files: dict[str, str]) -> list[str]:
        with Staging(out) as stage:
            for name, text in files.items():
                (stage.root / name).parent.mkdir(parents=True, exist_ok=True)
                (stage.root / name).write_text(text)
            stage.keep_edits(files)
            return [x for x in stage.diff(files).splitlines() if x[0] in "+-"]

    same = {**LINES, "old.py": "no longer generated\n"}
    assert diff(same) == []
    assert diff({"net/model.py": changed("line 15", "new 15")}) == [
        "--- now/net/model.py",
        "+++ new/net/model.py",
        "-line 15",
        "+new 15",
        "--- now/old.py",
        "+++ new/old.py",
        "-no longer generated",
    ]
    assert (out / "net/model.py").read_text() == changed("line 3\n", "my line 3\n")


def test_fixes_keep_their_text_and_get_new_stubs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out, V1)
    mine = "import math\n\n\ndef a():\n    return math.pi\n"
    (out / "net/fixes.py").write_text(mine)
    new = '"""Stubs."""\n\nfrom mindspore import ops\n\n\ndef a():\n    raise NotImplementedError\n\n\ndef b(x):\n    """New."""\n    raise NotImplementedError\n'
    assert run(out, {**V1, "net/fixes.py": new}) == (Edit("net/fixes.py", "kept, new stubs added"),)
    text = (out / "net/fixes.py").read_text()
    assert "return math.pi" in text
    assert text.count("def a") == 1
    assert 'def b(x):\n    """New."""' in text
    assert "from mindspore import ops" in text
    compile(text, "fixes.py", "exec")


def test_a_persons_own_files_stay(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out, V1)
    (out / "checkpoints").mkdir()
    (out / "checkpoints/step_1.safetensors").write_bytes(b"x" * 10)
    (out / "notes.txt").write_text("n")
    (out / "empty").mkdir()
    (out / "net/mine.py").write_text("m")
    (out / "link").symlink_to("notes.txt")
    (out / "verify.py").write_text("of an earlier verification")
    run(out, {"other/model.py": "one\n"})
    assert (out / "checkpoints/step_1.safetensors").read_bytes() == b"x" * 10
    assert (out / "link").read_text() == "n"
    assert (out / "net/mine.py").read_text() == "m"
    assert (out / "empty").is_dir()
    assert not (out / "verify.py").exists()
    assert not (out / "net/model.py").exists(), "no longer generated and never changed"
    assert not (out / "train.py").exists()


def test_out_is_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It must stay the same folder, or the person's shell sits in a deleted one."""
    out = tmp_path / "out"
    run(out, V1)
    (out / "train.py").write_text("mine\n")
    (out / "notes.txt").write_text("n")
    monkeypatch.chdir(out)
    inode = out.stat().st_ino
    assert run(Path("."), {"net/model.py": "two\n", "train.py": "train\n"}) == (Edit("train.py", "kept"),)
    assert out.stat().st_ino == inode
    assert {p.name for p in out.iterdir()} == {".ms_port", "net", "notes.txt", "port.json", "report", "train.py"}
    assert (out / "net/model.py").read_text() == "two\n"
    assert (out / "train.py").read_text() == "mine\n"
    assert not (out / "net/fixes.py").exists()


def test_an_edited_file_that_is_no_longer_generated_stays(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out, V1)
    (out / "net/fixes.py").write_text("mine\n")
    assert Edit("net/fixes.py", "kept, no longer generated") in run(out, {"net/model.py": "one\n"})
    assert (out / "net/fixes.py").read_text() == "mine\n"


def half(out: Path, error: type[BaseException]) -> None:
    with Staging(out) as stage:
        (stage.root / "half").write_text("x")
        raise error


def test_an_error_leaves_everything_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out, V1)
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error):
            half(out, error)
    assert (out / "net/model.py").read_text() == "one\n"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_killed_run_leaves_the_earlier_output_whole(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out, V1)
    code = (
        "import sys, time, pathlib; from ms_port.project import Staging\n"
        f"stage = Staging(pathlib.Path({str(out)!r}))\n"
        "(stage.root / 'half').write_text('x'); print('ready', flush=True); time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    assert child.stdout is not None
    child.stdout.readline()
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    time.sleep(0.1)
    assert (out / "net/model.py").read_text() == "one\n"
    assert len(list(tmp_path.iterdir())) == 2
    run(out, V1)  # asserts that the killed run's folder is gone
    # Killed between the two renames of systems that can't exchange folders: the earlier port is put back.
    out.rename(tmp_path / f".ms-port-out-{child.pid}-earlier")
    with Staging(out) as stage:
        assert stage.again
    assert (out / "net/model.py").read_text() == "one\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_unwritable_parent(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(BadInput, match="can't write"):
            Staging(tmp_path / "out")
    finally:
        tmp_path.chmod(0o700)


def test_unwritable_place() -> None:
    with pytest.raises(BadInput, match="can't write"):
        Staging(Path("/proc/no/out"))
