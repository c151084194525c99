"""In backward order: the last cell at whose boundary the gradient is right, and the first where it is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from ms_port.errors import one_line
from ms_port.verify.gradient_causes import gradient_causes
from ms_port.verify.gradient_repro import write_gradient_repro
from ms_port.verify.gradients import Gradients, torch_gradients
from ms_port.verify.judge import ZERO, Comparison, compare, make_truth
from ms_port.verify.loss import Loss, loss_cotangents
from ms_port.verify.objective import Objective, Projection
from ms_port.verify.session import Mode, Session
from ms_port.verify.torch_calls import Watch
from ms_port.verify.torch_side import as_array
from ms_port.verify.verdict import Divergence
from ms_port.weights.convert import apply_rule

SECONDS = 60.0
"""For trying causes."""
Key: TypeAlias = tuple[str, str, tuple[int, ...]]
"""``in`` or ``out``, path of the module, shape: gradients of tensors alike in these are added up."""


@dataclass
class Boundaries:
    """Gradients at the boundaries of modules in one run of torch. Enter it around the run (``watching``)."""

    paths: Sequence[str]
    without_inputs: frozenset[str] = frozenset()
    """Modules that write into what they are given: it can't be told apart there."""
    gradients: dict[Key, Tensor] = field(default_factory=dict)
    steps: list[tuple[str, str]] = field(default_factory=list)
    """("in" or "out", path) in forward order."""
    writers: set[str] = field(default_factory=set)

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """Hook all modules while the block runs; gradients arrive when something is differentiated afterwards."""
        modules = dict(model.named_modules())
        with ExitStack() as stack:
            for path in dict.fromkeys(self.paths):
                if path and path in modules:
                    enter = modules[path].register_forward_pre_hook(_own(self._enter, path), with_kwargs=True)
                    leave = modules[path].register_forward_hook(_own(self._leave, path), with_kwargs=True)
                    stack.callback(enter.remove)
                    stack.callback(leave.remove)
            yield

    def _enter(self, path: str, module: nn.Module, args: Any, kwargs: Any) -> Any:
        self.steps.append(("in", path))
        module.__dict__["_versions_seen"] = [t._version for t in _floats((*args, *kwargs.values()))]
        if path in self.without_inputs:
            return None
        change = partial(self._view, "in", path)
        return tuple(map(change, args)), {k: change(v) for k, v in kwargs.items()}

    def _leave(self, path: str, module: nn.Module, args: Any, kwargs: Any, out: Any) -> Any:
        self.steps.append(("out", path))
        now = [t._version for t in _floats((*args, *kwargs.values()))]
        if now != module.__dict__.pop("_versions_seen", now):
            self.writers.add(path)
        if type(out) in (tuple, list):
            return type(out)(self._view("out", path, value) for value in out)
        return self._view("out", path, out)

    def _view(self, side: str, path: str, value: Any) -> Any:
        """The tensor as one of its own, whose gradient is added to the sum of its key."""
        if not isinstance(value, Tensor) or not value.is_floating_point() or not value.requires_grad:
            return value
        key = side, path, tuple(value.shape)
        if side == "in":
            value = value.view_as(value)
        value.register_hook(partial(self._add, key))
        return value

    def _add(self, key: Key, gradient: Tensor) -> None:
        known = self.gradients.get(key)
        self.gradients[key] = gradient.detach().clone() if known is None else known + gradient.detach()


def _own(hook: Callable[..., Any], path: str) -> Callable[..., Any]:
    """The hook of a module, whose torch calls no mode sees: they are not the model's."""

    def called(*args: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return hook(path, *args)

    return called


def _floats(values: Sequence[Any]) -> list[Tensor]:
    return [v for v in values if isinstance(v, Tensor) and v.is_floating_point()]


@dataclass(frozen=True)
class Step:
    """One place in backward order with its comparison."""

    what: str
    """``in``, ``out`` or ``parameter``."""
    path: str
    name: str
    key: Key | None
    comparison: Comparison


def locate_backward(
    session: Session, mode: Mode, first: Divergence, folder: Path, timeout: float, loss: Loss | None = None
) -> Divergence:
    """Where in backward order the gradient goes wrong; ``first`` as it was where that can't be told."""
    paths = [pair.path for pair in session.port.cells if pair.cell]
    looked = Boundaries(paths)
    session.record(mode.train, watched=False, watch=looked.watching)
    writers = frozenset(looked.writers)
    found: list[tuple[Boundaries, Gradients]] = []
    cotangents = loss_cotangents(session, mode.train, loss) if loss else []
    for double in (False, True):
        boundaries = Boundaries(paths, writers)
        gradients = torch_gradients(session, mode.train, double, Projection(cotangents), watch=boundaries.watching)
        found.append((boundaries, gradients))
    (near, single), (truth, double_gradients) = found
    described = {**session.describe(mode, {}), **_wanted(session, near, single)}
    side = session.launch(folder, [described], [(session.inputs, cotangents)])
    try:
        outcome = side.finish(timeout)
    finally:
        side.stop()
    if outcome.status == "crashed":
        return first
    used = set(outcome.result["modes"][mode.name].get("probed", ()))
    load = partial(_load, folder / mode.name)
    steps = list(_steps(session, (near, single), (truth, double_gradients), load, used, double_gradients.whole))
    placed, step = _judged(session, first, steps)
    if step is not None:
        port = partial(_port_gradient, session, load)
        placed = _explained(session, mode, placed, step, port, Projection(cotangents))
    try:
        return replace(placed, repro=write_gradient_repro(session, mode, placed, Projection(cotangents)))
    except Exception as error:  # a verdict must not be lost because no script could be made
        return replace(placed, why=f"{placed.why} (there is no script: {one_line(error)})")


def _port_gradient(session: Session, load: Callable[[str], Any], step: Step) -> Any:
    """What the port has at a step."""
    if step.key is None:
        row = next(row for row in session.port.rows if row.torch == step.name)
        return load(str(row.mindspore))
    cells = {pair.path: pair.cell for pair in reversed(session.port.cells)}
    return load(_probe_name(step.key[0], cells[step.path], step.key[2]))


def _probe_name(side: str, cell: str, shape: Sequence[int]) -> str:
    return f"probe.{side}.{cell}.{'x'.join(map(str, shape))}"


def _explained(
    session: Session,
    mode: Mode,
    placed: Divergence,
    step: Step,
    load: Callable[[Step], Any],
    objective: Objective,
) -> Divergence:
    """With the call whose gradient the port has otherwise, where one change explains what the port has."""
    got = load(step)
    if got is None:
        return placed
    plain = Watch(placed.path, 0, stop=False)
    torch_gradients(session, mode.train, False, objective, watch=plain.watching)
    start = time.perf_counter()
    for call, cause in gradient_causes(plain.calls):
        if time.perf_counter() - start > SECONDS:
            break
        boundaries = Boundaries([step.path])
        watch = Watch(placed.path, 0, cause.change, stop=False)
        try:
            both = _both(watch.watching, boundaries.watching)
            found = torch_gradients(session, mode.train, True, objective, watch=both)
        except Exception:  # the change does not fit here
            continue
        gradient = boundaries.gradients.get(step.key) if step.key else found.parameters.get(step.name)
        if step.key is None and gradient is not None:
            rule = next(row.rule for row in session.port.rows if row.torch == step.name)
            gradient = apply_rule(rule, gradient)
        array = as_array(gradient) if gradient is not None else np.zeros(got.shape)
        truth = make_truth(array, array.astype(np.float32))
        limit = replace(truth, error=step.comparison.truth_error * truth.scale)
        if compare("", got, limit).equal:
            return replace(placed, op=call.name, source=call.place, cause=cause.text)
    return placed


def _both(one: Any, other: Any) -> Any:
    @contextmanager
    def entered(model: nn.Module) -> Iterator[None]:
        with one(model), other(model):
            yield

    return entered


def _wanted(session: Session, near: Boundaries, single: Gradients) -> dict[str, Any]:
    """The probes that the port shall have, and the projection."""
    cells = {pair.path: pair.cell for pair in reversed(session.port.cells)}
    probes: dict[str, dict[str, list[list[int]]]] = {}
    for side, path, shape in near.gradients:
        probes.setdefault(cells[path], {"in": [], "out": []})[side].append(list(shape))
    return {"projected": single.projected, "huge": single.huge, "updates": [], "probes": probes}


def _load(folder: Path, name: str) -> Any:
    file = folder / f"gradient.{name}.0.0.npy"
    return np.load(file) if file.exists() else None


def _steps(
    session: Session,
    near: tuple[Boundaries, Gradients],
    truth: tuple[Boundaries, Gradients],
    load: Callable[[str], Any],
    used: set[str],
    whole: float,
) -> Iterator[Step]:
    """All places in backward order: out of a module, then its children, into it, its own parameters."""
    cells = {pair.path: pair.cell for pair in reversed(session.port.cells)}
    seen: set[tuple[str, str]] = set()
    backward = [s for i, s in enumerate(near[0].steps) if s not in seen and not seen.add(s)][::-1]  # type: ignore[func-returns-value]
    done: set[str] = set()
    for side, path in [*backward, ("in", "")]:
        for key in [k for k in near[0].gradients if k[:2] == (side, path)]:
            name = _probe_name(side, cells[path], key[2])
            if name in used and key in truth[0].gradients:
                wanted, close = as_array(truth[0].gradients[key]), as_array(near[0].gradients[key])
                if np.abs(wanted).max(initial=0.0) > ZERO * whole:
                    yield Step(side, path, path, key, compare(path, load(name), make_truth(wanted, close)))
        if side == "in" and path not in done:
            done.add(path)
            for row in session.port.rows:
                want, float32 = (g.parameters.get(row.torch) for g in (truth[1], near[1]))
                if row.torch.rpartition(".")[0] != path or row.rule == "tied" or want is None or float32 is None:
                    continue
                wanted, close = as_array(apply_rule(row.rule, want)), as_array(apply_rule(row.rule, float32))
                if row.mindspore and np.abs(wanted).max(initial=0.0) > ZERO * whole:
                    comparison = compare(row.torch, load(row.mindspore), make_truth(wanted, close))
                    yield Step("parameter", path, row.torch, None, comparison)


def _judged(session: Session, first: Divergence, steps: Sequence[Step]) -> tuple[Divergence, Step | None]:
    """The module at fault, with the step that shows it, from the first wrong step and the last right one before it."""
    number = next((i for i, step in enumerate(steps) if not step.comparison.equal), None)
    if number is None:
        return first, None
    step = steps[number]
    before = steps[number - 1] if number else None
    last = "" if before is None else _told(before)
    path = step.path
    if step.what == "parameter":
        why = f"what reaches its output is right, and the gradient of its {step.name.rpartition('.')[2]} is not"
    elif step.what == "in":
        why = "what reaches its output is right, and the gradient that it passes on to its input is not"
    else:
        path = _owner(session, step.path)
        why = f"the gradient that it passes on to {step.path} is the first, from the outputs backwards, that differs"
    pair = next((p for p in session.port.cells if p.path == path), None)
    cls = (pair.cls if pair else "") or type(session.model.get_submodule(path)).__name__
    error, own = step.comparison.error, step.comparison.truth_error
    placed = replace(
        first,
        path=path,
        cell=pair.cell if pair else "",
        cls=cls,
        seen_at=step.path,
        call=0,
        error=error,
        truth_error=own,
        why=why,
        last_right=last,
    )
    return placed, step


def _told(step: Step) -> str:
    name = {"in": "into", "out": "out of"}.get(step.what)
    return f"{name} {step.path}" if name else step.name


def _owner(session: Session, path: str) -> str:
    """The nearest module around that has a cell of its own."""
    known: Mapping[str, Any] = {pair.path: pair for pair in session.port.cells}
    while path:
        path = path.rpartition(".")[0]
        if path in known and not isinstance(session.model.get_submodule(path), (nn.Sequential, nn.ModuleList)):
            return path
    return ""
