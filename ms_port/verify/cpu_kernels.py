"""MindSpore's float32 kernels of exp, sigmoid and tanh on CPU, as torch code: is the port torch with these kernels?

They are approximations: exp is off by up to 2e-5 of its value, sigmoid by 8e-7, tanh by 1e-4 where |x| is 5; torch by
1e-7. Forty sigmoids in a row then leave more than rounding, in a port that is right. So a port that differs is compared
again, by the same rule, with a torch that computes these functions as MindSpore does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

LN2 = 0.693147
"""As the kernel has it: cut after six digits, which is where most of exp's error comes from."""
LEAST, MOST = -87.3, 88.7
"""Beyond, the exponential is left to torch: it is zero or infinite in float32."""


def exp(x: Tensor) -> Tensor:
    """A power of two times a Taylor polynomial of degree 5."""
    power = torch.round(x / LN2)
    rest = x - power * LN2
    series = 1 + rest * (1 + rest * (1 / 2 + rest * (1 / 6 + rest * (1 / 24 + rest / 120))))
    return torch.where((x > LEAST) & (x < MOST), series * torch.exp2(power), torch.exp(x))


def sigmoid(x: Tensor) -> Tensor:
    """By the exponential above."""
    return 1 / (1 + exp(-x))


def tanh(x: Tensor) -> Tensor:
    """A continued fraction, and 1 from 5 on."""
    square = x * x
    above = (((square + 378) * square + 17325) * square + 135135) * x
    below = ((28 * square + 3150) * square + 62370) * square + 135135
    return torch.where(x.abs() > 5, x.sign(), above / below)


FORMULAS: Mapping[str, Callable[[Tensor], Tensor]] = {"exp": exp, "sigmoid": sigmoid, "tanh": tanh}


class CpuKernels(TorchFunctionMode):
    """Torch with these kernels, also inside what is made of them; ``used`` collects their names."""

    def __init__(self) -> None:
        super().__init__()
        self.used: set[str] = set()
        self.composed: Mapping[Any, Callable[..., Tensor]] = {
            F.silu: self._silu,
            F.glu: self._glu,
            F.mish: self._mish,
            F.softplus: self._softplus,
            F.logsigmoid: self._logsigmoid,
        }

    @property
    def told(self) -> str:
        """What a report says of a port that is equal to torch with these kernels."""
        names = ", ".join(sorted(self.used))
        return f"MindSpore's CPU kernels of {names} are approximations, and equal to torch with these kernels"

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in self.composed:
            return self.composed[func](*args, **kwargs)
        name = getattr(func, "__name__", "").removesuffix("_")
        if name in FORMULAS and args and isinstance(args[0], Tensor) and args[0].is_floating_point() and not kwargs:
            return self._kernel(name, args[0], func)
        return func(*args, **kwargs)

    def _kernel(self, name: str, x: Tensor, func: Callable[..., Any] | None = None) -> Tensor:
        """Torch's function, with the values of the kernel: the gradient is made of them too, as in MindSpore."""
        self.used.add(name)
        value = FORMULAS[name](x.detach().double())
        out: Tensor = (func or getattr(torch, name))(x)
        out.data.copy_(value)
        return out

    def _silu(self, input: Tensor, inplace: bool = False) -> Tensor:
        x = input.clone()
        return _written(input, x * self._kernel("sigmoid", x), inplace)

    def _glu(self, input: Tensor, dim: int = -1) -> Tensor:
        left, right = input.chunk(2, dim)
        return left * self._kernel("sigmoid", right)

    def _mish(self, input: Tensor, inplace: bool = False) -> Tensor:
        x = input.clone()
        small = self._kernel("exp", -x.abs())
        below = small * (small + 2)
        ratio = torch.where(x > 0, (2 * small + 1) / (2 * small * (small + 1) + 1), below / (below + 2))
        return _written(input, x * ratio, inplace)

    def _softplus(self, input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
        scaled = input * beta
        soft = scaled.relu() + torch.log1p(self._kernel("exp", -scaled.abs()))
        return torch.where(scaled > threshold, input, soft / beta)

    def _logsigmoid(self, input: Tensor) -> Tensor:
        return input.clamp(max=0) - torch.log1p(self._kernel("exp", -input.abs()))


def _written(x: Tensor, result: Tensor, inplace: bool) -> Tensor:
    return x.copy_(result) if inplace else result
