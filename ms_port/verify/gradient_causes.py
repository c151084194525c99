"""What gives a port another gradient though its results are right: changes of torch calls, to be tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ms_port.verify.gradients import Seen
from ms_port.verify.session import Session
from ms_port.verify.torch_calls import OUTSIDE, Change, TorchCall
from ms_port.verify.verdict import Divergence


@dataclass(frozen=True)
class GradientCause:
    """Changes by number of the call, and how they are told."""

    text: str
    change: Mapping[int, Change]


def gradient_causes(calls: Sequence[TorchCall]) -> Iterator[tuple[TorchCall, GradientCause]]:
    """All known causes for the calls of one module, those from the outputs backwards first."""
    for number in reversed(range(len(calls))):
        call = calls[number]
        if call.func is None:
            continue
        short = call.name.rpartition(".")[2]
        if short in ("detach", "detach_"):
            yield call, GradientCause("the port lets the gradient through (no stop_gradient)", {number: _through})
        if short == "embedding":
            text = "the row of padding_idx gets a gradient in the port"
            yield call, GradientCause(text, {number: _without_padding})
        if (cast := _cast_before(calls, number)) is not None:
            text = "the gradient goes through the cast to integers in the port"
            yield call, GradientCause(text, _straight(cast, number))
            yield call, GradientCause(f"{text}, as whole numbers", _straight(cast, number, whole=True))
        if any(t.is_floating_point() for t in call.results):
            text = "the port passes no gradient back through this call (stop_gradient, a cast, numpy)"
            yield call, GradientCause(text, {number: _detached})
        floats = [i for i, a in enumerate(call.args) if isinstance(a, Tensor) and a.is_floating_point()]
        for i in floats if len(floats) > 1 else ():
            text = f"the port passes no gradient back to operand {i + 1} (stop_gradient)"
            yield call, GradientCause(text, {number: partial(_operand_detached, i)})


def _cast_before(calls: Sequence[TorchCall], number: int) -> int | None:
    """The number of the call that made integers of floats, if this call makes floats of them again."""
    call = calls[number]
    makers = [m for m in call.made_by if m != OUTSIDE]
    if len(makers) != 1 or calls[makers[0]].func is None or not call.results[0].is_floating_point():
        return None
    before = calls[makers[0]]
    given = before.args[0] if before.args else None
    whole = bool(before.results) and not before.results[0].is_floating_point()
    return makers[0] if whole and isinstance(given, Tensor) and given.is_floating_point() else None


def _through(func: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    return args[0]


def _detached(func: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    out = func(*args, **kwargs)
    return out.detach() if isinstance(out, Tensor) else type(out)(o.detach() for o in out)


def _operand_detached(place: int, func: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    return func(*args[:place], args[place].detach(), *args[place + 1 :], **kwargs)


def _without_padding(func: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    return func(*args[:2], **{**kwargs, "padding_idx": None})


class _Whole(torch.autograd.Function):
    """The same tensor; its gradient loses what stands behind the point."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.trunc()


def _straight(cast: int, back: int, whole: bool = False) -> Mapping[int, Change]:
    """The value of the cast with the gradient of what it was given, of which the cast leaves ``whole`` numbers."""
    held: list[Tensor] = []

    def hold(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
        held[:] = [args[0]]
        return func(*args, **kwargs)

    def add(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
        given = _Whole.apply(held[0]) if whole else held[0]
        return func(*args, **kwargs) + (given - held[0].detach())

    return {cast: hold, back: add}


def untied(session: Session, seen: Seen, first: Divergence) -> Divergence:
    """With the cause, where torch trains one parameter under several names and the port more than one."""
    owners = {row.torch: row.mindspore for row in session.port.rows if row.rule != "tied"}
    known = set(owners.values())
    if all(name in known for name in seen.report["trained"]):
        return first
    for row in session.port.rows:
        if row.rule == "tied" and first.path in {name.rpartition(".")[0] for name in (row.torch, _owner(session, row))}:
            cause = f"torch ties {row.torch} to {_owner(session, row)}; in the port they are two parameters"
            # The cell alone is right, so a script of it would show nothing.
            if first.repro:
                (session.port.out / first.repro).unlink(missing_ok=True)
            return replace(first, cause=cause, repro="")
    return first


def _owner(session: Session, tied: Any) -> str:
    """Torch's name of the parameter that a tied one is."""
    same = (r.torch for r in session.port.rows if r.rule != "tied" and r.mindspore == tied.mindspore)
    return next(same, tied.torch)
