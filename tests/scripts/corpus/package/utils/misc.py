import random

import numpy as np
import torch


class AverageMeter:
    def __init__(self):
        self.val, self.sum, self.count = 0.0, 0.0, 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n

    @property
    def avg(self):
        return self.sum / max(self.count, 1)


@torch.no_grad()
def accuracy(output, target):
    pred = output.max(1)[1]
    return (pred == target).float().mean().item() * 100


def save_checkpoint(state, path):
    torch.save(state, path)


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    torch.backends.cudnn.deterministic = True
