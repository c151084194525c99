"""``ms-port doctor``: what of this machine's set-up would make a port fail, run slowly or compute wrongly."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal, TypeAlias

Status: TypeAlias = Literal["ok", "warning", "error"]
_TRIED = "2.10"
"""The MindSpore version that the op maps were measured with."""
_GRAPH = textwrap.dedent(
    """
    import mindspore as ms
    from mindspore import nn, ops
    from mindspore.experimental import optim

    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_device("CPU")

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3, pad_mode="pad", padding=1)
            self.head = nn.Dense(4, 2)

        def construct(self, x):
            return self.head(ops.relu(self.conv(x)).mean((2, 3)))

    cell = Net()
    cell.set_train(True)
    optimizer = optim.SGD(list(cell.trainable_params()), lr=0.1)
    x, y = ops.ones((2, 3, 8, 8), ms.float32), ms.Tensor([0, 0], ms.int32)  # one label: the loss can always fall

    def forward(x, y):
        return ops.cross_entropy(cell(x), y)

    gradient = ms.value_and_grad(forward, None, weights=optimizer.parameters)

    @ms.jit
    def step(x, y):
        loss, gradients = gradient(x, y)
        optimizer(gradients)
        return loss

    first, second = float(step(x, y).asnumpy()), float(step(x, y).asnumpy())
    assert second < first, f"the loss did not fall: {first} then {second}"
    print(f"loss {first:.4f}, then {second:.4f}")
    """
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: ``error`` means that ports can't run here."""

    name: str
    status: Status
    message: str


def examine() -> list[Finding]:
    """Look at everything; the smallest graph runs in a process of its own."""
    checks: tuple[Callable[[], Finding], ...] = (_python, _torch, _mindspore, _numpy, _onednn, _ascend, _smallest_graph)
    return [check() for check in checks]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version)[:2])


def _python() -> Finding:
    good = sys.version_info >= (3, 11)
    text = f"{platform.python_version()} on {platform.machine()}"
    return Finding("Python", "ok" if good else "error", text if good else f"{text}; 3.11 or later is needed")


def _torch() -> Finding:
    version = _version("torch")
    if version is None:
        return Finding("torch", "error", "not installed; converting needs it (running a port does not)")
    if _numbers(version) < (2, 6):
        return Finding("torch", "error", f"{version}; 2.6 or later is needed")
    return Finding("torch", "ok", version)


def _mindspore() -> Finding:
    version = _version("mindspore")
    if version is None:
        return Finding("MindSpore", "error", "not installed; verification and training need it: pip install mindspore")
    if not version.startswith(f"{_TRIED}."):
        return Finding("MindSpore", "warning", f"{version}; the op maps were measured with {_TRIED}")
    return Finding("MindSpore", "ok", version)


def _numpy() -> Finding:
    version = _version("numpy") or "0"
    if _numbers(version) >= (2, 0):
        text = "GeneratorDataset, bf16 saving and some gradients of MindSpore fail with it: pip install 'numpy<2'"
        return Finding("numpy", "error", f"{version}; {text}")
    return Finding("numpy", "ok", version)


def _onednn() -> Finding:
    setting = os.environ.get("ONEDNN_MAX_CPU_ISA")
    try:
        avx512 = "avx512f" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        avx512 = False
    if setting is not None or not avx512:
        return Finding("oneDNN", "ok", f"ONEDNN_MAX_CPU_ISA={setting}" if setting else "no AVX-512 processor")
    text = (
        "on this AVX-512 processor MindSpore's convolutions run about 100 times too slowly unless "
        "ONEDNN_MAX_CPU_ISA=AVX2 is set; ms-port and the generated scripts set it, "
        "your own scripts must: export ONEDNN_MAX_CPU_ISA=AVX2"
    )
    return Finding("oneDNN", "warning", text)


def _ascend() -> Finding:
    home = os.environ.get("ASCEND_TOOLKIT_HOME") or os.environ.get("ASCEND_HOME_PATH")
    if home is None:
        return Finding("Ascend", "ok", "no CANN toolkit in the environment: ports run on CPU here")
    return Finding("Ascend", "ok", f"CANN at {home}")


def _smallest_graph() -> Finding:
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "GLOG_v": "3"}
    with tempfile.TemporaryDirectory(prefix="ms-port-") as folder:
        file = Path(folder) / "smallest.py"  # GRAPH_MODE reads the source, so it has to be a file
        file.write_text(_GRAPH, encoding="utf-8")
        try:
            done = subprocess.run(
                [sys.executable, str(file)], cwd=folder, env=environment, capture_output=True, text=True, timeout=180
            )
        except subprocess.TimeoutExpired:
            return Finding("smallest graph", "error", "compiling and training it took more than 180 s")
    if done.returncode == 0:
        return Finding("smallest graph", "ok", f"compiled and trained in GRAPH_MODE: {done.stdout.strip()}")
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    said = [line for line in lines if re.match(r"\w*(Error|Exception)\b", line)] or lines[-1:]
    return Finding("smallest graph", "error", said[-1] if said else f"ended with code {done.returncode}")
