"""How tensors and models look when a script prints them under ``--compare``: the same on both sides."""

from __future__ import annotations

from typing import Any

import numpy as np

MODEL, OPTIMIZER = "<model>", "<optimizer>"


def shown(array: Any) -> str:
    """A tensor's numbers: one of them bare, many shortened."""
    if array.ndim == 0:
        return f"{array.item():.6g}" if array.dtype.kind == "f" else str(array.item())
    return np.array2string(array, threshold=40, max_line_width=160, formatter={"float_kind": lambda v: f"{v:.4f}"})


def show_torch(torch: Any) -> None:
    def tensor(self: Any, **options: Any) -> str:
        held = self.detach().cpu().to_dense() if self.layout is not torch.strided else self.detach().cpu()
        return shown((held.float() if held.dtype == torch.bfloat16 else held).numpy())

    torch.Tensor.__repr__ = torch.nn.Parameter.__repr__ = tensor
    torch.nn.Module.__repr__ = torch.nn.Sequential.__repr__ = torch.nn.ModuleList.__repr__ = lambda self: MODEL
    torch.optim.Optimizer.__repr__ = lambda self: OPTIMIZER


def show_mindspore(ms: Any) -> None:
    def tensor(self: Any) -> str:
        return shown((self.astype(ms.float32) if self.dtype == ms.bfloat16 else self).asnumpy())

    for kind in (ms.Tensor, ms.Parameter):
        kind.__repr__ = kind.__str__ = tensor
    for kind in (ms.nn.Cell, ms.nn.SequentialCell, ms.nn.CellList):
        kind.__repr__, kind.__str__ = lambda self: MODEL, lambda self: repr(self)  # a class may have its own
