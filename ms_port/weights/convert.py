"""Carry a state dict over to the port's parameters by the rows of ``port.json``, and back."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ms_port.weights.checkpoint import Checkpoint, LazyTensors, WeightsError, read_checkpoint
from ms_port.weights.rules import RULES
from ms_port.weights.write import translate_format, write_ckpt, write_safetensors, write_torch

if TYPE_CHECKING:
    from torch import Tensor, nn

Side: TypeAlias = Literal["mindspore", "torch"]


@dataclass(frozen=True)
class ParameterRow:
    """One row of ``parameters`` in ``port.json``: ``shape`` is torch's, ``mindspore`` is None for rule ``drop``."""

    torch: str
    mindspore: str | None
    shape: tuple[int, ...]
    rule: str = "same"
    kind: str = "parameter"

    @staticmethod
    def of(row: Mapping[str, Any]) -> ParameterRow:
        """From the JSON object."""
        return ParameterRow(
            row["torch"], row["mindspore"], tuple(row["shape"]), row["rule"], row.get("kind", "parameter")
        )


def read_rows(port: str | Path) -> tuple[ParameterRow, ...]:
    """The parameter rows of the port in folder ``port``; raises WeightsError if it is none."""
    file = Path(port, "port.json")
    try:
        return tuple(map(ParameterRow.of, json.loads(file.read_text())["parameters"]))
    except FileNotFoundError as error:
        raise WeightsError(f"{port}: no port.json here", "--port names a folder written by ms-port convert.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise WeightsError(f"{file}: not a port.json of ms-port ({error!r})", "Convert the model again.") from error


def convert(
    state: Mapping[str, Tensor],
    parameters: Iterable[ParameterRow | Mapping[str, Any]],
    to: Side = "mindspore",
    dtype: str | None = None,
) -> Iterator[tuple[str, Tensor]]:
    """Yield (name, tensor) of the other side, one at a time, in the order of the rows.

    Args:
        state: names of the side that is left -> tensors; read lazily where it is a LazyTensors.
        parameters: rows of ``port.json``.
        to: the side to arrive at. Towards torch, a tied parameter is yielded under each of its names.
        dtype: type for all floating-point tensors (``float32``); None keeps each as it is.

    Raises WeightsError before the first tensor if names are missing or unexpected or shapes differ.
    """
    rows = [row if isinstance(row, ParameterRow) else ParameterRow.of(row) for row in parameters]
    lazy = state if isinstance(state, LazyTensors) else LazyTensors.of(state)
    for row in rows:
        if row.rule not in ("same", "drop", "tied", *RULES):
            raise WeightsError(f"{row.torch}: unknown rule {row.rule!r}", f"Rules: {', '.join(sorted(RULES))}.")
    if to == "torch":
        _check_names({row.mindspore for row in rows if row.mindspore}, set(), lazy, [])
        return _to_torch(lazy, rows, dtype)
    optional = {row.torch for row in rows if row.rule in ("drop", "tied")}
    wrong = [
        f"{row.torch}: {list(lazy.shape(row.torch))} in the checkpoint, {list(row.shape)} in the model"
        for row in rows
        if row.torch in lazy and row.rule != "drop" and lazy.shape(row.torch) != row.shape
    ]
    _check_names({row.torch for row in rows} - optional, optional, lazy, wrong)
    return _to_mindspore(lazy, rows, dtype)


def _check_names(required: set[str], optional: set[str], state: LazyTensors, wrong: Sequence[str]) -> None:
    missing = sorted(required - set(state))
    unexpected = sorted(set(state) - required - optional)
    if not (missing or unexpected or wrong):
        return
    parts = []
    for what, names in (("missing", missing), ("unexpected", unexpected), ("of another shape", list(wrong))):
        if names:
            more = f" and {len(names) - 10} more" if len(names) > 10 else ""
            parts.append(f"{len(names)} {what}: {', '.join(names[:10])}{more}")
    raise WeightsError(
        f"the weights do not fit the model: {'; '.join(parts)}",
        "Give the checkpoint of this very model, and the arguments it was trained with.",
    )


def _to_mindspore(state: LazyTensors, rows: Sequence[ParameterRow], dtype: str | None) -> Iterator[tuple[str, Tensor]]:
    import torch

    owners = {row.mindspore: row.torch for row in rows if row.rule not in ("tied", "drop")}
    for row in rows:
        if row.rule == "drop" or row.mindspore is None:
            continue
        if row.rule == "tied":
            if row.torch in state and not torch.equal(state[row.torch], state[owners[row.mindspore]]):
                raise WeightsError(
                    f"{row.torch} differs from {owners[row.mindspore]}, but the model ties the two",
                    "Give a checkpoint in which they are equal, or leave one out.",
                )
            continue
        yield row.mindspore, _cast(apply_rule(row.rule, state[row.torch]), dtype)


def _to_torch(state: LazyTensors, rows: Sequence[ParameterRow], dtype: str | None) -> Iterator[tuple[str, Tensor]]:
    import torch

    rules = {row.mindspore: row.rule for row in rows if row.rule != "tied"}
    for row in rows:
        if row.mindspore is None:
            if row.torch.endswith("num_batches_tracked"):  # strict loading wants it; only momentum=None reads it
                yield row.torch, torch.zeros(row.shape, dtype=torch.int64)
            continue
        tensor = _cast(apply_rule(rules[row.mindspore], state[row.mindspore], backward=True), dtype)
        if tuple(tensor.shape) != row.shape:
            raise WeightsError(
                f"{row.mindspore}: gives {list(tensor.shape)}, but {row.torch} is {list(row.shape)}",
                "Give weights of this very port.",
            )
        yield row.torch, tensor


def apply_rule(rule: str, tensor: Tensor, backward: bool = False) -> Tensor:
    """Apply a rule of the table (or ``same``) to one tensor; the type is kept."""
    import torch

    if rule == "same":
        return tensor
    move = RULES[rule].backward if backward else RULES[rule].forward
    bits = {1: torch.int8, 2: torch.int16}.get(tensor.element_size())
    plain = tensor.detach().contiguous()
    array = (plain.view(bits) if bits and plain.ndim else plain).numpy()
    moved = torch.from_numpy(move(array).copy())
    return moved.view(tensor.dtype) if moved.dtype != tensor.dtype else moved


def _cast(tensor: Tensor, dtype: str | None) -> Tensor:
    import torch

    return tensor.to(getattr(torch, dtype)) if dtype and tensor.is_floating_point() else tensor


def fit_names(checkpoint: Checkpoint, expected: Iterable[str]) -> Checkpoint:
    """Rename a checkpoint's tensors where only a common prefix (or old LayerNorm names) keeps them from fitting.

    A checkpoint of a larger model that holds this one under a prefix fits too: what lies outside is left out, and said.
    """
    want, tensors, notes = set(expected), checkpoint.tensors, []
    if want <= set(tensors):
        return checkpoint
    old = {"gamma": "weight", "beta": "bias"}
    legacy = {n: f"{n.rpartition('.')[0]}.{old[n.rpartition('.')[2]]}" for n in tensors if n.rpartition(".")[2] in old}
    legacy = {n: new for n, new in legacy.items() if n not in want and new not in tensors}
    if legacy:
        tensors = tensors.renamed({n: legacy.get(n, n) for n in tensors})
        notes.append("renamed gamma, beta to weight, bias")

    def prefixes(names: Iterable[str]) -> set[str]:
        parts = [name.split(".") for name in names]
        return {".".join(p[:i]) + "." for p in parts for i in (1, 2) if len(p) > i}

    names, said = {name: name for name in tensors}, ""
    score = len(want & set(names))
    for prefix in sorted(prefixes(tensors)):
        inside = {n: n.removeprefix(prefix) for n in tensors if n.startswith(prefix)}
        if (hits := len(want & set(inside.values()))) > score:
            outside = len(tensors) - len(inside)
            said = f"took `{prefix}` off the names" + (f", left out {outside} tensors outside it" if outside else "")
            names, score = inside, hits
    for prefix in sorted(prefixes(want)):
        longer = {n: prefix + n for n in tensors}
        if (hits := len(want & set(longer.values()))) > score:
            names, score, said = longer, hits, f"put `{prefix}` before the names"
    return Checkpoint(tensors.renamed(names), (*checkpoint.notes, *notes, *([said] if said else [])))


def load_into_module(model: nn.Module, checkpoint: Checkpoint) -> tuple[str, ...]:
    """Load a checkpoint strictly into a torch model, and return the notes; raises WeightsError if it does not fit."""
    import torch

    own = model.state_dict()
    fitted = fit_names(checkpoint, own)
    tensors = fitted.tensors
    shared: dict[tuple[object, ...], list[str]] = {}  # names of one tensor: a checkpoint may hold any of them
    for name, tensor in own.items():
        place = tensor.data_ptr() if tensor.numel() else id(tensor)
        shared.setdefault((place, tensor.shape, tensor.stride()), []).append(name)
    required = {names[0] for names in shared.values() if not any(name in tensors for name in names)}
    wrong = [
        f"{name}: {list(tensors.shape(name))} in the checkpoint, {list(tensor.shape)} in the model"
        for name, tensor in own.items()
        if name in tensors and tensors.shape(name) != tuple(tensor.shape)
    ]
    counters = {name for name in own if name.endswith("num_batches_tracked")}  # old checkpoints lack them
    _check_names(required - counters, set(own), tensors, wrong)
    with torch.no_grad():
        for name in tensors:
            own[name].copy_(tensors[name])
    return fitted.notes


def convert_file(
    source: str | Path, target: str | Path, port: str | Path, to: Side = "mindspore", dtype: str | None = None
) -> tuple[str, ...]:
    """Convert a checkpoint file or folder for the port in folder ``port``; returns notes on what was done.

    The suffix of ``target`` says the format: ``.safetensors`` or ``.ckpt`` for MindSpore, ``.safetensors`` or
    ``.pt``/``.pth``/``.bin`` for torch. Raises WeightsError; then ``target`` is as it was.
    """
    source, target, rows = Path(source), Path(target), read_rows(port)
    writers = {".safetensors": write_safetensors, ".ckpt": write_ckpt}
    if to == "torch":
        writers = {".safetensors": write_safetensors, **dict.fromkeys((".pt", ".pth", ".bin"), write_torch)}
    if target.suffix not in writers:
        raise WeightsError(
            f"{target}: cannot write weights for {to} as {target.suffix or 'a file without suffix'}",
            f"Name a file that ends in {', '.join(writers)}.",
        )
    with tempfile.TemporaryDirectory(prefix="ms-port-") as folder:
        if to == "torch" and source.suffix == ".ckpt" and source.is_file():
            translate_format(source, source := Path(folder, "weights.safetensors"))
        checkpoint = read_checkpoint(source)
        if to == "mindspore":
            checkpoint = fit_names(checkpoint, [row.torch for row in rows if row.rule not in ("drop", "tied")])
        writers[target.suffix](target, convert(checkpoint.tensors, rows, to, dtype))
    return checkpoint.notes
