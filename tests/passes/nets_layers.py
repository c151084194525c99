"""Classes that derive from torch's layers and read their settings; ``*args`` handed on; methods that run while building too.

``CASES``: name -> (factory, inputs) of nets whose ports are equal to torch and carry no flag.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def image(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


class Padded1d(nn.Conv1d):
    """torch keeps ``(3,)`` for a setting of 3; a keyword goes through ``**kwargs``."""

    def __init__(self, ci, co, kernel_size, dilation=1, **kwargs):
        super().__init__(ci, co, kernel_size, dilation=dilation, **kwargs)
        self.left = (self.kernel_size[0] - 1) * self.dilation[0]

    def forward(self, x):
        return super().forward(F.pad(x, (self.left, 0)))


class Cut1d(nn.Conv1d):
    """The setting is an expression."""

    def __init__(self, ci, co, k, dilation=1):
        super().__init__(ci, co, k, padding=(k - 1) * dilation, dilation=dilation)

    def forward(self, x):
        return super().forward(x)[:, :, : -self.padding[0]]


class Centred1d(nn.Conv1d):
    """No constructor of its own; the weight has an axis less than MindSpore's."""

    def forward(self, x):
        w = self.weight - self.weight.mean(dim=(1, 2), keepdim=True)
        return F.conv1d(x, w, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Scaled1d(nn.Conv1d):
    """All arguments are handed on, and the first filling is its own."""

    def __init__(self, *args, gain=1.0, **kwargs):
        self.gain = gain
        super(Scaled1d, self).__init__(*args, **kwargs)

    def reset_parameters(self):
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu")
        if self.bias is not None:
            nn.init.constant_(self.bias, 0.0)

    def forward(self, x):
        return super().forward(x) * self.gain


class Own1d(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Sequential(Padded1d(3, 4, 3, dilation=2), Padded1d(4, 4, 2, bias=False), Cut1d(4, 4, 3, dilation=2))
        self.b = nn.Sequential(Centred1d(4, 6, 3, padding=1), Centred1d(6, 4, 3, 2))
        self.c = Scaled1d(4, 6, kernel_size=3, gain=2.0)
        self.d = Scaled1d(6, 4, 1, bias=False)
        self.e = nn.Conv1d(4, 4, 3, padding=1)

    def forward(self, x):
        x = self.d(self.c(self.b(self.a(x))))
        w = self.e.weight
        x = F.conv1d(x, w / w.norm(dim=2, keepdim=True), self.e.bias, padding=self.e.padding)
        return x + self.e(x[0])  # without a batch axis


class Same2d(nn.Conv2d):
    def forward(self, x):
        ih, iw = x.size()[-2:]
        kh, kw = self.weight.size()[-2:]
        sh, sw = self.stride
        pad_h = max((math.ceil(ih / sh) - 1) * sh + (kh - 1) * self.dilation[0] + 1 - ih, 0)
        pad_w = max((math.ceil(iw / sw) - 1) * sw + (kw - 1) * self.dilation[1] + 1 - iw, 0)
        x = F.pad(x, [pad_w // 2, pad_w - pad_w // 2, pad_h // 2, pad_h - pad_h // 2])
        return F.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Masked2d(nn.Conv2d):
    def __init__(self, kind, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.register_buffer("mask", torch.ones_like(self.weight.data))
        _, _, h, w = self.weight.size()
        self.mask[:, :, h // 2, w // 2 + (kind == "B") :] = 0
        self.mask[:, :, h // 2 + 1 :] = 0

    def forward(self, x):
        return F.conv2d(x, self.weight * self.mask, self.bias, self.stride, self.padding, self.dilation, self.groups)


class PoolSame(nn.MaxPool2d):
    """Settings read before they are set anew, as lists."""

    def __init__(self, kernel_size, stride, padding=0, dilation=1, return_indices=False, ceil_mode=False):
        super().__init__(kernel_size, stride, padding, dilation, return_indices, ceil_mode)
        self.stride = [self.stride] * 2 if isinstance(self.stride, int) else self.stride
        self.kernel_size = [self.kernel_size] * 2 if isinstance(self.kernel_size, int) else self.kernel_size
        self.dilation = [self.dilation] * 2 if isinstance(self.dilation, int) else self.dilation

    def forward(self, x):
        x = F.pad(x, [self.dilation[0] * (self.kernel_size[0] - self.stride[0]), 0, 0, 0])
        return F.max_pool2d(
            x, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )


class Own2d(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Sequential(Same2d(3, 4, 3, stride=2), Same2d(4, 4, 5, padding=1))
        self.b = nn.Sequential(Masked2d("A", 4, 4, 3, padding=1), Masked2d("B", 4, 4, 3, 1, 1, bias=False))
        self.c = PoolSame(kernel_size=3, stride=1)
        self.d = nn.Conv2d(4, 4, [3, 3], stride=[1, 2], padding=[1, 1])

    def forward(self, x):
        y = self.d(self.c(self.b(self.a(x))))
        return F.avg_pool2d(y, [2, 1], [1, 1]) + F.conv2d(y, self.d.weight, stride=[1, 1], padding=[1, 1])[:, :, 1:]


class Norm(nn.BatchNorm2d):
    """The average's share has another meaning in MindSpore's constructor, not in its attribute."""

    def forward(self, x):
        share = 0.0 if self.momentum is None else self.momentum
        y = x.transpose(0, 1).reshape(x.size(1), -1)
        if self.training:
            mean, var = y.mean(1), y.var(1)
            with torch.no_grad():
                self.running_mean = (1 - share) * self.running_mean + share * mean
                self.running_var = (1 - share) * self.running_var + share * var
        else:
            mean, var = self.running_mean, self.running_var
        y = (y - mean.view(-1, 1)) / (var.view(-1, 1) + self.eps) ** 0.5
        if self.affine:
            y = self.weight.view(-1, 1) * y + self.bias.view(-1, 1)
        return y.view(x.size(1), x.size(0), *x.shape[2:]).transpose(0, 1)


class ChannelsFirst(nn.LayerNorm):
    def forward(self, x):
        x = F.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class Leaky(nn.LeakyReLU):
    def forward(self, x):
        return super().forward(x) * self.negative_slope


class Equalised(nn.Linear):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.scale = 1 / math.sqrt(self.in_features)

    def forward(self, x):
        return F.linear(x, self.weight * self.scale, self.bias)


class OwnNorms(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(3, 4, 1), Norm(4, momentum=0.2), ChannelsFirst(4), ChannelsFirst(4, eps=1e-3))
        self.b = nn.Sequential(Leaky(0.3), Leaky(), Equalised(5, 4), Equalised(4, 4, False))

    def forward(self, x):
        return self.b(self.a(x))


class Positions(nn.Module):
    """A method that fills the module while it is built, and looks in forward whether that is enough."""

    def __init__(self, d_model, max_len=50):
        super().__init__()
        self.d_model = d_model
        self.lin = nn.Linear(d_model, d_model)
        self.pe = None
        self.extend_pe(torch.tensor(0.0).expand(1, max_len))

    def extend_pe(self, x):
        if self.pe is not None:
            if self.pe.size(1) >= x.size(1):
                if self.pe.dtype != x.dtype or self.pe.device != x.device:
                    self.pe = self.pe.to(dtype=x.dtype, device=x.device)
                return
        pe = torch.zeros(x.size(1), self.d_model)
        position = torch.arange(0, x.size(1), dtype=torch.float32).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, self.d_model, 2, dtype=torch.float32) * -(math.log(1e4) / self.d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        pe = pe.unsqueeze(0)
        self.pe = pe

    def forward(self, x):
        self.extend_pe(x)
        return self.lin(x) + self.pe[:, : x.size(1)].to(x.dtype)


class Table(nn.Module):
    """A plain tensor of the constructor's, written in parts; a parameter made in forward is cut off from its source."""

    def __init__(self, d=4, n=3):
        super().__init__()
        self.pe = torch.tensor([[pos / 10000.0 ** (i // 2 * 2.0 / d) for i in range(d)] for pos in range(n)])
        self.pe[:, 0::2] = torch.sin(self.pe[:, 0::2])
        self.pe[:, 1::2] = torch.cos(self.pe[:, 1::2])
        self.lin = nn.Linear(d, d)
        scale = nn.Parameter(torch.ones(d))
        self.scale = scale

    def forward(self, x):
        y = self.lin(x) * self.scale
        return y * nn.Parameter(y) + nn.Parameter(self.pe, requires_grad=False)


class TypedTensors(nn.Module):
    """``torch.Tensor`` and its kind with sizes and with data, filled afterwards."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(5, 5)
        self.smooth = 0.1

    def forward(self, x, labels):
        added = torch.Tensor(labels.size(0), 1).fill_(1 - self.smooth)
        one_hot = torch.FloatTensor(x.shape[0], x.shape[1]).zero_()
        one_hot.scatter_add_(1, labels.view(-1, 1), added)
        places = torch.LongTensor([0, 2])
        return self.lin(x) * one_hot + x[places].sum() * torch.Tensor([0.5])


class ChannelNorm(nn.LayerNorm):
    """The base's methods are called by the base's name."""

    def __init__(self, size: int, eps: float = 1e-6) -> None:
        nn.LayerNorm.__init__(self, normalized_shape=size, eps=eps)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.LayerNorm.forward(self, x.permute(0, 2, 1))
        return x.permute(0, 2, 1)


class ScaledLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return nn.Linear.forward(self, x) * 2


class BaseByName(nn.Module):
    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.norm = ChannelNorm(4)
        self.lin = ScaledLinear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.lin(self.norm(x))


class _Scaled(nn.Conv2d):
    def forward(self, x):
        return self._conv_forward(x, self.weight / (self.weight.std() + 1e-5), self.bias)


class _Halved(nn.Conv1d):
    def forward(self, x):
        return self._conv_forward(x, self.weight * 0.5, None)


class _Named(nn.Module):
    """A mixin with a constructor, which a layer stands before."""

    def __init__(self):
        super().__init__()
        self.cache = {}


class _NamedLinear(nn.Linear, _Named):
    def forward(self, x):
        return F.linear(x, self.weight * 2, self.bias)


class _LowRank:
    def __init__(self, r, alpha):
        self.r = r
        self.alpha = alpha


class _LowRankLinear(nn.Linear, _LowRank):
    def __init__(self, n, m, r=0, alpha=1, **settings):
        nn.Linear.__init__(self, n, m, **settings)
        _LowRank.__init__(self, r=r, alpha=alpha)
        if r > 0:
            self.down = nn.Parameter(self.weight.new_zeros((r, n)))
            self.up = nn.Parameter(self.weight.new_zeros((m, r)))
            self.scaling = self.alpha / self.r

    def forward(self, x):
        y = nn.Linear.forward(self, x)
        if self.r > 0:
            y = y + (x @ self.down.t() @ self.up.t()) * self.scaling
        return y


class _Norm(nn.LayerNorm):
    def __init__(self, n):
        nn.LayerNorm.__init__(self, n, eps=1e-3)

    def forward(self, x):
        return nn.LayerNorm.forward(self, x.transpose(1, 2)).transpose(1, 2)


class LayersByName(nn.Module):
    """Layers whose classes call the constructor and the methods of torch's layer by its name."""

    def __init__(self):
        super().__init__()
        self.convs = nn.Sequential(_Scaled(2, 4, 3, padding=1), _Scaled(4, 4, 3, 2, (0, 1), groups=2, bias=False))
        self.halved = _Halved(4, 3, 3, padding=1)
        self.norm = _Norm(3)
        self.out = nn.Sequential(_LowRankLinear(6, 4), _LowRankLinear(4, 4, r=2, alpha=3, bias=False))
        self.named = _NamedLinear(4, 2)

    def forward(self, x):
        x = self.norm(self.halved(self.convs(x).flatten(2)))
        return self.named(self.out(x))


def _quantized(bits):
    class Quantized(nn.Conv2d):
        def __init__(self, i, o, k, padding=0):
            super(Quantized, self).__init__(i, o, k, padding=padding)
            self.bits = bits

        def forward(self, x):
            return F.conv2d(x, torch.tanh(self.weight) * self.bits, self.bias, self.stride, self.padding)

    return Quantized


class _Doubled3d(nn.Conv3d):
    def forward(self, x):
        return F.conv3d(x, self.weight * 2, self.bias, self.stride, self.padding)


class MadeInFunctions(nn.Module):
    """Classes that a function makes; a Conv3d's padding; names of the port's imports; a plain tensor that is filled."""

    def __init__(self, initializer=None, np=4):
        super().__init__()
        self.convs = nn.Sequential(_quantized(4)(2, 3, 3, padding=1), _quantized(2)(3, 2, 3))
        self.deep = nn.Sequential(_Doubled3d(2, 2, 1), _Doubled3d(2, 2, 3, padding=1))
        self.norm = nn.BatchNorm3d(2)
        self.turn = torch.Tensor(np, np)
        nn.init.orthogonal_(self.turn)
        self.register_buffer("mask", torch.ones(np, dtype=bool))

    def forward(self, x):
        x = self.deep(self.convs(x)[:, :, None])
        n = self.norm
        y = F.batch_norm(x, n.running_mean, n.running_var, n.weight, n.bias, self.training, n.momentum, n.eps)
        return y @ self.turn * self.mask + torch.eye(x.shape[-1], dtype=bool)


CASES = {
    "base by name": (BaseByName, (image(2, 4, 3),)),
    "layers of their own, 1d": (Own1d, (image(2, 3, 12),)),
    "layers of their own, 2d": (Own2d, (image(2, 3, 9, 9),)),
    "norms of their own": (OwnNorms, (image(2, 3, 5, 5),)),
    "filled while built and in forward": (lambda: Positions(4), (image(2, 6, 4),)),
    "norm alone": (lambda: Norm(4), (image(2, 4, 3, 3),)),
    "table": (Table, (image(2, 3, 4),)),
    "made in functions": (MadeInFunctions, (image(2, 2, 6, 6),)),
    "layers by name": (LayersByName, (image(2, 2, 6, 6),)),
    "typed tensors": (TypedTensors, (image(4, 5), torch.tensor([0, 1, 4, 2]))),
}
