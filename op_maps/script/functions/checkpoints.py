"""Checkpoints: nested containers of tensors, and the files that torch wrote."""

import copy
import io
import os
import pickle
import time
import zipfile
from collections import OrderedDict

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn

from .names import torch_names
from .running import Device


class _Array:
    """A tensor inside a saved file."""

    def __init__(self, array):
        self.array = array


class _Cell:
    """A whole model inside a saved file: its parameters, since a cell itself can't be pickled."""

    made = {}
    """Cells that this process saved: where one is loaded again, its copy gets the saved parameters."""

    def __init__(self, cell):
        self.name, self.token = type(cell).__name__, f"{os.getpid()}-{time.time()}-{id(cell)}"
        self.state = {name: _Array(value.asnumpy()) for name, value in cell.state_dict().items()}
        self.made[self.token] = cell

    def cell(self):
        if self.token not in self.made:
            raise NotImplementedError(
                f"MSP602: the file holds a whole {self.name}; save its state_dict(), build the model and load that"
            )
        cell = copy.deepcopy(self.made[self.token])
        cell.load_state_dict(_unpacked(self.state))
        return cell


def _packed(item):
    if isinstance(item, nn.Cell):
        return _Cell(item)
    if isinstance(item, Tensor):
        return _Array(item.asnumpy())
    if isinstance(item, dict):
        return type(item)((key, _packed(value)) for key, value in item.items())
    if type(item) in (list, tuple):
        return type(item)(map(_packed, item))
    return item


def _unpacked(item):
    if isinstance(item, _Cell):
        return item.cell()
    if isinstance(item, _Array):
        return Tensor(item.array)
    if isinstance(item, dict):
        return type(item)((key, _unpacked(value)) for key, value in item.items())
    if type(item) in (list, tuple):
        return type(item)(map(_unpacked, item))
    return item


def save(obj, f, **kwargs):
    """Write nested containers of tensors and plain values, whole or not at all."""
    if hasattr(f, "write"):
        pickle.dump(_packed(obj), f)
        return
    waiting = f"{os.fspath(f)}.{os.getpid()}"
    with open(waiting, "wb") as stream:
        pickle.dump(_packed(obj), stream)
    os.replace(waiting, f)


def load(f, map_location=None, weights_only=None, **kwargs):
    """Read what ``save`` wrote, or torch's own file. Like any pickle: only files that you trust."""
    if hasattr(f, "read"):
        if hasattr(f, "seek"):
            torchs = f.read(2) == b"PK"
            f.seek(0)
            if torchs:
                return read_torch(f)
        return _unpacked(pickle.load(f))
    with open(f, "rb") as stream:
        if stream.read(2) == b"PK":
            return read_torch(stream)
        stream.seek(0)
        return _unpacked(pickle.load(stream))


class TorchFile(pickle.Unpickler):
    """The containers and tensors of a file that ``torch.save`` wrote; torch is not needed."""

    storages = {
        "DoubleStorage": np.float64, "FloatStorage": np.float32, "HalfStorage": np.float16, "BFloat16Storage": np.uint16,
        "LongStorage": np.int64, "IntStorage": np.int32, "ShortStorage": np.int16, "CharStorage": np.int8,
        "ByteStorage": np.uint8, "BoolStorage": np.bool_,
    }  # fmt: skip

    def __init__(self, archive):
        self.archive = archive
        index = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        self.folder = index[: -len("data.pkl")]
        super().__init__(io.BytesIO(archive.read(index)))

    def find_class(self, module, name):
        if module == "torch._utils" and name.startswith("_rebuild_tensor"):
            return self.tensor
        if module == "torch._utils" and name.startswith("_rebuild_parameter"):
            return lambda data, *rest: data
        if module == "torch" and name in self.storages:
            return name
        if (module, name) == ("torch", "Size"):
            return tuple
        if (module, name) == ("torch", "device"):
            return Device
        if module == "torch" and hasattr(ms, name):
            return getattr(ms, name)
        if module.split(".")[0] in ("torch", "torchvision"):
            raise NotImplementedError(
                f"MSP602: the file holds a {module}.{name}; save the state_dict() of what is in it"
            )
        return super().find_class(module, name)

    def persistent_load(self, saved):
        _, kind, key, _, _ = saved
        numbers = np.frombuffer(self.archive.read(f"{self.folder}data/{key}"), self.storages[kind])
        return (numbers.astype(np.uint32) << 16).view(np.float32) if kind == "BFloat16Storage" else numbers

    def tensor(self, numbers, offset, size, stride, *rest):
        steps = [step * numbers.itemsize for step in stride]
        return Tensor(np.lib.stride_tricks.as_strided(numbers[offset:], size, steps).copy())


def read_torch(stream):
    with zipfile.ZipFile(stream) as archive:
        return TorchFile(archive).load()


def load_state(holder, state_dict, strict=True, **kwargs):
    """``load_state_dict`` of a cell, an optimizer or whatever else has one; a cell takes the names of torch's layers too."""
    if not isinstance(holder, nn.Cell):
        return holder.load_state_dict(state_dict)
    own = holder.state_dict()
    given = OrderedDict((k, v) for k, v in state_dict.items() if not k.endswith("num_batches_tracked") or k in own)
    for ours, torchs in torch_names(holder).items():
        if torchs in given and torchs not in own:
            given[ours] = given.pop(torchs)
    for name, value in given.items():
        if (
            name in own
            and value.shape != own[name].shape
            and [n for n in value.shape if n != 1] == [n for n in own[name].shape if n != 1]
        ):
            given[name] = value.reshape(own[name].shape)  # the kernels of nn.Conv1d have an axis more
    return holder.load_state_dict(given, strict=strict)
