"""A stream as an IterableDataset, itertools on a loader, evaluation every few steps, a frozen backbone."""
import itertools
from collections import deque

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __init__(self, limit):
        super().__init__()
        self.limit = limit

    def __iter__(self):
        state = 7
        for _ in range(self.limit):
            values = []
            for _ in range(4):
                state = (state * 1103515245 + 12345) % 2**31
                values.append(state / 2**31)
            yield torch.tensor(values), torch.tensor([sum(values)])


backbone = nn.Linear(4, 8)
for param in backbone.parameters():
    param.requires_grad = False
head = nn.Sequential(nn.ReLU(), nn.Linear(8, 1))
model = nn.Sequential(backbone, head)
trainable = [p for p in model.parameters() if p.requires_grad]
print('trainable', sum(p.numel() for p in trainable), 'of', sum(p.numel() for p in model.parameters()))
optimizer = torch.optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), lr=0.05, momentum=0.9, nesterov=True)
loader = DataLoader(Stream(40), batch_size=4)
recent = deque(maxlen=3)
for step, (x, y) in enumerate(itertools.islice(loader, 8)):
    prediction = model(x)
    loss = torch.nn.functional.huber_loss(prediction, y, delta=0.5)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    recent.append(loss.item())
    if (step + 1) % 2 == 0:
        print('step {:2d} loss {:.5f} recent {:.5f}'.format(step + 1, loss.item(), sum(recent) / len(recent)))
