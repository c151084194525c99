"""Means of a model's parameters over training (torch.optim.swa_utils)."""

import copy
import math

from mindspore import nn, ops

from .layers import set_attribute
from .schedules import LRScheduler


class AveragedModel(nn.Cell):
    """A running mean of a model's parameters, by equal parts or by ``avg_fn(mean, parameter, number)``."""

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__(auto_prefix=False)
        if multi_avg_fn is not None:
            raise NotImplementedError("MSP602: AveragedModel with multi_avg_fn; give it avg_fn")
        self.module = copy.deepcopy(model)
        self.n_averaged, self.avg_fn, self.use_buffers = 0, avg_fn, use_buffers

    def construct(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def update_parameters(self, model):
        trained = {name for name, parameter in model.parameters_and_names() if parameter.requires_grad}
        others = dict(model.parameters_and_names())
        for name, mean in self.module.parameters_and_names():
            new = others[name]
            if self.n_averaged and (name in trained or self.use_buffers):  # other buffers are the last model's
                step = (new - mean) / (self.n_averaged + 1)
                new = mean + step if self.avg_fn is None else self.avg_fn(mean, new, self.n_averaged)
            ops.assign(mean, new + 0)
        self.n_averaged += 1


class SWALR(LRScheduler):
    """From the learning rate at hand to ``swa_lr`` within ``anneal_epochs``, which then stays."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        rates = swa_lr if isinstance(swa_lr, (tuple, list)) else [swa_lr] * len(optimizer.param_groups)
        for group, rate in zip(optimizer.param_groups, rates):
            group["swa_lr"] = rate
        self.anneal_epochs, self.strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _share(self, step):
        """How much of the way is gone."""
        part = max(0, min(1, step / max(1, self.anneal_epochs)))
        return part if self.strategy == "linear" else (1 - math.cos(math.pi * part)) / 2

    def get_lr(self):
        step = max(1, self.last_epoch) if self.anneal_epochs == 0 else self.last_epoch
        before, now = self._share(step - 1), self._share(step)
        found = []
        for group in self.optimizer.param_groups:
            goal = group["swa_lr"]
            first = goal if before == 1 else (group["lr"] - before * goal) / (1 - before)
            found.append(goal * now + first * (1 - now))
        return found


def update_bn(loader, model, device=None):
    """The statistics of the BatchNorms of a model anew: their means over a loader's batches."""
    layers = [cell for _, cell in model.cells_and_names() if isinstance(cell, (nn.BatchNorm1d, nn.BatchNorm2d))]
    momenta, training = [cell.momentum for cell in layers], model.training
    model.set_train()
    for number, batch in enumerate(loader, 1):
        for cell in layers:
            set_attribute(cell, "momentum", 1 / number)  # the first batch's weigh 1: what was there before is gone
        model(batch[0] if isinstance(batch, (tuple, list)) else batch)
    for cell, momentum in zip(layers, momenta):
        set_attribute(cell, "momentum", momentum)
    model.set_train(training)
