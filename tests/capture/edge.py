"""Models at the edges: value reads, writes through views, wrappers, odd inputs, faults."""

from __future__ import annotations

import functools
import random
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class Reads(nn.Module):
    """Every kind of value read, after a write through a view that the values depend on."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, lengths):
        x = x.clone()
        x[:, 0].fill_(3.0)  # a write through a view, seen by the read below
        first = float(x[0, 0])
        if (lengths > 2).any():
            x = x + 1
        longest = int(lengths.max())
        kept = x[lengths > 1]
        where = torch.nonzero(lengths > 1)
        steps = torch.arange(lengths.sum())
        listed = lengths.tolist()
        array = lengths.numpy()
        head = x[:, : lengths.min()]
        return self.linear(kept), first, longest, where, steps, listed, array, head, f"{x[0, 0]:.1f}"


class StaleRead(nn.Module):
    """A read that needs the state before a write that an earlier read has replayed already."""

    def forward(self, x):
        a = x * 1
        b = a + 1
        a.add_(10)
        late = a.sum().item()
        early = b.sum().item()
        return late, early


class Writes(nn.Module):
    """In-place writes: to a view of a view, to an alias, by a function, by batch norm, to a buffer, through out=."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        y = x.clone()
        row = y[0]
        part = row[1:3]
        part.add_(1)
        z = y.view(-1)
        F.relu(z, inplace=True)
        self.count += 1
        out = torch.empty_like(y)
        torch.add(y, y, out=out)
        y[:, 1] = 0
        return self.norm(out)


class Child(nn.Module):
    def __init__(self, width, activation=nn.ReLU):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.activation = activation()

    def encode(self, x):
        return self.activation(self.linear(x))

    def forward(self, x):
        return self.encode(x)


class Parent(nn.Module):
    """Children entered through Sequential, checkpoint, ``forward`` by name, another method and a hook."""

    def __init__(self, width):
        super().__init__()
        self.through = nn.Sequential(Child(width), Child(width, nn.GELU))
        self.checkpointed = Child(width)
        self.direct = Child(width)
        self.maker = functools.partial(Child, width)
        self.partial = self.maker()

    def forward(self, x):
        x = self.through(x)
        x = checkpoint(self.checkpointed, x, use_reentrant=False)
        x = self.direct.forward(x)
        x = self.direct.encode(x)
        return self.partial(x)


class Output(NamedTuple):
    logits: torch.Tensor
    extra: object


class Containers(nn.Module):
    """Dict, list, keyword and None inputs; a NamedTuple output."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, batch, others, mask=None, *, scale=None, flag=True):
        x = batch["x"] + sum(others)
        if mask is not None:
            x = x.masked_fill(mask, 0.0)
        if scale is not None:
            x = x * scale["by"][0]
        return Output(self.linear(x), {"flag": flag})


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.embed.weight
        self.anchors = torch.arange(4.0)  # a plain tensor attribute

    def forward(self, ids):
        return self.head(self.embed(ids) + self.anchors)


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.LazyLinear(3)

    def forward(self, x):
        return self.linear(x)


class Stateful(nn.Module):
    """Changes its attributes while it runs: a counter, a cache, a list, a replaced buffer."""

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.cache = {}
        self.seen = []
        self.register_buffer("last", torch.zeros(4))
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        self.calls += 1
        if "mask" not in self.cache:
            self.cache["mask"] = torch.ones_like(x)
        self.seen.append(x)
        self.last = x.mean(0)
        return self.norm(x) * self.cache["mask"]


class Noisy(nn.Module):
    """Draws from all three generators, while it is built and while it runs."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        nn.init.trunc_normal_(self.linear.weight, std=0.02)
        self.scale = random.random() + float(np.random.rand())

    def forward(self, x):
        if random.random() > 2 or np.random.rand() > 2:
            return x
        return F.dropout(self.linear(x), 0.5, self.training) + torch.randn_like(x)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 * x


class Custom(nn.Module):
    def forward(self, x):
        return Square.apply(x)


def decorated_forward(function):
    @functools.wraps(function)
    def wrapper(self, *args, **kwargs):
        kwargs.setdefault("bias", 1.0)
        return function(self, *args, **kwargs)

    return wrapper


class Decorated(Child):
    @decorated_forward
    def forward(self, x, bias=0.0):
        return super().forward(x) + bias


class Fails(nn.Module):
    def forward(self, x):
        y = x + 1
        return self.missing(
            y,
        )


class WrongShape(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x.reshape(-1, 3))


class Interrupts(nn.Module):
    def forward(self, x):
        raise KeyboardInterrupt


class InterruptsBuild(nn.Module):
    def __init__(self):
        super().__init__()
        raise KeyboardInterrupt


def failing_factory(width=3):
    raise ValueError(f"no model of width {width}")


def not_a_module():
    return "weights"


class OnlyOnce:
    """A factory that works once."""

    def __init__(self):
        self.used = False

    def __call__(self):
        if self.used:
            raise RuntimeError("already registered")
        self.used = True
        return Child(4)


@functools.cache
def cached_table(size):
    return torch.arange(size).float()


class Cached(nn.Module):
    def forward(self, x):
        return x + cached_table(x.shape[-1])


class EvalOnly(nn.Module):
    """Runs code in evaluation that training never meets."""

    def post_process(self, x):
        return x.softmax(-1)

    def forward(self, x):
        if self.training:
            return x
        return self.post_process(x)


class Tagger(nn.Module):
    def __init__(self, vocab=20, width=6, tags=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * width, tags)

    def forward(self, tokens):
        hidden, (_h, _c) = self.lstm(self.embed(tokens))
        return self.out(hidden)


def scripted_scale(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.child = torch.jit.script(nn.Linear(4, 4))
        self.scale = torch.jit.script(scripted_scale)

    def forward(self, x):
        return self.scale(self.child(x), 2.0)


class Detector(nn.Module):
    """Needs targets to train, as detectors do."""

    def __init__(self, fails_in_training=True):
        super().__init__()
        self.fails_in_training = fails_in_training
        self.linear = nn.Linear(4, 4)

    def forward(self, x, targets=None):
        y = self.linear(x)
        if self.training is self.fails_in_training and targets is None:
            raise ValueError("targets are needed")
        return y[y.sum(-1) > 0]


class Hooked(nn.Module):
    """A forward hook, a forward replaced on the instance, a callable that is no module."""

    class Twice:
        def __call__(self, x):
            return x * 2

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.linear.register_forward_hook(lambda module, inputs, output: output + 1)
        self.patched = nn.Identity()

        def forward(x):
            return self.linear(x) * 3

        self.patched.forward = forward
        self.twice = self.Twice()

    def forward(self, x):
        return self.twice(self.patched(x))


class DataWrite(nn.Module):
    """Writes past autograd, and in inference mode."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    @torch.inference_mode()
    def clipped(self, x):
        x = x + 1
        return x.clamp_(max=1)

    def forward(self, x):
        self.weight.data.mul_(0.9)
        return self.clipped(x) * self.weight.detach()


class CompiledMethod(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    @torch.compile
    def forward(self, x):
        return self.helper(x) + 1

    def helper(self, x):
        return self.linear(x)


class Recursive(nn.Module):
    def __init__(self, depth=2, *rest, **options):
        given = depth
        depth = depth or None
        super().__init__()
        self.inner = Recursive(depth - 1, *rest, **options) if depth else None
        self.linear = nn.Linear(4, 4)
        self.given = given

    def forward(self, x):
        return self.linear(x if self.inner is None else self.inner(x))
