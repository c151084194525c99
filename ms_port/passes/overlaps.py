"""``x[1:] = x[:-1]``: torch copies from memory that it is writing, MindSpore from the tensor as it was (MSP401)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ms_port.ir.flags import Flag
from ms_port.ir.program import LedgerEntry, Program
from ms_port.ir.values import Literal, TensorValue

_READ, _WRITE = "torch.Tensor.__getitem__", "torch.Tensor.__setitem__"
_LARGEST = 10**7
"""Elements of a tensor whose places are compared."""


def flag_overlaps(program: Program) -> Program:
    """Flag every assignment of a part of a tensor to another part that shares elements with it."""
    found = dict.fromkeys(_overlaps(program))
    return replace(program, flags=(*program.flags, *found)) if found else program


def _overlaps(program: Program) -> Iterator[Flag]:
    parts = {e.result.key: e for e in program.ledger if e.api == _READ and isinstance(e.result, TensorValue)}
    for entry in program.ledger:
        value = entry.args[2] if entry.api == _WRITE and len(entry.args) == 3 else None
        read = parts.get(value.key) if isinstance(value, TensorValue) else None
        if read is not None and _share(entry, read):
            yield Flag(
                rule="MSP401",
                severity="warning",
                message="a part of a tensor is copied into another part that overlaps with it: torch reads what it "
                "has just written, the port reads the tensor as it was before",
                source=entry.loc,
                advice="Take `.clone()` of what is read, in torch as well.",
            )


def _share(write: LedgerEntry, read: LedgerEntry) -> bool:
    """Whether the two parts of one tensor have elements in common, at other places."""
    target, source = write.args[0], read.args[0]
    if not isinstance(target, TensorValue) or not isinstance(source, TensorValue):
        return False
    if (target.storage, target.shape) != (source.storage, source.shape) or math.prod(target.shape) > _LARGEST:
        return False
    places = np.arange(math.prod(target.shape)).reshape(target.shape)
    one, other = write.args[1], read.args[1]
    if not isinstance(one, Literal) or not isinstance(other, Literal):
        return False
    indices: tuple[Any, Any] = (one.value, other.value)
    written, taken = places[indices[0]], places[indices[1]]
    same = written.shape == taken.shape and bool((written == taken).all())
    return not same and bool(np.intersect1d(written, taken).size)
