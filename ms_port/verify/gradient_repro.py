"""``report/repro_*_gradient.py``: one cell with its saved inputs and the gradient that reaches it, to be run alone."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ms_port.resources import render
from ms_port.verify.bisect import arguments_of
from ms_port.verify.gradients import torch_gradients
from ms_port.verify.judge import Array
from ms_port.verify.objective import Objective
from ms_port.verify.port import Inputs
from ms_port.verify.session import Mode, Session
from ms_port.verify.torch_side import as_array, run, state_of, tensors
from ms_port.verify.verdict import Divergence
from ms_port.weights.convert import apply_rule


@dataclass
class Arriving:
    """The gradients that reach the float outputs of a module. Enter it around a run (``watching``)."""

    path: str
    gradients: dict[int, Tensor] = field(default_factory=dict)
    outputs: list[Tensor] = field(default_factory=list)
    calls: int = 0

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        handle = model.get_submodule(self.path).register_forward_hook(self._leave)
        try:
            yield
        finally:
            handle.remove()

    def _leave(self, module: nn.Module, args: Any, out: Any) -> None:
        self.calls += 1
        self.outputs = [t for t in tensors(out) if t.is_floating_point()]
        for i, tensor in enumerate(self.outputs):
            if tensor.requires_grad:
                tensor.register_hook(partial(self._keep, i))

    def _keep(self, number: int, gradient: Tensor) -> None:
        self.gradients[number] = gradient.detach()

    def all(self) -> list[Tensor]:
        """For each float output, zeros where none arrives."""
        pairs = enumerate(self.outputs)
        return [self.gradients.get(i, torch.zeros_like(t)).detach().float() for i, t in pairs]


def write_gradient_repro(session: Session, mode: Mode, first: Divergence, objective: Objective) -> str:
    """Write script and arrays into OUT/report; returns the script's path relative to OUT, empty if it can't be.

    It can't where the cell runs several times, draws random numbers, or takes other things than tensors.
    """
    prefix = f"{first.path}." if first.path else ""
    if any(f"{draw.path}.".startswith(prefix) for draw in mode.single.draws.drawn):
        return ""
    arriving = Arriving(first.path)
    torch_gradients(session, mode.train, False, objective, watch=arriving.watching)
    given = arguments_of(session, mode, [first.path]).get(first.path)
    module = session.model.get_submodule(first.path)
    if arriving.calls != 1 or given is None or (inputs := _in_order(module, given)) is None:
        return ""
    cotangents = arriving.all()
    single, double = (_local(session, mode, module, given, cotangents, wide) for wide in (False, True))
    saved: dict[str, Array] = {f"in{i}": _plain(t) for i, t in enumerate(inputs)}
    saved |= {f"arrives{i}": as_array(t) for i, t in enumerate(cotangents)}
    prefix = f"{first.cell}." if first.cell else ""
    for name, tensor in session.weights.items():
        if name.startswith(prefix):
            saved[f"parameter.{name.removeprefix(prefix)}"] = tensor.numpy()
    places = {id(t): i for i, t in enumerate(inputs)}
    order = {place: places[id(t)] for place, t in enumerate(given.tensors()) if t.is_floating_point()}
    names: dict[str, tuple[Any, str]] = {f"in{i}": (place, "same") for place, i in order.items()}
    names |= {
        f"parameter.{row.mindspore.removeprefix(prefix)}": (row.torch, row.rule)
        for row in session.port.rows
        if row.mindspore and row.mindspore.startswith(prefix) and row.rule != "tied" and row.torch in double
    }
    for name, (key, rule) in names.items():
        truth, near = double[key], single[key]
        if truth is not None and near is not None:
            saved[f"truth.{name}"] = as_array(apply_rule(rule, truth))
            saved[f"torch.{name}"] = as_array(apply_rule(rule, near))
    stem = "repro_" + re.sub(r"\W+", "_", first.path or "root") + "_gradient"
    folder = session.port.out / "report"
    folder.mkdir(exist_ok=True)
    np.savez(folder / f"{stem}.npz", **saved)
    text = render(
        "repro_gradient.py.j2",
        first=first,
        stem=stem,
        package=session.port.package,
        train=mode.train,
        inputs=len(inputs),
        floats=sorted(order.values()),
        outputs=len(cotangents),
    )
    (folder / f"{stem}.py").write_text(text, encoding="utf-8")
    return f"report/{stem}.py"


def _plain(tensor: Tensor) -> Array:
    return as_array(tensor) if tensor.is_floating_point() else tensor.numpy()


def _in_order(module: nn.Module, given: Inputs) -> list[Tensor] | None:
    """The arguments by position; None if they are not tensors alone."""
    bound = inspect.signature(module.forward).bind(*given.args, **given.kwargs)
    values = [*bound.args, *bound.kwargs.values()]
    found = [v for v in values if isinstance(v, Tensor)]
    return found if len(found) == len(values) and not bound.kwargs else None


def _local(
    session: Session, mode: Mode, module: nn.Module, given: Inputs, cotangents: list[Tensor], double: bool
) -> Mapping[Any, Tensor | None]:
    """The gradients of one call of a module: by torch's name of the parameter, by the place of the input."""
    leaves: dict[int, Tensor] = {}
    with state_of(session.model, session.state, double), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)

        def call(root: nn.Module, wide: bool) -> Any:
            return given.call(root, wide, leaves)

        record = run(module, call, [], train=mode.train, double=double, gradient=True)
        outputs = [t for t in record.outputs if t.is_floating_point()]
        pairs = [(t, c.to(t.dtype)) for t, c in zip(outputs, cotangents, strict=True) if t.requires_grad]
        own = {id(p) for p in module.parameters()}
        wanted: dict[Any, Tensor] = {n: p for n, p in session.model.named_parameters() if id(p) in own}
        wanted = {n: p for n, p in wanted.items() if p.requires_grad} | leaves
        grads = torch.autograd.grad(
            [t for t, _ in pairs], list(wanted.values()), [c for _, c in pairs], allow_unused=True
        )
    return dict(zip(wanted, grads, strict=True))
