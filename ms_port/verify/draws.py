"""Make the random draws of a torch model repeatable, so that the port can be given the same numbers.

Every draw becomes a function of the module that draws, the number of its draw and the shape: uniform numbers in [0, 1)
or normal ones. Dropout keeps where ``u >= p``, a Bernoulli variable is 1 where ``u < p``. Draws not known here are left
to torch's generator; the caller sees by its state that there were some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ms_port.verify.noise import numbers


@dataclass(frozen=True)
class Draw:
    """One draw: the module's path, the number of the draw there and what was asked for (see ``noise.numbers``)."""

    path: str
    number: int
    kind: str
    """``dropout``, ``uniform`` or ``normal``."""
    shape: tuple[int, ...]
    """Of the numbers."""
    p: float = 0.0
    input_shape: tuple[int, ...] = ()
    """Of what a dropout is applied to."""


@dataclass
class Draws:
    """All draws of one run, in order; runs of one model on inputs of one shape draw the same."""

    drawn: list[Draw] = field(default_factory=list)
    _paths: list[str] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def replaying(self, model: nn.Module) -> Iterator[None]:
        """Give the model its draws from here while the block runs."""
        with ExitStack() as stack:
            for path, module in model.named_modules():
                enter = module.register_forward_pre_hook(partial(self._enter, path))
                leave = module.register_forward_hook(self._leave, always_call=True)
                stack.callback(enter.remove)
                stack.callback(leave.remove)
            stack.enter_context(_DrawMode(self))
            yield

    def _enter(self, path: str, module: nn.Module, args: Any) -> None:
        self._paths.append(path)

    def _leave(self, module: nn.Module, args: Any, out: Any) -> None:
        if self._paths:
            self._paths.pop()

    def draw(self, kind: str, shape: tuple[int, ...], **more: Any) -> Tensor:
        """Numbers for the module that runs, in float32."""
        path = self._paths[-1] if self._paths else ""
        number = self._counts.get(path, 0)
        self._counts[path] = number + 1
        self.drawn.append(Draw(path, number, kind, shape, **more))
        return torch.from_numpy(numbers(path, number, kind, shape))


class _DrawMode(TorchFunctionMode):
    def __init__(self, draws: Draws) -> None:
        super().__init__()
        self.draws = draws

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _DROPOUTS:
            bound = _bind_dropout(*args, **kwargs)
            if bound["training"] and 0.0 < bound["p"] < 1.0:
                return self._dropout(_DROPOUTS[func], **bound)
        elif func is F.scaled_dot_product_attention:
            bound = _bind_attention(*args, **kwargs)
            if bound["dropout_p"] > 0.0:
                return self._attention(**bound)
        elif func in _RECURRENT and len(args) == 9 and isinstance(args[2], (list, tuple)):
            if args[5] > 0.0 and args[6] and args[4] > 1:
                return self._recurrent(func, *args)
        elif func in _MAKERS:
            return self._make(_MAKERS[func], *args, **kwargs)
        elif func in _LIKE:
            like = args[0]
            dtype = kwargs.get("dtype") or like.dtype
            return self.draws.draw(_LIKE[func], tuple(like.shape)).to(dtype)
        elif func in (torch.bernoulli, torch.Tensor.bernoulli) and len(args) == 1 and not kwargs.get("p"):
            return (self.draws.draw("uniform", tuple(args[0].shape)) < args[0]).to(args[0].dtype)
        elif func in _IN_PLACE:
            return args[0].copy_(_IN_PLACE[func](self.draws, *args, **kwargs))
        return func(*args, **kwargs)

    def _dropout(self, axes: int, input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
        shape = tuple(input.shape)
        if axes:  # whole channels: one number for the last `axes` axes
            kept = max(len(shape) - axes, 1)
            shape = shape[:kept] + (1,) * (len(shape) - kept)
        u = self.draws.draw("dropout", shape, p=p, input_shape=tuple(input.shape))
        scale = (u >= p).to(torch.float32) / float(np.float32(1.0 - p))
        return input.mul_(scale.to(input.dtype)) if inplace else input * scale.to(input.dtype)

    def _attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Any,
        dropout_p: float,
        causal: bool,
        scale: Any,
        gqa: bool,
    ) -> Tensor:
        """Attention written out, with the dropout between softmax and values."""
        if gqa:
            key, value = (t.repeat_interleave(query.shape[-3] // t.shape[-3], -3) for t in (key, value))
        scores = (query * (scale or query.shape[-1] ** -0.5)) @ key.transpose(-1, -2)
        if causal:
            mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        return self._dropout(0, scores.softmax(-1), dropout_p, True, False) @ value

    def _recurrent(
        self,
        func: Any,
        x: Tensor,
        hx: Any,
        weights: Any,
        biases: bool,
        layers: int,
        p: float,
        train: bool,
        both_ways: bool,
        batch_first: bool,
    ) -> Any:
        """An LSTM, GRU or RNN layer by layer, with the dropout between layers; states are a tuple for the LSTM."""
        x = x.transpose(0, 1) if batch_first else x
        size, width = len(weights) // layers, 2 if both_ways else 1
        states = []
        for layer in range(layers):
            rows, part = slice(layer * width, (layer + 1) * width), weights[layer * size : (layer + 1) * size]
            start = tuple(h[rows] for h in hx) if isinstance(hx, (tuple, list)) else hx[rows]
            x, *last = func(x, start, part, biases, 1, 0.0, train, both_ways, False)
            states.append(last)
            if layer < layers - 1:
                x = self._dropout(0, x, p, True, False)
        return x.transpose(0, 1) if batch_first else x, *(torch.cat(s) for s in zip(*states, strict=True))

    def _make(self, kind: str, *args: Any, **kwargs: Any) -> Tensor:
        size = kwargs.get("size", args)
        if len(size) == 1 and not isinstance(size[0], int):
            size = size[0]
        dtype = kwargs.get("dtype") or torch.get_default_dtype()
        return self.draws.draw(kind, tuple(int(n) for n in size)).to(dtype)


def _bind_dropout(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, train: bool = True
) -> dict[str, Any]:
    return {"input": input, "p": p, "training": training and train, "inplace": inplace}


def _bind_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> dict[str, Any]:
    named = {"query": query, "key": key, "value": value, "mask": attn_mask, "dropout_p": dropout_p}
    return {**named, "causal": is_causal, "scale": scale, "gqa": enable_gqa}


def _bernoulli_(draws: Draws, self: Tensor, p: Any = 0.5, generator: Any = None) -> Tensor:
    return torch.lt(draws.draw("uniform", tuple(self.shape)), p).to(self.dtype)


def _uniform_(draws: Draws, self: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None, **k: Any) -> Tensor:
    low, high = k.get("from", a), k.get("to", b)
    numbers = draws.draw("uniform", tuple(self.shape)).to(self.dtype)
    scaled: Tensor = numbers.mul(high - low)
    return scaled.add(low)


def _normal_(draws: Draws, self: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    numbers = draws.draw("normal", tuple(self.shape)).to(self.dtype)
    return numbers.mul(std).add(mean)


_DROPOUTS: dict[Any, int] = {F.dropout: 0, torch.dropout: 0, F.dropout1d: 1, F.dropout2d: 2, F.dropout3d: 3}
"""Function -> number of last axes that share one draw (0: none)."""
_RECURRENT = (torch._VF.lstm, torch._VF.gru, torch._VF.rnn_tanh, torch._VF.rnn_relu)
_MAKERS: dict[Any, str] = {torch.rand: "uniform", torch.randn: "normal"}
_LIKE: dict[Any, str] = {torch.rand_like: "uniform", torch.randn_like: "normal"}
_IN_PLACE: dict[Any, Callable[..., Tensor]] = {
    torch.Tensor.bernoulli_: _bernoulli_,
    torch.Tensor.uniform_: _uniform_,
    torch.Tensor.normal_: _normal_,
}
