"""Write checkpoints: streaming, and whole or not at all (a temporary file beside the target, then a rename)."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ms_port.weights.checkpoint import WeightsError

if TYPE_CHECKING:
    from torch import Tensor

HEADER_ROOM = 1 << 16
"""Bytes kept for the header while its length is not known; a longer one costs a copy of the file."""

CODES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}
"""torch dtype -> its code in a safetensors header."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder, renamed to ``path`` when the block succeeds and removed when it fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
        os.close(handle)
    except OSError as error:
        raise WeightsError(f"{path}: cannot be written ({error.strerror})", "Choose a folder you can write.") from error
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        raise WeightsError(f"{path}: cannot be written ({error.strerror})", "Is the disk full?") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_safetensors(
    path: str | Path, items: Iterable[tuple[str, Tensor]], metadata: Mapping[str, str] | None = None
) -> None:
    """Write named tensors, one in memory at a time; raises WeightsError if the file cannot be written."""
    path = Path(path)
    with replacing(path) as temporary:
        header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
        with temporary.open("wb") as file:
            file.write(b" " * HEADER_ROOM)
            offset = 0
            for name, tensor in items:
                size = _append(file, tensor)
                code, shape = CODES[_dtype_name(tensor)], list(tensor.shape)
                header[name] = {"dtype": code, "shape": shape, "data_offsets": [offset, offset + size]}
                offset += size
        text = json.dumps(header, separators=(",", ":")).encode()
        if len(text) + 8 <= HEADER_ROOM:
            with temporary.open("r+b") as file:
                file.write(struct.pack("<Q", HEADER_ROOM - 8) + text)
        else:
            _with_longer_header(temporary, text)


def _with_longer_header(file: Path, text: bytes) -> None:
    text += b" " * (-len(text) % 8)
    with replacing(file) as longer, longer.open("wb") as target, file.open("rb") as source:
        target.write(struct.pack("<Q", len(text)) + text)
        source.seek(HEADER_ROOM)
        shutil.copyfileobj(source, target, 1 << 20)


def _append(file: IO[bytes], tensor: Tensor) -> int:
    import torch

    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return file.write(flat.view(torch.uint8).numpy().data) if flat.numel() else 0


def write_torch(path: str | Path, items: Iterable[tuple[str, Tensor]]) -> None:
    """Write a state dict with ``torch.save``; it is whole in memory meanwhile."""
    import torch

    with replacing(Path(path)) as temporary:
        torch.save(dict(items), temporary)


def write_ckpt(path: str | Path, items: Iterable[tuple[str, Tensor]]) -> None:
    """Write MindSpore's ``.ckpt``. MindSpore writes it itself, in a process of its own, from a safetensors file."""
    path = Path(path)
    with tempfile.TemporaryDirectory(prefix="ms-port-") as folder, replacing(path) as temporary:
        middle = Path(folder, "weights.safetensors")
        write_safetensors(middle, items)
        translate_format(middle, temporary)


def translate_format(source: Path, target: Path) -> None:
    """Translate between MindSpore's ``.ckpt`` and ``.safetensors``, by MindSpore in a process of its own."""
    command = [sys.executable, "-m", "ms_port.weights.mindspore_format", str(source), str(target)]
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "GLOG_v": "3"}, check=False)
    if run.returncode:
        lines = [line for line in run.stderr.splitlines() if line.strip()]
        raise WeightsError(
            f"{source}: MindSpore cannot read or write it ({lines[-1] if lines else run.returncode})",
            "Is mindspore installed, and is the file a checkpoint of MindSpore?",
        )


def _dtype_name(tensor: Tensor) -> str:
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in CODES:
        raise WeightsError(f"tensors of {name} cannot be stored in a safetensors file", "Convert them first.")
    return name


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
