"""Both sides of one verification: the torch records of each mode and the MindSpore job that they ask for."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ms_port.capture.user_code import UserCode
from ms_port.errors import BadInput, one_line, raised_at
from ms_port.verify.judge import Array, Truth
from ms_port.verify.port import Inputs, Port, noisy_weights
from ms_port.verify.process import Side, save_arrays, save_inputs
from ms_port.verify.statistics import FittedStatistics
from ms_port.verify.torch_side import Record, run, state_of
from ms_port.weights import convert, write_safetensors

BUDGET = 1 << 28
"""Elements of cell outputs that are kept at once; larger models are compared on every so-manieth element."""
OTHERS = 2
"""Further batches on which what differs is looked at again: a jump within rounding doesn't show there."""
MOST_CALLS = 8
"""A cell called more often is compared at its last call only."""


@dataclass
class Mode:
    """The model in eval or train mode."""

    name: str
    train: bool
    single: Record
    taps: dict[str, list[list[tuple[list[int], str]]]] = field(default_factory=dict)
    """What the port's cells should give: by cell, call and tensor, its shape and type."""
    calls: dict[str, int] = field(default_factory=dict)
    """By cell, the number of the first call that is kept."""
    truth: Record = field(default_factory=Record)


@dataclass
class Session:
    """One model with one set of weights and inputs."""

    port: Port
    model: nn.Module
    inputs: Inputs
    weights: dict[str, Tensor]
    """By the port's names, on both sides the same."""
    state: dict[str, Tensor]
    """The same by torch's names."""
    seed: int = 0
    measured: tuple[str, ...] = ()
    """Parameters that were set from a run of torch, and so can't be made again from the seed."""
    stride: int = 1
    arithmetic: AbstractContextManager[Any] = field(default_factory=nullcontext)
    """Entered around each run of torch (see ``cpu_kernels``)."""

    @staticmethod
    def prepare(port: Port, model: nn.Module, inputs: Inputs, seed: int) -> Session:
        """Choose the weights: the port's own if they come from a checkpoint, else with noise. Raises WeightsError."""
        stored = port.weights(model)
        kinds = port.kinds(model)
        weights = {name: stored[name] for name in stored} if port.trained else noisy_weights(stored, kinds, seed)
        weights = {name: t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for name, t in weights.items()}
        state = dict(convert(weights, port.rows, to="torch"))
        session = Session(port, model, inputs, weights, state, seed)
        if not port.trained and "mean" in kinds.values():
            session._calibrate(kinds, seed)
        return session

    def _calibrate(self, kinds: Mapping[str, str], seed: int) -> None:
        """Set running statistics near those of the example batch, so that activations keep a sensible size in eval."""
        rows = {row.torch: row.mindspore or "" for row in self.port.rows}
        statistics = {name: ours for name, ours in rows.items() if kinds.get(ours) in ("mean", "variance")}
        try:
            with state_of(self.model, self.state), torch.no_grad(), torch.random.fork_rng(devices=[]):
                self.model.eval()
                buffers = {name: t for name, t in self.model.named_buffers() if name in statistics}
                fitted = FittedStatistics({id(t): statistics[name] for name, t in buffers.items()}, seed)
                with fitted:
                    self.inputs.call(self.model)
                found = {name: t.detach().clone() for name, t in buffers.items() if id(t) in fitted.fitted}
        except Exception:  # what does not run in eval has no activations there; then the noise around 0 and 1 stays
            return
        for name, value in found.items():
            self.measured += (statistics[name],)
            self.weights[statistics[name]] = self.state[name] = value

    def varied(self, number: int) -> Session:
        """The same with another batch (0 is this one)."""
        return replace(self, inputs=self.inputs.varied(number)) if number else self

    def record(self, train: bool, watched: bool = True, **options: Any) -> Record:
        """Run torch once, and record every module that has a cell if ``watched``."""
        double = bool(options.get("double"))
        with state_of(self.model, self.state, double), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            paths = [c.path for c in self.port.cells if c.cell] if watched else []
            return run(self.model, self.call, paths, train=train, stride=self.stride, **options)

    def call(self, model: nn.Module, wide: bool = False, leaves: dict[int, Tensor] | None = None) -> Any:
        """Call the model as ``Inputs.call`` does, in the session's arithmetic."""
        with self.arithmetic:
            return self.inputs.call(model, wide, leaves)

    def mode(self, train: bool) -> Mode:
        """Torch's float32 record of a mode, and the taps for the port."""
        mode = Mode("train" if train else "eval", train, self.record(train))
        size = sum(a.size for call in mode.single.values.values() for a in call)
        if not train and size > BUDGET // 2:  # decided in eval, for both modes
            self.stride = -(-2 * size // BUDGET)
            mode = Mode(mode.name, train, self.record(train))
        mode.taps, mode.calls = _taps(self.port, mode.single.values)
        return mode

    def start(
        self,
        job: Path,
        modes: Sequence[Mode],
        taps: bool = True,
        arguments: Mapping[str, Any] | None = None,
        side: Side | None = None,
    ) -> Side:
        """Run the port in a process of its own, with the modes' taps, without, or with taps on cells' arguments.

        ``side``: a process that waits in the folder ``job`` already.
        """
        described = [self.describe(mode, arguments or (mode.taps if taps else {}), bool(arguments)) for mode in modes]
        return self.launch(job, described, side=side, built=True)

    def launch(
        self,
        job: Path,
        described: Sequence[Mapping[str, Any]],
        batches: Sequence[tuple[Inputs, Sequence[Tensor]]] = (),
        side: Side | None = None,
        **more: Any,
    ) -> Side:
        """Run the port in the modes described as ``observe``, ``observe_gradient`` or ``train`` want it.

        ``batches``: inputs and cotangents for the modes that take several. ``more`` goes into the job: ``out`` (another
        folder with the package), ``built`` (tell how cells are made).
        """
        weights = job.parent / "weights.safetensors"
        if not weights.exists():
            write_safetensors(weights, self.weights.items())
        side = side or Side(job)
        (job / "weights.safetensors").symlink_to(weights)
        named = self.inputs.named(self.model)
        saved = [
            {
                "inputs": save_inputs(inputs.named(self.model), job, f"batch{i}."),
                "cotangents": save_arrays(cotangents, job, f"cotangent{i}."),
            }
            for i, (inputs, cotangents) in enumerate(batches)
        ]
        spec = {
            "out": str(self.port.out),
            "package": self.port.package,
            "device": "CPU",
            "modes": [{**mode, "batches": saved} for mode in described] if saved else list(described),
            "mapped": [pair.cell for pair in self.port.cells],
            "inputs": save_inputs(named, job),
            **more,
        }
        side.give(spec)
        return side

    def describe(self, mode: Mode, taps: Mapping[str, Any], arguments: bool = False) -> dict[str, Any]:
        """A mode as ``observe`` wants it."""
        pairs = {pair.path: pair.cell for pair in reversed(self.port.cells)}
        buffers = {name for name, _ in self.model.named_buffers()}
        statistics = [r.mindspore for r in self.port.rows if r.mindspore and r.torch in buffers and r.rule != "tied"]
        drawn = mode.single.draws.drawn
        return {
            "mode": mode.name,
            "train": mode.train,
            "stride": self.stride,
            "taps": taps,
            "arguments": arguments,
            "statistics": statistics if mode.train else [],
            "draws": [{**asdict(draw), "cell": pairs.get(draw.path, f"? {draw.path}")} for draw in drawn],
        }


def _taps(port: Port, values: Mapping[tuple[str, int], Sequence[Any]]) -> tuple[dict[str, Any], dict[str, int]]:
    taps: dict[str, Any] = {}
    first: dict[str, int] = {}
    for pair in port.cells:
        calls: list[Any] = []
        while (pair.path, len(calls)) in values:
            calls.append(values[pair.path, len(calls)])
        # The root's tensors are the outputs, and a cell that was tapped as root can't be compiled again as a child.
        if calls and pair.cell and pair.cell not in taps:
            first[pair.cell] = 0 if len(calls) <= MOST_CALLS else len(calls) - 1
            taps[pair.cell] = [shapes_of(call) for call in calls[first[pair.cell] :]]
    return taps, first


def shapes_of(arrays: Sequence[Array | Truth]) -> list[tuple[list[int], str]]:
    """Shape and type of what a cell gives, as the MindSpore side wants them."""
    plain = [a.values if isinstance(a, Truth) else a for a in arrays]
    return [(list(a.shape), "int64" if a.dtype.kind in "iub" else "float32") for a in plain]


def check_inputs(model: nn.Module, inputs: Inputs) -> None:
    """Raise BadInput if the inputs are not arguments of ``forward``."""
    try:
        inspect.signature(model.forward).bind(*inputs.args, **inputs.kwargs)
    except TypeError as error:
        where = f"{type(model).__name__}.forward"
        raise BadInput(
            f"the inputs do not fit forward: {error}", where=where, advice="check names and order"
        ) from error


_ADVICE = {
    IndexError: "an integer input points past the end of what it indexes: give its range, as in "
    "--input 'ids:int64[2,128]<30522' (the number of embeddings)",
    RuntimeError: "check shapes, types and ranges of the inputs (--input name:dtype[dims])",
}


def forward_failed(model: nn.Module, error: Exception) -> BadInput:
    """torch's own forward raised on real data: nothing can be compared. The place is the person's own line."""
    file, line = UserCode().raised_at(error)
    return BadInput(
        f"{type(model).__name__} raised {one_line(error)}",
        where=f"{file}:{line}" if file else raised_at(error) or type(model).__name__,
        advice=_ADVICE.get(type(error), "check that the model runs on these inputs in torch"),
    )
