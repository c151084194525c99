"""Learning-rate schedules with torch's recursions, on the groups of an optimizer."""

import math
from bisect import bisect_right
from collections import Counter


class LRScheduler:
    """Sets ``lr`` of each group once a step; ``last_epoch`` counts the steps."""

    def __init__(self, optimizer, last_epoch=-1):
        self.optimizer, self.last_epoch = optimizer, last_epoch
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.step()

    @property
    def current(self):
        return [group["lr"] for group in self.optimizer.param_groups]

    def get_lr(self):
        raise NotImplementedError

    def step(self, epoch=None):
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        for group, lr in zip(self.optimizer.param_groups, self.get_lr()):
            group["lr"] = lr
        self._last_lr = self.current

    def get_last_lr(self):
        return self._last_lr

    def state_dict(self):
        return {
            k: v
            for k, v in self.__dict__.items()
            if k != "optimizer" and not callable(v) and k not in ("lr_lambdas", "schedulers", "_schedulers")
        }

    def load_state_dict(self, state_dict):
        self.__dict__.update(state_dict)


class StepLR(LRScheduler):
    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self.current
        return [lr * self.gamma for lr in self.current]


class MultiStepLR(LRScheduler):
    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [lr * self.gamma ** self.milestones[self.last_epoch] for lr in self.current]


class ExponentialLR(LRScheduler):
    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return self.current if self.last_epoch == 0 else [lr * self.gamma for lr in self.current]


class CosineAnnealingLR(LRScheduler):
    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        step, period, low = self.last_epoch, self.T_max, self.eta_min
        if step == 0:
            return self.current
        if (step - 1 - period) % (2 * period) == 0:
            return [
                lr + (base - low) * (1 - math.cos(math.pi / period)) / 2
                for base, lr in zip(self.base_lrs, self.current)
            ]
        factor = (1 + math.cos(math.pi * step / period)) / (1 + math.cos(math.pi * (step - 1) / period))
        return [factor * (lr - low) + low for lr in self.current]


class CosineAnnealingWarmRestarts(LRScheduler):
    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        self.T_0, self.T_i, self.T_mult, self.eta_min, self.T_cur = T_0, T_0, T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [
            self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
            for base in self.base_lrs
        ]

    def step(self, epoch=None):
        if epoch is None:
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
            self.last_epoch += 1
        else:
            self.T_i, self.T_cur, self.last_epoch = self.T_0, epoch, math.floor(epoch)
            while self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        for group, lr in zip(self.optimizer.param_groups, self.get_lr()):
            group["lr"] = lr
        self._last_lr = self.current


class LambdaLR(LRScheduler):
    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        count = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * count
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [base * factor(self.last_epoch) for factor, base in zip(self.lr_lambdas, self.base_lrs)]


class MultiplicativeLR(LambdaLR):
    def get_lr(self):
        if self.last_epoch == 0:
            return self.current
        return [lr * factor(self.last_epoch) for factor, lr in zip(self.lr_lambdas, self.current)]


class LinearLR(LRScheduler):
    def __init__(self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1):
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in self.current]
        if self.last_epoch > self.total_iters:
            return self.current
        change = self.end_factor - self.start_factor
        return [
            lr * (1 + change / (self.total_iters * self.start_factor + (self.last_epoch - 1) * change))
            for lr in self.current
        ]


class ConstantLR(LRScheduler):
    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self.current]
        return [lr / self.factor if self.last_epoch == self.total_iters else lr for lr in self.current]


class PolynomialLR(LRScheduler):
    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch == 0 or self.last_epoch > self.total_iters:
            return self.current
        factor = (
            (1.0 - self.last_epoch / self.total_iters) / (1.0 - (self.last_epoch - 1) / self.total_iters)
        ) ** self.power
        return [lr * factor for lr in self.current]


class OneCycleLR(LRScheduler):
    def __init__(
        self,
        optimizer,
        max_lr,
        total_steps=None,
        epochs=None,
        steps_per_epoch=None,
        pct_start=0.3,
        anneal_strategy="cos",
        cycle_momentum=True,
        base_momentum=0.85,
        max_momentum=0.95,
        div_factor=25.0,
        final_div_factor=1e4,
        three_phase=False,
        last_epoch=-1,
    ):
        self.total_steps = total_steps if total_steps is not None else epochs * steps_per_epoch
        up = float(pct_start * self.total_steps) - 1
        peak, low, end = "max_lr", "initial_lr", "min_lr"
        high_momentum, low_momentum = "max_momentum", "base_momentum"
        if three_phase:
            self.phases = [
                (up, low, peak, high_momentum, low_momentum),
                (2 * up, peak, low, low_momentum, high_momentum),
                (self.total_steps - 1, low, end, high_momentum, high_momentum),
            ]
        else:
            self.phases = [
                (up, low, peak, high_momentum, low_momentum),
                (self.total_steps - 1, peak, end, low_momentum, high_momentum),
            ]
        self.linear, self.cycle_momentum = anneal_strategy == "linear", cycle_momentum
        peaks = max_lr if isinstance(max_lr, (list, tuple)) else [max_lr] * len(optimizer.param_groups)
        for group, high in zip(optimizer.param_groups, peaks):
            group.update(initial_lr=high / div_factor, max_lr=high, min_lr=high / div_factor / final_div_factor)
            if cycle_momentum:
                group.update(max_momentum=max_momentum, base_momentum=base_momentum)
        super().__init__(optimizer, last_epoch)

    def _between(self, start, end, share):
        if self.linear:
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)

    def get_lr(self):
        found = []
        for group in self.optimizer.param_groups:
            begin = 0.0
            for index, (end, lr_from, lr_to, momentum_from, momentum_to) in enumerate(self.phases):
                if self.last_epoch <= end or index == len(self.phases) - 1:
                    share = (self.last_epoch - begin) / (end - begin)
                    found.append(self._between(group[lr_from], group[lr_to], share))
                    if self.cycle_momentum:
                        momentum = self._between(group[momentum_from], group[momentum_to], share)
                        if "betas" in group:
                            group["betas"] = (momentum, *group["betas"][1:])
                        else:
                            group["momentum"] = momentum
                    break
                begin = end
        return found


class CyclicLR(LRScheduler):
    def __init__(
        self,
        optimizer,
        base_lr,
        max_lr,
        step_size_up=2000,
        step_size_down=None,
        mode="triangular",
        gamma=1.0,
        scale_fn=None,
        scale_mode="cycle",
        cycle_momentum=True,
        base_momentum=0.8,
        max_momentum=0.9,
        last_epoch=-1,
    ):
        lows = base_lr if isinstance(base_lr, (list, tuple)) else [base_lr] * len(optimizer.param_groups)
        self.max_lrs = max_lr if isinstance(max_lr, (list, tuple)) else [max_lr] * len(optimizer.param_groups)
        for group, low in zip(optimizer.param_groups, lows):
            group["initial_lr"] = group["lr"] = low
        self.total = float(step_size_up) + float(step_size_down if step_size_down is not None else step_size_up)
        self.ratio = step_size_up / self.total
        scales = {
            "triangular": (lambda x: 1.0, "cycle"),
            "triangular2": (lambda x: 1 / 2.0 ** (x - 1), "cycle"),
            "exp_range": (lambda x: gamma**x, "iterations"),
        }
        self.scale_fn, self.scale_mode = (scale_fn, scale_mode) if scale_fn is not None else scales[mode]
        self.cycle_momentum, self.low_momentum, self.high_momentum = cycle_momentum, base_momentum, max_momentum
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        cycle = math.floor(1 + self.last_epoch / self.total)
        x = 1.0 + self.last_epoch / self.total - cycle
        height = x / self.ratio if x <= self.ratio else (x - 1) / (self.ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group in self.optimizer.param_groups:
                momentum = self.high_momentum - (self.high_momentum - self.low_momentum) * height * scale
                if "betas" in group:
                    group["betas"] = (momentum, *group["betas"][1:])
                else:
                    group["momentum"] = momentum
        return [base + (high - base) * height * scale for base, high in zip(self.base_lrs, self.max_lrs)]


class SequentialLR(LRScheduler):
    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        self.optimizer, self._schedulers, self._milestones = optimizer, schedulers, milestones
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for scheduler in schedulers:
            scheduler.last_epoch -= 1
        schedulers[0].step()
        self._last_lr = schedulers[0].get_last_lr()

    def step(self, epoch=None):
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            for group, base in zip(self.optimizer.param_groups, scheduler.base_lrs):
                group["lr"] = base
            scheduler.step(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(LRScheduler):
    def __init__(self, schedulers, optimizer=None):
        self._schedulers, self.optimizer = schedulers, optimizer or schedulers[0].optimizer
        self._last_lr = self.current

    def step(self, epoch=None):
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self.current


class ReduceLROnPlateau(LRScheduler):
    def __init__(
        self,
        optimizer,
        mode="min",
        factor=0.1,
        patience=10,
        threshold=1e-4,
        threshold_mode="rel",
        cooldown=0,
        min_lr=0,
        eps=1e-8,
        verbose=None,
    ):
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.eps = threshold, threshold_mode, cooldown, eps
        self.min_lrs = list(min_lr) if isinstance(min_lr, (list, tuple)) else [min_lr] * len(optimizer.param_groups)
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0
        self._last_lr = self.current

    def _better(self, value):
        margin = self.threshold * (abs(self.best) if self.threshold_mode == "rel" and math.isfinite(self.best) else 1.0)
        if self.threshold_mode == "rel" and math.isfinite(self.best):
            limit = self.best * (1 - self.threshold) if self.mode == "min" else self.best * (1 + self.threshold)
        else:
            limit = self.best - margin if self.mode == "min" else self.best + margin
        return value < limit if self.mode == "min" else value > limit

    def step(self, metrics, epoch=None):
        value = float(metrics)
        self.last_epoch += 1
        if self._better(value):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, low in zip(self.optimizer.param_groups, self.min_lrs):
                lr = max(group["lr"] * self.factor, low)
                group["lr"] = lr if group["lr"] - lr > self.eps else group["lr"]
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self.current
