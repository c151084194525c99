"""float64 data, integer arithmetic, boolean masks, one-hot targets, bfloat16 nowhere: casts where torch has them."""
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(11)
rng = np.random.RandomState(4)
features = rng.rand(30, 5)  # float64
labels = (features.sum(1) * 2).astype(np.int32) % 3
x = torch.from_numpy(features)
y = torch.from_numpy(labels).long()
print(x.dtype == torch.float64, y.dtype == torch.int64)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 3)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        h = self.fc(x.float())
        h = torch.where(h > 0, h, 0.1 * h)
        return h * self.scale


net = Net()
opt = torch.optim.Adamax(net.parameters(), lr=0.05)
counts = torch.bincount(y, minlength=3)
weights = counts.sum() / (3.0 * counts.clamp(min=1).float())
for step in range(6):
    logits = net(x)
    target = F.one_hot(y, num_classes=3).float()
    mask = (y != 2)
    per_item = -(target * F.log_softmax(logits, dim=-1) * weights).sum(dim=-1)
    loss = per_item.mean() + 0.1 * per_item[mask].mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    accuracy = (logits.argmax(dim=-1) == y).float().mean()
    print(f'{step} {loss.item():.5f} {accuracy.item():.3f} {int(mask.sum())} {net.scale.item():.4f}')
with torch.no_grad():
    confusion = torch.zeros(3, 3, dtype=torch.int64)
    for t, p in zip(y.view(-1), net(x).argmax(1).view(-1)):
        confusion[t.long(), p.long()] += 1
    print(confusion.sum().item(), confusion.diag().sum().item(), net.steps)
