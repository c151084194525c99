"""`ms-port convert` and what belongs to it, run for real on small models."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import torch

from ms_port.cli import run

HERE = Path(__file__).parent
NET = f"{HERE / 'nets.py'}:Net"
X = "x:float32[batch=4,4]"


def files(out: Path) -> dict[str, bytes]:
    return {
        p.relative_to(out).as_posix(): p.read_bytes()
        for p in sorted(out.rglob("*"))
        if p.is_file() and "report" not in p.parts
    }


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A verified port of Net."""
    out = tmp_path_factory.mktemp("port") / "net"
    assert run(["convert", NET, "--input", X, "-o", str(out)]) == 0
    return out


def test_what_is_written(port: Path) -> None:
    assert {p.name for p in port.iterdir()} >= {
        "net",
        "weights.safetensors",
        "port.json",
        "report",
        "train.py",
        "dataset.py",
        "config.yaml",
        "launch.sh",
        ".ms_port",
    }
    spec = json.loads((port / "port.json").read_text())
    assert spec["package"] == "net"
    assert spec["inputs"] == [
        {"name": "x", "dtype": "float32", "shape": [4, 4], "dims": ["batch", None], "range": None, "keyword": False}
    ]
    assert {r["torch"]: r["mindspore"] for r in spec["parameters"]}["norm.weight"] == "norm.gamma"
    assert spec["outputs"] == {"structure": "float32[4,3]", "fields": None}
    assert not Path(spec["target"]).is_absolute() or spec["target"] == NET
    report = json.loads((port / "report/report.json").read_text())
    import ms_port.report.report as module

    jsonschema.validate(report, json.loads(Path(module.__file__).with_name("schema.json").read_text()))
    assert report["status"] == "ok"
    assert report["verification"]["forward"]["status"] == "equal"
    assert set(report["timings"]) >= {"capture", "translate", "emit", "weights", "verify", "total"}


def test_the_output_needs_neither_torch_nor_us(port: Path) -> None:
    for file in port.rglob("*.py"):
        text = file.read_text()
        assert "import torch" not in text, file
        assert "import ms_port" not in text, file
        assert "from ms_port" not in text, file


def test_it_trains_and_its_checkpoint_goes_back_to_torch(port: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"GLOG_v": "3"}
    done = subprocess.run(
        [sys.executable, "train.py", "--steps", "6"],
        cwd=port,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("step ") >= 6
    saved, back = port / "checkpoints/step_6.safetensors", port.parent / "back.pt"
    assert run(["weights", str(saved), str(back), "--port", str(port), "--to", "torch"]) == 0
    state = torch.load(back, weights_only=True)
    assert sorted(state) == sorted(
        ["first.weight", "first.bias", "norm.weight", "norm.bias", "head.weight", "head.bias"]
    )
    assert run(["weights", str(back), str(port.parent / "again.ckpt"), "--port", str(port), "--json"]) == 0
    said = capsys.readouterr().out
    assert json.loads(said[said.index("{") :])["file"].endswith("again.ckpt")


def test_again_gives_the_same_bytes_and_keeps_edits(
    port: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "net"
    command = ["convert", NET, "--input", X, "-o", str(out), "--no-verify", "--arg", "width=6"]
    assert run(command) == 0
    first = files(out)
    (out / "mine.txt").write_text("m")
    config = out / "config.yaml"
    config.write_text(config.read_text().replace("learning_rate: 0.001", "learning_rate: 0.5"))
    capsys.readouterr()
    assert run([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["edits"] == [{"file": "config.yaml", "action": "kept"}]
    second = files(out)
    assert b"0.5" in second.pop("config.yaml")
    del first["config.yaml"]
    assert second.pop("mine.txt") == b"m"
    assert first == second, "weights too"


def test_diff_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "net"
    assert run(["convert", NET, "--input", X, "-o", str(out), "--diff"]) == 0
    assert "+class Net(nn.Cell):" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_dump_ir(tmp_path: Path) -> None:
    out = tmp_path / "net"
    assert run(["convert", NET, "--input", X, "-o", str(out), "--no-verify", "--dump-ir", "all"]) == 0
    dumps = sorted(p.name for p in (out / "report").glob("ir_*.txt"))
    assert dumps[0] == "ir_0_capture.txt"
    assert "Net" in (out / "report" / dumps[0]).read_text()


def test_instance_inputs_function_and_checkpoint(tmp_path: Path) -> None:
    sys.path.insert(0, str(HERE))
    from nets import Net

    trained = Net(5)
    torch.save({"state_dict": {f"module.{k}": v for k, v in trained.state_dict().items()}}, tmp_path / "net.pt")
    nets = HERE / "nets.py"
    command = ["convert", f"{nets}:model", "--inputs", f"{nets}:inputs", "--weights", str(tmp_path / "net.pt")]
    assert run([*command, "-o", str(tmp_path / "out"), "--name", "mine", "--no-verify"]) == 0
    from safetensors.torch import load_file

    written = load_file(tmp_path / "out/weights.safetensors")
    assert torch.equal(written["first.weight"], trained.first.weight)


def test_an_unsupported_op_never_ends_the_conversion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nets, out = HERE / "nets.py", tmp_path / "odd"
    assert run(["convert", f"{nets}:Odd", "--input", X, "-o", str(out), "--no-verify", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    [flag] = [f for f in report["flags"] if f["rule"] == "MSP101"]
    line = next(n for n, text in enumerate(nets.read_text().splitlines(), 1) if "airy_ai" in text)
    assert flag["source"] == {"file": str(nets), "line": line}
    written = (out / flag["generated"]["file"]).read_text().splitlines()[flag["generated"]["line"] - 1]
    assert "airy_ai(" in written
    assert "airy_ai" in (out / "report/unsupported_api.csv").read_text()
    assert run(["check-fix", str(out)]) == 1
    assert run(["check-fix", str(out), "nothing"]) == 2


def test_verify_again_and_load(port: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", str(port), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verification"]["forward"]["status"] == "equal"
    code = (
        "import numpy as np, ms_port, mindspore as ms\n"
        f"cell, spec = ms_port.load({str(port)!r})\n"
        "print(cell(ms.Tensor(np.ones((4, 4), np.float32))).shape, spec['package'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=HERE.parents[1], timeout=120
    )
    assert done.stdout.split("\n")[0] == "(4, 3) net", done.stderr


def test_a_wrong_weight_is_exit_code_3(port: Path, tmp_path: Path) -> None:
    import shutil

    out = tmp_path / "net"
    shutil.copytree(port, out)
    model = out / "net/model.py"
    model.write_text(model.read_text().replace("epsilon=1e-5", "epsilon=1e-1"))
    spec = json.loads((out / "port.json").read_text())
    (out / "port.json").write_text(json.dumps({**spec, "target": NET}))
    assert run(["verify", str(out)]) == 3


def test_a_model_for_inference_has_no_training_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, nets = tmp_path / "out", Path(__file__).parent / "nets.py"
    assert run(["convert", f"{nets}:Inference", "--input", "x:float32[2,4]", "-o", str(out), "--no-verify"]) == 0
    assert "no training files: the model did not run in training mode" in capsys.readouterr().out
    assert (out / "inference" / "model.py").exists() and not (out / "train.py").exists()
