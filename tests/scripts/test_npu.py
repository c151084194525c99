"""The transplant to torch_npu: what changes, what is named, and what is refused."""

from __future__ import annotations

import ast
import csv
import subprocess
from pathlib import Path

import pytest

from ms_port.cli import run
from ms_port.errors import BadInput
from ms_port.script.npu import transplant

CHANGES = {
    "device = torch.device('cuda:0')": "device = torch.device('npu:0')",
    "torch.cuda.set_device(rank)": "torch.npu.set_device(rank)",
    "model = model.cuda(rank)": "model = model.npu(rank)",
    "x = x.cuda(non_blocking=True)": "x = x.npu(non_blocking=True)",
    "d = f'cuda:{rank}'": "d = f'npu:{rank}'",
    "d = 'cuda:{}'.format(rank)": "d = 'npu:{}'.format(rank)",
    "dist.init_process_group(backend='nccl')": "dist.init_process_group(backend='hccl')",
    "assert backend in ['gloo', 'nccl']": "assert backend in ['gloo', 'hccl']",
    "ok = backend == 'nccl'": "ok = backend == 'hccl'",
    "x = x.to(memory_format=torch.channels_last)": "x = x.to(memory_format=torch.contiguous_format)",
    "s = torch.cuda.amp.GradScaler()": "s = torch.npu.amp.GradScaler()",
    "ok = x.is_cuda": "ok = x.is_npu",
    "text = 'cuda is fast'": "text = 'cuda is fast'",
    "v = torch.version.cuda": "v = torch.version.cuda",
    "opt.cuda = True": "opt.cuda = True",
}


def moved(tmp_path: Path, text: str, version: str = "2.8.0", **options: object) -> tuple[Path, object]:
    project = tmp_path / "train"
    project.mkdir(exist_ok=True)
    (project / "main.py").write_text(text)
    out = tmp_path / "out"
    out.mkdir(exist_ok=True)
    found = transplant(project, out, version, **options)  # type: ignore[arg-type]
    ast.parse((found.folder / "main.py").read_text())
    return found.folder, found


@pytest.mark.parametrize("before", CHANGES)
def test_line(tmp_path: Path, before: str) -> None:
    folder, _ = moved(tmp_path, f"import torch\nimport torch.distributed as dist\n{before}  # kept\n")
    assert (folder / "main.py").read_text().splitlines()[-1] == f"{CHANGES[before]}  # kept"


@pytest.mark.parametrize(
    ("version", "lines"),
    [
        ("2.1.0", ["import torch_npu", "from torch_npu.contrib import transfer_to_npu"]),
        ("2.6.0", ["from torch_npu.contrib import transfer_to_npu"]),
    ],
)
def test_imports_of_each_version(tmp_path: Path, version: str, lines: list[str]) -> None:
    folder, _ = moved(
        tmp_path, '"""Doc."""\nfrom __future__ import annotations\nimport torch  # first\nx = 1\n', version
    )
    assert (folder / "main.py").read_text().splitlines()[3:-1] == lines
    assert folder.name == "train_msft"


def test_reasons_are_named(tmp_path: Path) -> None:
    folder, found = moved(
        tmp_path, "import torch\nimport amp_C\nfrom apex.optimizers import FusedAdam\nm = torch.jit.script(m)\n"
    )
    named = {entry[2] for entry in found.unsupported}
    assert {"amp_C", "apex.optimizers.FusedAdam", "torch.jit.script"} <= named
    assert "transfer_to_npu" not in (folder / "main.py").read_text()
    with (folder / "unsupported_api.csv").open(encoding="utf-8-sig") as stream:
        assert {row["OP"] for row in csv.DictReader(stream)} == named
    assert {p.name for p in folder.iterdir()} == {
        "main.py",
        "msFmkTranspltlog.txt",
        "unsupported_api.csv",
        "unknown_api.csv",
        "cuda_op_list.csv",
        "change_list.csv",
    }


MULTI = """import argparse
import torch
from torch.utils.data import DataLoader
parser = argparse.ArgumentParser()
parser.add_argument('--gpu')
net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
loader = DataLoader(data, batch_size=4, shuffle=True)
other = DataLoader(data, batch_size=4)
"""


def test_multi_card(tmp_path: Path) -> None:
    folder, found = moved(tmp_path, MULTI, main="main.py", model="net")
    text = (folder / "main.py").read_text()
    assert folder.name == "train_msft_multi"
    assert (
        text.index("init_process_group")
        < text.index("net = Net()")
        < text.index("DistributedDataParallel(net")
        < text.index("optimizer =")
    )
    assert "sampler=torch.utils.data.distributed.DistributedSampler(data, shuffle=bool(True))" in text
    assert "DistributedSampler(data, shuffle=bool(False))" in text
    assert any("--gpu" in note for note in found.notes) and any(
        "please input your shell script here" in note for note in found.notes
    )
    script = folder / "run_distributed_npu.sh"
    for name in ("MASTER_ADDR", "MASTER_PORT", "NPUS", "RANK_SIZE", "DEVICE_ID", "RANK_ID", "output_npu_$i.log"):
        assert name in script.read_text()
    done = subprocess.run(["bash", str(script)], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 1 and "placeholder" in done.stderr
    script.write_text(
        script.read_text().replace('COMMAND="please input your shell script here"', 'COMMAND="echo started"')
    )
    subprocess.run(
        ["bash", str(script)], env={"NPUS": "0 3", "PATH": "/usr/bin:/bin"}, check=True, capture_output=True, cwd=folder
    )
    assert (folder / "output_npu_3.log").read_text() == "started\n"


def test_bad_input(tmp_path: Path) -> None:
    project = tmp_path / "p"
    project.mkdir()
    (project / "main.py").write_text("import torch\nmodel = Net()\n")
    with pytest.raises(BadInput, match="does not exist"):
        transplant(project, tmp_path / "none", "2.8.0")
    with pytest.raises(BadInput, match=r"2\.4\.0"):
        transplant(project, tmp_path, "2.4.0")
    with pytest.raises(BadInput, match="DataLoader"):
        transplant(project, tmp_path, "2.8.0", main="main.py")
    (project / "main.py").write_text("import torch\nfrom torch.utils.data import DataLoader\nmodel = Net()\n")
    with pytest.raises(BadInput, match="'net'"):
        transplant(project, tmp_path, "2.8.0", main="main.py", model="net")
    assert run(["npu", str(project), "-o", str(tmp_path), "-v", "2.8.0", "distributed"]) == 2
    assert run(["npu", str(project), "-o", str(tmp_path), "-v", "2.8.0"]) == 0
