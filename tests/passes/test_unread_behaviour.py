"""What changes a module's behaviour without a line that the port is made of is flagged, and the harmless is not."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ms_port.capture import Inputs, record
from ms_port.ir.flags import Flag
from ms_port.opmap import OpMap
from ms_port.pipeline import Options, translate

RULES = {"MSP107", "MSP303", "MSP402", "MSP307", "MSP308", "MSP309", "MSP310", "MSP506"}
OPMAP = OpMap.load()


def flags(target: Any) -> list[Flag]:
    """The flags of this pass for a model that takes a [6, 4] tensor."""
    program = translate(record(target, Inputs((torch.randn(6, 4),), {})), OPMAP, Options("net"))
    return [flag for flag in program.flags if flag.rule in RULES and flag.open]


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.bn = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.bn(self.fc(x))


class Hooked(Plain):
    def __init__(self, register: str) -> None:
        super().__init__()
        if register == "weight":
            self.fc.weight.register_hook(lambda grad: grad * 0.5)
        elif register == "accumulated":
            self.fc.weight.register_post_accumulate_grad_hook(lambda parameter: None)
        else:
            getattr(self.fc, register)(lambda *given: None)


@pytest.mark.parametrize(
    "register",
    [
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "register_full_backward_pre_hook",
        "weight",
        "accumulated",
    ],
)
def test_hook(register: str) -> None:
    def build() -> nn.Module:
        return Hooked(register)

    (flag,) = flags(build)
    assert (flag.rule, flag.severity, flag.module) == ("MSP303", "error", "fc")
    assert flag.source is not None and flag.source.file == __file__


class Patched(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.fc.forward = lambda x: x * 2  # type: ignore[method-assign]
        self.bn.train = lambda mode=True: self.bn  # type: ignore[method-assign, assignment, misc]


def test_replaced_methods() -> None:
    found = {flag.module: flag for flag in flags(Patched)}
    assert found.keys() == {"fc", "bn"}
    assert {flag.rule for flag in found.values()} == {"MSP308"}
    assert "`forward` of `fc`" in found["fc"].message and "`train` of `bn`" in found["bn"].message


class Frozen(Plain):
    def train(self, mode: bool = True) -> Frozen:
        super().train(mode)
        self.bn.eval()
        return self


class Followed(Plain):
    def train(self, mode: bool = True) -> Followed:
        super().train(mode)
        return self


def test_train_that_keeps_a_part() -> None:
    (flag,) = flags(Frozen)
    line = Frozen.train.__code__.co_firstlineno
    assert (flag.rule, flag.source and flag.source.line, flag.module) == ("MSP309", line, "")
    assert "`bn`" in flag.message
    model = Frozen().train()
    assert flags(model) and model.training and not model.bn.training
    assert flags(Followed) == []


def first(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)[0]

    return wrapper


def doubled(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(self: nn.Module, x: Tensor) -> Any:
        return function(self, x * 2)

    return wrapper


def passed_on(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class First(Plain):
    @first
    def forward(self, x: Tensor) -> Any:
        return self.fc(x), x


class Doubled(Plain):
    @doubled
    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)


class PassedOn(Plain):
    @passed_on
    def forward(self, x: Tensor, scale: float = 2.0) -> Tensor:
        return self.fc(x) * scale


class WithoutGradient(Plain):
    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)


@pytest.mark.parametrize(("target", "what"), [(First, "changes its result"), (Doubled, "changes its arguments")])
def test_decorator(target: type[nn.Module], what: str) -> None:
    (flag,) = flags(target)
    assert flag.rule == "MSP310" and what in flag.message and f"{target.__name__}.forward" in flag.message


@pytest.mark.parametrize("target", [Plain, PassedOn, WithoutGradient])
def test_harmless(target: type[nn.Module]) -> None:
    assert flags(target) == []


class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.sign()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class Signed(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return Sign.apply(self.fc(x))  # type: ignore[no-untyped-call, no-any-return]


class Gated(torch.autograd.Function):
    """Takes any number of inputs: no cell is made of it."""

    @staticmethod
    def forward(ctx: Any, *xs: Tensor) -> Tensor:
        return xs[0].sign()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class GatedNet(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return Gated.apply(self.fc(x))  # type: ignore[no-untyped-call, no-any-return]


def test_own_backward() -> None:
    assert flags(Signed) == []  # a cell with its bprop
    (flag,) = flags(GatedNet)
    assert flag.rule == "MSP307" and flag.message.startswith("Gated ")
    assert flag.source is not None and flag.source.file == __file__


class ReadyOnce(nn.Module):
    """The first call sets the parameter by its input."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.ready = False

    def forward(self, x: Tensor) -> Tensor:
        if not self.ready:
            self.scale.data = x.std(0)
            self.ready = True
        return x / self.scale


def test_first_call() -> None:
    (flag,) = flags(ReadyOnce)
    assert (flag.rule, flag.severity) == ("MSP402", "warning")
    assert flag.message.startswith("`not self.ready` holds in the first call only")


FREEZING = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
        self.c = nn.Linear(4, 4)
        self.s = nn.Parameter(torch.ones(4), requires_grad=False)
        for p in self.a.parameters():
            p.requires_grad = False
        self.b[0].weight.requires_grad = False
        self.b[1].weight.requires_grad = False
        for p in self.c.parameters():
            p.requires_grad_(False)
        self.d = nn.Linear(4, 4).requires_grad_(False)
        self.e = nn.Sequential(nn.Linear(4, 4))
        self.e.requires_grad_(False)
        self.f = nn.Linear(4, 4)
        [p.requires_grad_(False) for p in self.f.parameters()]

    def forward(self, x):
        return self.f(self.e(self.d(self.c(self.b(self.a(x)))))) * self.s
"""


def test_frozen_parameters(tmp_path: Path) -> None:
    file = tmp_path / "freezing.py"
    file.write_text(FREEZING)
    spec = importlib.util.spec_from_file_location("freezing", file)
    assert spec is not None and spec.loader is not None
    module = sys.modules["freezing"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        (flag,) = flags(module.Net)
    finally:
        del sys.modules["freezing"]
    assert (flag.rule, flag.severity, flag.module) == ("MSP506", "warning", "f")
    assert flag.message.startswith("weight, bias of `f`")


class Derived(Plain):
    """Tensors that the constructor computes from a parameter: one is read, one is not, one has no gradient in torch."""

    def __init__(self) -> None:
        super().__init__()
        self.turned = self.fc.weight.t()
        self.unread = self.fc.weight * 2
        self.fixed = self.fc.weight.detach() * 2

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) @ self.turned @ self.fixed


def test_tensors_computed_from_parameters():
    found = flags(Derived)
    assert [flag.rule for flag in found] == ["MSP107"]
    assert "`turned`" in found[0].message
