"""Read checkpoints of any common kind as a lazy mapping from names to tensors. No pickled code is ever executed."""

from __future__ import annotations

import json
import pickle
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ms_port.errors import BadInput

if TYPE_CHECKING:
    from torch import Tensor

TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".tar")
WRAPPERS = ("state_dict", "model_state_dict", "model", "module", "net", "network", "params", "weights")
"""Keys under which training loops store the state dict, most usual first."""
AVERAGES = ("model_ema", "ema_state_dict", "ema", "state_dict_ema", "params_ema")
FOREIGN = {".h5": "TensorFlow", ".msgpack": "Flax", ".onnx": "ONNX", ".gguf": "GGUF", ".pdparams": "PaddlePaddle"}


class WeightsError(BadInput):
    """A checkpoint that cannot be read or does not fit: ``what`` says what and where, ``advice`` what to do."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message, advice=advice or None)

    @property
    def message(self) -> str:
        """What is wrong, in one sentence."""
        return self.what


@dataclass(frozen=True)
class Entry:
    """A tensor that is not in memory yet."""

    shape: tuple[int, ...]
    load: Callable[[], Tensor]


class LazyTensors(Mapping[str, "Tensor"]):
    """Names to tensors; a tensor is read from its file when asked for, and not kept."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = dict(entries)

    @staticmethod
    def of(tensors: Mapping[str, Tensor]) -> LazyTensors:
        """Wrap tensors that are in memory."""
        return LazyTensors({k: Entry(tuple(t.shape), partial(_self, t)) for k, t in tensors.items()})

    def __getitem__(self, name: str) -> Tensor:
        return self._entries[name].load()

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, without reading it."""
        return self._entries[name].shape

    def renamed(self, names: Mapping[str, str]) -> LazyTensors:
        """The tensors in ``names`` (old name -> new name), and no others."""
        return LazyTensors({new: self._entries[old] for old, new in names.items()})


@dataclass(frozen=True)
class Checkpoint:
    """What a file or folder holds; ``notes`` say what was unwrapped or left out on the way."""

    tensors: LazyTensors
    notes: tuple[str, ...] = ()


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Open a checkpoint file, a sharded folder or a ``from_pretrained`` folder; raises WeightsError."""
    path = Path(path)
    if not path.exists():
        raise WeightsError(f"{path}: no such file or folder", "Check the path given as --weights.")
    try:
        tensors, notes = _read_folder(path) if path.is_dir() else _read_file(path)
    except PermissionError as error:
        raise WeightsError(f"{path}: {error.strerror}", "Make the file readable.") from error
    tensors, more = _strip_wrappers(tensors)
    return Checkpoint(tensors, (*notes, *more))


def read_torch_file(path: Path) -> object:
    """What ``torch.save`` wrote, read as data. Raises WeightsError."""
    if not path.is_file():
        raise WeightsError(f"{path}: no such file", "Name a file that torch.save wrote.")
    return _torch_load(path)


def read_unwrapped(loaded: object, path: Path) -> Checkpoint:
    """The state dict in what ``torch.load`` returned. Raises WeightsError."""
    tensors, notes = _unwrap(loaded, path)
    tensors, more = _strip_wrappers(tensors)
    return Checkpoint(tensors, (*notes, *more))


def _read_folder(folder: Path) -> tuple[LazyTensors, tuple[str, ...]]:
    indices = sorted(folder.glob("*.index.json"), key=lambda p: (".safetensors" not in p.name, p.name))
    if indices:
        return _read_sharded(indices[0])
    for pattern in ("model.safetensors", "*.safetensors", "pytorch_model.bin", *(f"*{s}" for s in TORCH_SUFFIXES)):
        files = [f for f in sorted(folder.glob(pattern)) if f.name not in ("training_args.bin", "optimizer.pt")]
        if len(files) == 1:
            if files[0].name.startswith("adapter_"):
                raise WeightsError(
                    f"{files[0]}: the weights of an adapter, not of a model",
                    "Merge it into its base model first (peft: merge_and_unload), and save that.",
                )
            tensors, notes = _read_file(files[0])
            return tensors, (f"read {files[0].name} of the folder", *notes)
        if files:
            names = ", ".join(f.name for f in files[:5])
            raise WeightsError(f"{folder}: several checkpoints and no index: {names}", "Name one of them as --weights.")
    found = sorted({FOREIGN[f.suffix] for f in folder.iterdir() if f.suffix in FOREIGN})
    said = f" (only {', '.join(found)} files)" if found else ""
    raise WeightsError(
        f"{folder}: no weights of torch in this folder{said}",
        "It should hold a .safetensors, .bin, .pt or .pth file, or shards with an index.json.",
    )


def _read_sharded(index: Path) -> tuple[LazyTensors, tuple[str, ...]]:
    try:
        table: dict[str, str] = json.loads(index.read_text())["weight_map"]
    except (ValueError, KeyError, TypeError) as error:
        raise WeightsError(f"{index}: not an index of shards ({error!r})", "Download or copy it again.") from error
    files = sorted(set(table.values()))
    absent = [f for f in files if not (index.parent / f).is_file()]
    if absent:
        raise WeightsError(
            f"{index.parent}: {len(absent)} of {len(files)} shards are missing: {', '.join(absent[:5])}",
            "Copy all the files that the index names.",
        )
    entries: dict[str, Entry] = {}
    for file in files:
        shard = _read_file(index.parent / file)[0]
        wanted = [name for name, home in table.items() if home == file]
        lost = [name for name in wanted if name not in shard]
        if lost:
            raise WeightsError(f"{index.parent / file}: the index puts {lost[0]} here, and it is not", "Copy it again.")
        entries.update({name: Entry(shard.shape(name), partial(shard.__getitem__, name)) for name in wanted})
    return LazyTensors(entries), (f"read {len(files)} shards by {index.name}",)


def _read_file(path: Path) -> tuple[LazyTensors, tuple[str, ...]]:
    if path.stat().st_size == 0:
        raise WeightsError(f"{path}: the file is empty", "Download or copy it again.")
    if path.suffix in FOREIGN:
        raise WeightsError(
            f"{path}: a {FOREIGN[path.suffix]} file, not a checkpoint of torch", "Save it from torch as .safetensors."
        )
    if path.suffix == ".safetensors":
        return _read_safetensors(path), ()
    return _unwrap(_torch_load(path), path)


def _read_safetensors(path: Path) -> LazyTensors:
    from safetensors import SafetensorError, safe_open

    try:
        file: Any = safe_open(str(path), framework="pt")
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise WeightsError(
            f"{path}: not a complete safetensors file ({error})", "It is truncated or of another kind: copy it again."
        ) from error
    return LazyTensors({name: Entry(shape, partial(file.get_tensor, name)) for name, shape in shapes.items()})


def _torch_load(path: Path) -> object:
    """``torch.load`` with ``weights_only``: data is read, code is not run."""
    import torch

    zipped = zipfile.is_zipfile(path)
    if zipped and any("/code/" in name for name in zipfile.ZipFile(path).namelist()):
        raise WeightsError(
            f"{path}: a TorchScript archive, not a checkpoint",
            "Save its weights: torch.save(torch.jit.load(FILE).state_dict(), 'weights.pt').",
        )
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
    except pickle.UnpicklingError as error:
        text = str(error)
        code = re.search(r"GLOBAL ([\w.]+)|[Uu]nsupported class ([\w.]+)", text)
        if code:
            raise WeightsError(
                f"{path}: the file holds pickled code ({code.group(1) or code.group(2)}), which ms-port does not run",
                "In the project that wrote it, save the weights alone: torch.save(model.state_dict(), 'weights.pt').",
            ) from error
        raise _unreadable(path, text.rpartition("WeightsUnpickler error:")[2]) from error
    except (RuntimeError, EOFError, ValueError, KeyError, IndexError, AttributeError, TypeError) as error:
        raise _unreadable(path, str(error)) from error


def _unreadable(path: Path, reason: str) -> WeightsError:
    head = path.open("rb").read(4)
    first = (reason.strip() or "no data").splitlines()[0][:120]
    if head[:2] == b"PK":
        return WeightsError(f"{path}: a damaged or truncated checkpoint ({first})", "Download or copy it again.")
    return WeightsError(
        f"{path}: not a checkpoint of torch, or a truncated one ({first})",
        "Give a file saved by torch.save(model.state_dict(), ...) or a .safetensors file.",
    )


def _unwrap(loaded: object, path: Path) -> tuple[LazyTensors, tuple[str, ...]]:
    """Find the state dict in what ``torch.load`` returned."""
    import torch

    notes: list[str] = []
    while isinstance(loaded, Mapping):
        names = [k for k in (*WRAPPERS, *AVERAGES) if k in loaded and isinstance(loaded[k], Mapping) and loaded[k]]
        if not names:
            break
        rest = ", ".join(str(k) for k in loaded if k != names[0])
        notes.append(f"unwrapped `{names[0]}`" + (f" (left out: {rest})" if rest else ""))
        loaded = loaded[names[0]]
    tensors = _tensors_of(loaded, torch.Tensor)
    if not tensors:
        kind = type(loaded).__name__
        raise WeightsError(
            f"{path}: no state dict in this file (it holds a {kind} without named tensors)",
            "Save the weights with torch.save(model.state_dict(), 'weights.pt').",
        )
    others = [str(k) for k in loaded if k not in tensors] if isinstance(loaded, Mapping) else []
    if others:
        notes.append(f"left out what is no tensor: {', '.join(others[:5])}" + (" ..." if len(others) > 5 else ""))
    return LazyTensors.of(tensors), tuple(notes)


def _tensors_of(loaded: object, kind: type[Any]) -> dict[str, Tensor]:
    if not isinstance(loaded, Mapping):
        return {}
    return {k: v.detach() for k, v in loaded.items() if isinstance(k, str) and isinstance(v, kind)}


def _strip_wrappers(tensors: LazyTensors) -> tuple[LazyTensors, tuple[str, ...]]:
    """Names as the bare model has them: without what DataParallel and torch.compile put before or into them."""
    notes = []
    names = {name: name for name in tensors}
    if any("_orig_mod." in name for name in names):
        names = {old: new.replace("_orig_mod.", "") for old, new in names.items()}
        notes.append("took `_orig_mod.` (torch.compile) out of the names")
    while names and all(new.startswith("module.") for new in names.values()):
        names = {old: new.removeprefix("module.") for old, new in names.items()}
        notes.append("took `module.` (DataParallel) off the names")
    return tensors.renamed(names), tuple(notes)


def _self(tensor: Tensor) -> Tensor:
    return tensor
