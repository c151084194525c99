"""Losses out of what a call leaves behind: attributes that `forward` sets, and what hooks keep."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Sparse(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin = nn.Linear(i, o)

    def forward(self, x):
        h = self.lin(x)
        self.penalty = h.abs().mean()
        return torch.relu(h)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.out = Sparse(6, 8), Sparse(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.b(self.a(x)))


kept = {}


def keep(name):
    def hook(module, args, output):
        kept[name] = output
    return hook


torch.manual_seed(0)
net, teacher = Net(), Net()
net.b.register_forward_hook(keep("student"))
teacher.b.register_forward_hook(keep("teacher"))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(16, 6), torch.randint(0, 3, (16,))
for i in range(3):
    out = net(x)
    loss = F.cross_entropy(out, y) + 0.1 * sum(m.penalty for m in net.modules() if isinstance(m, Sparse))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("a", i, "%.5f" % loss.item(), "%.5f" % net.a.penalty.item())
for i in range(3):
    net(x)
    with torch.no_grad():
        teacher(x)
    loss = F.mse_loss(kept["student"], kept["teacher"].detach())
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("b", i, "%.5f" % loss.item())
for i in range(3):
    net(x)
    net.zero_grad()
    (net.a.penalty + net.b.penalty).backward()
    opt.step()
    print("c", i, "%.5f %.5f" % (net.a.penalty.item(), net.a.lin.weight.grad.abs().sum().item()))
