"""Adapters put into a model that is there, and containers of parameters."""

import copy
import torch
import torch.nn as nn
import torch.nn.functional as F


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, r=2, alpha=4):
        super().__init__()
        self.base = base
        for p in self.base.parameters():
            p.requires_grad_(False)
        self.A = nn.Parameter(torch.empty(r, base.in_features))
        self.B = nn.Parameter(torch.zeros(base.out_features, r))
        nn.init.normal_(self.A, std=0.1)
        self.scale = alpha / r

    def forward(self, x):
        return self.base(x) + (x @ self.A.T @ self.B.T) * self.scale


def inject(model):
    for name, child in model.named_children():
        if isinstance(child, nn.Linear):
            setattr(model, name, LoRALinear(child))
        else:
            inject(child)
    return model


class Gates(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.w = nn.ParameterList([nn.Parameter(torch.ones(4) * (i + 1)) for i in range(n)])
        self.d = nn.ParameterDict({"a": nn.Parameter(torch.ones(4))})
        self.layers = nn.ModuleList()
        for _ in range(n):
            self.layers.append(nn.Linear(4, 4))
        self.layers.extend([nn.Linear(4, 4)])
        self.register_parameter("g", nn.Parameter(torch.full((4,), 0.5)))

    def forward(self, x):
        for i, l in enumerate(self.layers):
            x = torch.tanh(l(x))
            if i < len(self.w):
                x = x * self.w[i]
        return x * self.d["a"] * self.g


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 4)), Gates(2))
ref = copy.deepcopy(net)
x, y = torch.randn(8, 4), torch.randn(8, 4)
inject(net)
print(sum(p.numel() for p in net.parameters()), sum(p.numel() for p in net.parameters() if p.requires_grad))
opt = torch.optim.AdamW(filter(lambda p: p.requires_grad, net.parameters()), lr=0.05)
for i in range(3):
    loss = F.mse_loss(net(x), y) + 0.01 * F.l1_loss(ref(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("%.5f" % loss.item())
print([n for n, p in net.named_parameters() if p.requires_grad])
with torch.no_grad():
    for p, q in zip(ref.parameters(), net[3].parameters()):
        p.copy_(p * 0.5)
    print("%.5f" % ref(x).sum().item(), "%.5f" % net(x).sum().item())
feats = net[:2](x)
print(feats.shape, "%.5f" % feats.sum().item())
