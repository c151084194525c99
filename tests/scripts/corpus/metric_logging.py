"""Metrics to a JSON lines file, early stopping, a best checkpoint that is loaded again, gradient norms by hand."""
import json
import logging
import math
import os
import sys

import numpy as np
import torch
from torch import nn, optim

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format='%(levelname)s %(message)s')
logger = logging.getLogger(__name__)


class Meter:
    def __init__(self):
        self.values = []

    def update(self, value):
        self.values.append(value.detach().cpu().item() if torch.is_tensor(value) else value)

    @property
    def mean(self):
        return sum(self.values) / max(len(self.values), 1)


class EarlyStopping:
    def __init__(self, patience=2, path='best.pt'):
        self.patience, self.path, self.counter, self.best, self.stop = patience, path, 0, None, False

    def __call__(self, loss, model):
        if self.best is None or loss < self.best:
            self.best, self.counter = loss, 0
            torch.save(model.state_dict(), self.path)
        else:
            self.counter += 1
            self.stop = self.counter >= self.patience


def grad_norm(model):
    total = 0.0
    for p in model.parameters():
        if p.grad is not None:
            total += p.grad.data.norm(2).item() ** 2
    return total ** 0.5


def main():
    torch.manual_seed(0)
    x = torch.linspace(-math.pi, math.pi, 40).unsqueeze(1)
    y = torch.sin(x)
    net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    loss_fn = torch.nn.SmoothL1Loss(reduction='mean')
    opt = optim.NAdam(net.parameters(), lr=0.02)
    sched = optim.lr_scheduler.SequentialLR(opt, [optim.lr_scheduler.ConstantLR(opt, factor=0.5, total_iters=2), optim.lr_scheduler.ExponentialLR(opt, gamma=0.9)], milestones=[2])
    stopping, log = EarlyStopping(), open('log.jsonl', 'w')
    for epoch in range(5):
        meter = Meter()
        for i in range(0, len(x), 10):
            xb, yb = x[i:i + 10], y[i:i + 10]
            pred = net(xb)
            loss = loss_fn(pred, yb)
            l2 = sum((p ** 2).sum() for p in net.parameters())
            total = loss + 1e-4 * l2
            opt.zero_grad()
            total.backward()
            norm = grad_norm(net)
            opt.step()
            meter.update(loss)
        sched.step()
        logger.info('epoch %d loss %.5f norm %.4f lr %.5f', epoch, meter.mean, norm, opt.param_groups[0]['lr'])
        log.write(json.dumps({'epoch': epoch, 'loss': meter.mean}) + '\n')
        stopping(meter.mean, net)
        if stopping.stop:
            break
    log.close()
    net.load_state_dict(torch.load('best.pt'))
    net.eval()
    with torch.inference_mode():
        print('final', round(torch.abs(net(x) - y).max().item(), 3))


main()
