"""Classes derived from torch's layers, with and without constructors of their own."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class C(nn.Conv2d):
    def __init__(self, i, o, k, **kw):
        super().__init__(i, o, k)


class S(nn.Conv2d):
    def __init__(self, i, o, k, s=1, bias=True):
        super(S, self).__init__(i, o, k, s, k // 2, bias=bias)

    def forward(self, x):
        return F.conv2d(x, self.weight * 2, self.bias, self.stride, self.padding)


class L(nn.Linear):
    def __init__(self, i, o, bias=True, device=None, dtype=None):
        super().__init__(i, o, bias, device, dtype)

    def forward(self, x):
        return F.linear(torch.tanh(x), self.weight, self.bias)


class Plain(nn.Linear):
    def forward(self, x):
        return super().forward(x) + 1


class B(nn.BatchNorm2d):
    def __init__(self, n):
        super().__init__(n, eps=1e-3, momentum=0.01)


class E(nn.Embedding):
    def __init__(self, n, d):
        super().__init__(n, d)


class D(nn.Dropout):
    def __init__(self):
        super().__init__(0.25)


class N(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.float()).type_as(x)


torch.manual_seed(0)
net = nn.Sequential(C(3, 4, 3), B(4), S(4, 4, 3, 2), nn.Flatten(), L(4 * 3 * 3, 6), N(6), Plain(6, 2))
x = torch.randn(5, 3, 7, 7)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
e = E(5, 3)
for i in range(3):
    loss = net(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(i, "%.5f" % loss.item())
print("%.5f" % e(torch.tensor([1, 2])).sum().item(), D().p)
print([(n, tuple(p.shape)) for n, p in net.named_parameters()])
