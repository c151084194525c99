"""Models that change while they live: Sequentials that grow, buffers that are bound anew, an optimizer of one's own with its state."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim import Optimizer

FloatTensor = torch.FloatTensor


class Transition(nn.Sequential):
    def __init__(self, before, after):
        super().__init__()
        self.norm = nn.LayerNorm(before)
        self.fc = nn.Linear(before, after)
        self.add_module("act", nn.Tanh())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential()
        for i in range(2):
            self.features.add_module(f"fc{i}", nn.Linear(6, 6))
        setattr(self.features, "transition", Transition(6, 5))
        self.head = nn.Linear(5, 3)
        self.register_buffer("steps", torch.zeros(1, dtype=torch.long))
        self.register_buffer("mean", torch.zeros(5), persistent=False)

    def forward(self, x):
        h = self.features(x)
        if self.training:
            self.steps += 1
            self.mean = 0.9 * self.mean + 0.1 * h.detach().mean(0)
        return self.head(h)

    def extra_repr(self):
        return "of two parts"

    def __repr__(self):
        return "Net of two parts"


class Lion(Optimizer):
    def __init__(self, params, lr=1e-2, betas=(0.9, 0.99)):
        super().__init__(params, dict(lr=lr, betas=betas))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["average"] = torch.zeros_like(p)
                average = state["average"]
                update = average * beta1 + p.grad * (1 - beta1)
                p.add_(update.sign_(), alpha=-group["lr"])
                average.mul_(beta2).add_(p.grad, alpha=1 - beta2)


def main():
    torch.manual_seed(0)
    net = Net()
    x, y = torch.randn(24, 6).type(FloatTensor), torch.randint(0, 3, (24,))
    print(net, len(net.features))
    optimizer = Lion(net.parameters())
    for step in range(4):
        loss = F.cross_entropy(net(x), y)
        penalty = sum(p.pow(2.0).sum() for p in net.parameters())
        optimizer.zero_grad()
        (loss + 1e-3 * penalty).backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.5f}, {net.steps.item()} steps, mean {net.mean.mean().item():.5f}")
    net.features.out = nn.Linear(5, 5)
    print("with another layer", f"{net(x).sum().item():.4f}")
    for name, p in net.named_parameters():
        print(name, tuple(p.shape))


if __name__ == "__main__":
    main()
