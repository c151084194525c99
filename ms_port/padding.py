"""Whether padding along the dimension labelled ``seq`` reaches the results: torch on rows as they are, and padded.

The port computes what torch does, so torch alone says it: in float64, where equal is equal but for rounding.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from ms_port.inputs import InputSpec, example_tensors, resized
from ms_port.ir.flags import Flag, Place

if TYPE_CHECKING:
    import torch

LABEL = "seq"
_ROUNDING = 1e-9
"""Of the largest value: float64 rounds a million times more finely."""
_LARGEST = 200_000_000
"""Parameters of the largest model that is run for this."""


@dataclass(frozen=True, slots=True)
class PaddingFindings:
    """Flags for padding that reaches the results, and what else is to be said."""

    flags: tuple[Flag, ...] = ()
    notes: tuple[str, ...] = ()


def find_padding(model: torch.nn.Module, specs: Sequence[InputSpec]) -> PaddingFindings:
    """Compare the model on rows of ``length`` tokens with the same rows padded to ``seq``; never raises.

    Nothing is done where no integer input has a dimension labelled ``seq``, or the model is very large.
    """
    import torch

    tokens = [s for s in specs if s.dtype.startswith("int") and LABEL in _labels(s)]
    length = next((d.size for s in tokens for d in s.dims if d.label == LABEL), 0)
    if length < 4 or sum(p.numel() for p in model.parameters()) > _LARGEST:
        return PaddingFindings()
    specs = resized(specs, {"batch": 2}) if any("batch" in _labels(s) for s in specs) else specs
    short = length - max(1, length // 4)
    try:
        double = copy.deepcopy(model).double().eval()
        runs = [_Run(double, arguments) for arguments in _arguments(specs, short)]
        with torch.no_grad():
            results = [run() for run in runs]
        if not any(t.numel() for t in results[0]):
            return PaddingFindings(notes=(f"padding along {LABEL} not tried: the outputs hold no float tensor",))
        sizes = (short, length)
        flags = [*_norms(double, runs[1], length)]
        masked = any(_is_mask(s) for s in specs if LABEL in _labels(s))
        if _differ(results[0], results[1], sizes):
            flags.append(_flag(*_first_difference(runs, sizes), sizes, masked))
    except Exception as error:  # a check beside the conversion: it never ends it
        return PaddingFindings(
            notes=(f"padding along {LABEL} not tried: {type(error).__name__}: {error}".split("\n")[0],)
        )
    if flags:
        return PaddingFindings(tuple(flags))
    return PaddingFindings(
        notes=(f"padding from {short} to {length} along {LABEL} does not change what torch returns",)
    )


def _labels(spec: InputSpec) -> list[str | None]:
    return [dim.label for dim in spec.dims]


def _is_mask(spec: InputSpec) -> bool:
    return spec.dtype == "bool" or "mask" in spec.name.lower() or (spec.limit == 2 and "type" not in spec.name.lower())


def _arguments(specs: Sequence[InputSpec], short: int) -> Iterator[dict[str, torch.Tensor]]:
    """The inputs cut to ``short``, all of them real; and the same padded with zeros, masked where there is a mask."""
    import torch

    whole = example_tensors(specs)
    cut, padded = dict[str, Any](), dict[str, Any]()
    for spec in specs:
        tensor = whole[spec.name]
        tensor = tensor.double() if tensor.dtype.is_floating_point else tensor
        if LABEL not in _labels(spec):
            cut[spec.name] = padded[spec.name] = tensor
            continue
        axis = _labels(spec).index(LABEL)
        real = tensor.narrow(axis, 0, short)
        ignored = 0
        if _is_mask(spec):
            ignored = int("padding" in spec.name.lower())
            real = torch.full_like(real, 1 - ignored)
        rest = torch.full_like(tensor.narrow(axis, short, tensor.shape[axis] - short), ignored)
        cut[spec.name], padded[spec.name] = real, torch.cat([real, rest], axis)
    yield cut
    yield padded


class _Run:
    """One call of the model, with the results of all its modules and the lines from which they were called."""

    def __init__(self, model: torch.nn.Module, arguments: Mapping[str, torch.Tensor]) -> None:
        self.model, self.arguments = model, arguments
        self.calls: list[tuple[str, str, Place | None, list[torch.Tensor]]] = []

    def __call__(self) -> list[torch.Tensor]:
        with ExitStack() as hooks:
            for name, module in self.model.named_modules():
                handle = module.register_forward_hook(self._hook(name))
                hooks.callback(handle.remove)
            return list(_tensors(self.model(**self.arguments)))

    def _hook(self, name: str) -> Callable[..., None]:
        def keep(module: torch.nn.Module, inputs: object, output: object) -> None:
            found = [tensor.clone() for tensor in _tensors(output)]
            self.calls.append((name, type(module).__name__, _caller(), found))

        return keep


def _caller() -> Place | None:
    """The line outside of torch that called the module whose hook runs."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if "torch" not in Path(file).parts and file != __file__:
            return Place(file, frame.f_lineno)
        frame = frame.f_back
    return None


def _tensors(value: object) -> Iterator[torch.Tensor]:
    import torch

    if isinstance(value, torch.Tensor):
        if value.dtype.is_floating_point:
            yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)


def _differ(short: Sequence[torch.Tensor], padded: Sequence[torch.Tensor], sizes: tuple[int, int]) -> bool:
    """Whether results differ at real positions; dimensions that are as long as the rows are cut to the real ones."""
    if len(short) != len(padded):
        return True
    for a, b in zip(short, padded, strict=True):
        if a.ndim != b.ndim:
            return True
        for axis, (real, whole) in enumerate(zip(a.shape, b.shape, strict=True)):
            if (real, whole) == sizes:
                b = b.narrow(axis, 0, real)
        if a.shape != b.shape:
            return True
        scale = max(float(a.abs().max()), 1e-30) if a.numel() else 1.0
        if a.numel() and not float((a - b).abs().max()) <= _ROUNDING * scale:
            return True
    return False


def _first_difference(runs: Sequence[_Run], sizes: tuple[int, int]) -> tuple[str, str, Place | None]:
    """Name, class and calling line of the first module (the innermost) whose results differ."""
    for (name, kind, place, short), (other, _, _, padded) in zip(runs[0].calls, runs[1].calls, strict=False):
        if name == other and _differ(short, padded, sizes):
            return name, kind, place
    return "", type(runs[0].model).__name__, None


def _flag(name: str, kind: str, place: Place | None, sizes: tuple[int, int], masked: bool) -> Flag:
    short, length = sizes
    where = f"`{name}` ({kind})" if name else f"`{kind}` itself"
    return Flag(
        rule="MSP706",
        severity="info",
        message=f"rows of {short} tokens give other results once they are padded to {length}: "
        f"the first that differs is {where}" + ("" if masked else "; the model reads no mask"),
        module=name,
        source=place,
        advice="pass a mask on to it, or group rows by length (buckets in config.yaml) so that little is padded",
    )


def _norms(model: torch.nn.Module, run: _Run, length: int) -> Iterator[Flag]:
    """BatchNorm over padded positions: their values enter its statistics in training."""
    from torch.nn.modules.batchnorm import _BatchNorm

    modules = dict(model.named_modules())
    for name, kind, place, results in run.calls:
        if isinstance(modules[name], _BatchNorm) and any(length in r.shape[1:] for r in results):
            yield Flag(
                rule="MSP706",
                severity="info",
                message=f"`{name}` ({kind}) counts padded positions into its statistics in training",
                module=name,
                source=place,
                advice="LayerNorm, or buckets of equal length (config.yaml)",
            )
