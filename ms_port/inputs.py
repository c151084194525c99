"""Example inputs: ``--input`` specifications, ``--static`` sizes, and seeded tensors made from them."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ms_port.errors import BadInput

if TYPE_CHECKING:
    import torch

_SPEC = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*:\s*(?P<dtype>\w+)\s*\[(?P<dims>[^\]]*)\]\s*(?:<\s*(?P<limit>\d+))?\Z")
_DIM = re.compile(r"(?:(?P<label>[A-Za-z_]\w*)\s*=\s*)?(?P<size>\d+)\Z")
_FLOATS = ("float32", "float64", "float16", "bfloat16", "complex64", "complex128")
_INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
DTYPES = (*_FLOATS, *_INTEGERS, "bool")
_FORM = "write name:dtype[dim,...] as in 'x:float32[batch=8,3,224,224]' or 'ids:int64[2,128]<30522' (in quotes)"


@dataclass(frozen=True, slots=True)
class Dim:
    """One dimension: its size, and a label that ``--static`` can change (``batch=8``)."""

    size: int
    label: str | None = None

    def __str__(self) -> str:
        return f"{self.label}={self.size}" if self.label else str(self.size)


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One tensor argument of ``forward``: ``name:dtype[dims]<limit``; integers lie in 0 ... limit-1."""

    name: str
    dtype: str
    dims: tuple[Dim, ...]
    limit: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(d.size for d in self.dims)

    def __str__(self) -> str:
        limit = f"<{self.limit}" if self.limit is not None else ""
        return f"{self.name}:{self.dtype}[{','.join(map(str, self.dims))}]{limit}"


def parse_spec(text: str) -> InputSpec:
    """One ``--input``. Raises BadInput."""
    where = f"--input {text}"
    match = _SPEC.match(text.strip())
    if match is None:
        raise BadInput(f"'{text}' is not an input specification", where=where, advice=_FORM)
    dtype = match["dtype"]
    if dtype not in DTYPES:
        raise BadInput(f"'{dtype}' is not a dtype", where=where, advice=f"one of {', '.join(DTYPES)}")
    dims = tuple(_dim(part.strip(), where) for part in match["dims"].split(",")) if match["dims"].strip() else ()
    limit = int(match["limit"]) if match["limit"] else None
    if limit is not None and dtype not in _INTEGERS:
        raise BadInput(
            f"a range ('<{limit}') is for integers, {match['name']} is {dtype}", where=where, advice="leave it out"
        )
    if limit == 0:
        raise BadInput("a range of '<0' holds no integer", where=where, advice="write the number of possible values")
    return InputSpec(match["name"], dtype, dims, limit)


def _dim(text: str, where: str) -> Dim:
    match = _DIM.match(text)
    if match is None:
        raise BadInput(f"'{text}' is not a dimension", where=where, advice="a number or label=number: batch=8")
    return Dim(int(match["size"]), match["label"])


def parse_specs(texts: Sequence[str], static: Mapping[str, int] | None = None) -> tuple[InputSpec, ...]:
    """All ``--input`` options, with ``--static`` sizes put in. Raises BadInput (a label must have one size)."""
    specs = tuple(parse_spec(text) for text in texts)
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"input '{name}' is given twice", where="--input", advice="keep one of the two")
    sizes: dict[str, int] = {}
    for spec in specs:
        for dim in spec.dims:
            if dim.label and sizes.setdefault(dim.label, dim.size) != dim.size:
                raise BadInput(
                    f"'{dim.label}' is {sizes[dim.label]} in one input and {dim.size} in another",
                    where=f"--input {spec}",
                    advice="give the label one size, or use two labels",
                )
    unknown = sorted(set(static or {}) - set(sizes))
    if unknown:
        known = (
            f"labels given: {', '.join(sorted(sizes))}"
            if sizes
            else "label a dimension first: --input 'x:float32[batch=8,3]'"
        )
        raise BadInput(f"no input has a dimension labelled '{unknown[0]}'", where="--static", advice=known)
    return resized(specs, static or {})


def resized(specs: Sequence[InputSpec], sizes: Mapping[str, int]) -> tuple[InputSpec, ...]:
    """The specs with other sizes for labels."""
    return tuple(
        replace(spec, dims=tuple(replace(d, size=sizes.get(d.label or "", d.size)) for d in spec.dims))
        for spec in specs
    )


def parse_static(text: str | None) -> dict[str, int]:
    """``batch=32,seq=128`` as sizes by label. Raises BadInput."""
    sizes: dict[str, int] = {}
    for part in (text or "").split(","):
        if not part.strip():
            continue
        match = _DIM.match(part.strip())
        if match is None or not match["label"] or int(match["size"]) == 0:
            raise BadInput(
                f"'{part}' is not label=size", where=f"--static {text}", advice="write --static batch=32,seq=128"
            )
        sizes[match["label"]] = int(match["size"])
    return sizes


def example_tensors(specs: Sequence[InputSpec], seed: int = 0) -> dict[str, torch.Tensor]:
    """Seeded inputs by name: floats normal, integers over their range, masks mixed and never all ones.

    The same spec and seed give the same tensor, whatever other inputs there are.
    """
    import torch

    return {spec.name: torch.from_numpy(_array(spec, seed)).to(getattr(torch, spec.dtype)) for spec in specs}


def _array(spec: InputSpec, seed: int) -> NDArray[Any]:
    rng = np.random.default_rng((seed, zlib.crc32(spec.name.encode())))
    if spec.dtype == "bool":
        return _mask(rng, spec.shape, full_rows=False).astype(bool)
    if spec.dtype in _INTEGERS:
        # Without a range nothing is known of the embedding behind it: 0 and 1 fit every one.
        limit = spec.limit if spec.limit is not None else 2
        if limit == 2:
            return _mask(rng, spec.shape, full_rows=True)
        return np.asarray(rng.integers(0, limit, spec.shape))
    if spec.dtype.startswith("complex"):
        return np.asarray(rng.standard_normal(spec.shape) + 1j * rng.standard_normal(spec.shape))
    return np.asarray(rng.standard_normal(spec.shape))


def _mask(rng: np.random.Generator, shape: tuple[int, ...], full_rows: bool) -> NDArray[Any]:
    """Ones, then zeros along the last dimension; the first position is 1, at least one row ends in zeros.

    ``full_rows``: rows without zeros may occur (0/1 integers, where 1 means "keep"). A boolean mask may mean "ignore",
    where a row of ones would leave nothing, so there every row is mixed.
    """
    if not shape:
        return np.asarray(1)
    length, rows = shape[-1], int(np.prod(shape[:-1], dtype=np.int64))
    longest = length if full_rows or length == 1 else length - 1
    ends = rng.integers(1, longest + 1, rows)
    if rows and length > 1:
        ends[0] = longest
        ends[-1] = max(1, length - max(1, length // 4)) if ends[-1] == length else ends[-1]
    return (np.arange(length)[None] < ends[:, None]).astype(np.int64).reshape(shape)
