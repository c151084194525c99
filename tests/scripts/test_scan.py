"""The scan: each kind of finding at its line, a plan, and files that nobody should have written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ms_port.cli import run
from ms_port.script.plan import existing_ports, routes, to_json
from ms_port.script.scan import scan

CASES = {
    "jit": ("import torch\nm = torch.jit.script(m)\n", "MSP610", 2),
    "channels_last": ("import torch\nx = x.to(memory_format=torch.channels_last)\n", "MSP611", 2),
    "amp_C": ("import amp_C\n", "MSP612", 1),
    "FusedAdam": ("from apex.optimizers import FusedAdam\n", "MSP612", 1),
    "extension": ("from torch.utils.cpp_extension import load\n", "MSP613", 1),
    "triton": ("import triton\n", "MSP613", 1),
    "cuda()": ("import torch\nx = torch.zeros(1)\ny = x.cuda()\n", "MSP614", 3),
    "cuda string": ("device = 'cuda'\n", "MSP614", 1),
    "a fixed card": ("device = 'cuda:1'\n", "MSP803", 1),
    "--gpu": ("parser.add_argument('--gpu', type=int)\n", "MSP615", 1),
    "nccl call": ("import torch.distributed as dist\ndist.init_process_group('nccl')\n", "MSP801", 2),
    "nccl comparison": ("if backend == 'nccl':\n    pass\n", "MSP802", 1),
    "nccl in a list": ("assert backend in ['gloo', 'nccl']\n", "MSP802", 1),
    "nccl default": ("parser.add_argument('--backend', default='nccl')\n", "MSP802", 1),
    "address": ("import os\nos.environ['MASTER_ADDR'] = '10.1.2.3'\n", "MSP803", 2),
    "fixed rank": ("import torch.distributed as dist\ndist.init_process_group('hccl', rank=0, world_size=8)\n", "MSP803", 2),
    "late group": ("import torch.distributed as dist\ndef main():\n    model = Net()\n    dist.init_process_group('gloo')\n", "MSP804", 4),
    "barrier of one rank": ("import torch.distributed as dist\nif rank == 0:\n    dist.barrier()\n", "MSP805", 3),
    "type by rank": ("import torch\nx = torch.tensor(1.0 if rank == 0 else 0)\n", "MSP806", 2),
    "item in forward": ("import torch\nclass N(torch.nn.Module):\n    def forward(self, x):\n        return x * x.max().item()\n", "MSP301", 4),
    "numpy in forward": ("import torch\nimport numpy as np\nclass N(torch.nn.Module):\n    def forward(self, x):\n        return np.tanh(x)\n", "MSP301", 5),
    "branch on a value": ("import torch\nclass N(torch.nn.Module):\n    def forward(self, x):\n        if x.sum() > 0:\n            return x\n        return -x\n", "MSP302", 4),
    "in place": ("import torch\nclass N(torch.nn.Module):\n    def forward(self, x):\n        x[0] = 1\n        return x\n", "MSP401", 4),
    "data dependent": ("import torch\nclass N(torch.nn.Module):\n    def forward(self, x):\n        return torch.nonzero(x)\n", "MSP201", 4),
    "hook": ("import torch\nclass N(torch.nn.Module):\n    def forward(self, x):\n        self.fc.register_forward_hook(f)\n        return x\n", "MSP303", 4),
    "no workers": ("from torch.utils.data import DataLoader\nl = DataLoader(d, 4)\n", "MSP702", 2),
    "per sample": ("from torch.utils.data import Dataset\nfrom PIL import Image\nclass D(Dataset):\n    def __getitem__(self, i):\n        return Image.open(self.f[i])\n", "MSP703", 5),
    "path": ("root = '/home/me/imagenet'\n", "MSP704", 1),
    "download": ("url = 'https://example.org/resnet.pth'\n", "MSP704", 1),
    "pad_sequence": ("from torch.nn.utils.rnn import pad_sequence\nb = pad_sequence(x)\n", "MSP705", 2),
    "framework": ("from transformers import Trainer\n", "MSP608", 1),
    "version": ("import torch\nm = torch.compile(m)\n", "MSP616", 2),
    "freezing late": ("import torch\no = torch.optim.SGD(m.parameters(), 0.1)\nm.fc.requires_grad_(False)\n", "MSP617", 3),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_finding(tmp_path: Path, name: str) -> None:
    source, rule, line = CASES[name]
    (tmp_path / "code.py").write_text(source)
    found = scan([tmp_path])
    assert (rule, line) in {(f.rule, f.line) for f in found.findings}
    (tmp_path / "code.py").write_text("import math\nx = math.pi\n")
    assert not scan([tmp_path]).findings


def test_the_plan_names_the_route(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(
        "import torch\nfrom torch import nn\nclass ResNet(nn.Module):\n    pass\nif __name__ == '__main__':\n    torch.save({}, 'x')\n"
    )
    found = scan([tmp_path])
    first, transplant, port, native = routes(found)
    assert first.fits and transplant.fits and native.fits
    assert port.fits and "mindcv" in existing_ports(found)[0]
    assert "main.py" in to_json(found)["plan"]["baseline"]
    (tmp_path / "main.py").write_text("import torch\nm = torch.jit.script(m)\nx = torch.linalg.no_such(x)\n")
    found = scan([tmp_path])
    assert not routes(found)[0].fits and "jit" in routes(found)[0].why
    assert found.status["torch.linalg.no_such"] == "unknown"


def test_api_status(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "import torch\nfrom torch import nn as layers\nfrom torch.optim import SparseAdam as LBFGS\ny = layers.Linear(1, 1)\nz = LBFGS(p)\nw = torch.cat([y])\n"
    )
    found = scan([tmp_path])
    assert found.status["torch.nn.Linear"] == found.status["torch.cat"] == "supported"
    assert found.status["torch.optim.SparseAdam"] == "unsupported"


def test_hostile_files_are_reported(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "nulls.py").write_bytes(b"x = 1\0\n")
    (tmp_path / "latin.py").write_bytes(b"# \xe9\nx = 1\n")
    (tmp_path / "deep.py").write_text("x = " + "(" * 150 + "1" + ")" * 150 + "\n" + "y = " + "-" * 5000 + "1\n")
    (tmp_path / "long.py").write_text("x = [" + "1, " * 200_000 + "]\n")
    (tmp_path / "huge.py").write_bytes(b"#" * 4_100_000)
    (tmp_path / "empty.py").write_bytes(b"")
    (tmp_path / "book.ipynb").write_text("{not json")
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "fine.py").write_text("import torch\ntorch.jit.script(m)\n")
    found = scan([tmp_path])
    said = {f.file for f in found.of("MSP609")}
    assert {"broken.py", "nulls.py", "huge.py"} <= said
    assert found.of("MSP610")[0].file == "fine.py"


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text("device = 'cuda'\n")
    assert run(["scan", str(tmp_path / "a.py"), "--json", "-o", str(tmp_path / "scan")]) == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["rule"] == "MSP614"
    assert {p.name for p in (tmp_path / "scan").iterdir()} == {
        "scan.json",
        "findings.csv",
        "unsupported_api.csv",
        "unknown_api.csv",
    }
    assert run(["scan", str(tmp_path / "missing")]) == 2
    (tmp_path / "b.py").write_text("x = 1\n")
    assert run(["scan", str(tmp_path / "b.py")]) == 0
