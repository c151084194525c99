"""Optimizers with torch's update rules and groups: MindSpore's own Adam, RMSProp, Adagrad and AdamWeightDecay take other steps."""

import math
from collections import defaultdict

import mindspore as ms
from mindspore import Tensor, ops


class Optimizer:
    """Groups of parameters with settings of their own. A parameter's gradient lies in its attribute ``grad``."""

    def __init__(self, params, defaults):
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def add_param_group(self, group):
        params = group["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        self.param_groups.append({**self.defaults, **group, "params": params})

    @property
    def parameters(self):
        """What the gradient is asked for, in the order in which gradients are given back."""
        return [p for group in self.param_groups for p in group["params"] if p.requires_grad]

    def __call__(self, gradients):
        """One update with the gradients of ``parameters``."""
        for parameter, gradient in zip(self.parameters, gradients):
            parameter.grad = gradient
        self.step()
        self.zero_grad()

    def zero_grad(self, set_to_none=True):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def step(self, closure=None):
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                gradient = getattr(parameter, "grad", None)
                if gradient is not None and parameter.requires_grad:
                    gradient = -gradient if group.get("maximize") else gradient
                    ops.assign(parameter, self.update(parameter, gradient, group, self.state[parameter]))
        return loss

    def update(self, parameter, gradient, group, state):
        """The parameter's new value."""
        raise NotImplementedError

    def _numbered(self):
        return [p for group in self.param_groups for p in group["params"]]

    def state_dict(self):
        numbers = {id(p): i for i, p in enumerate(self._numbered())}
        groups = [{**g, "params": [numbers[id(p)] for p in g["params"]]} for g in self.param_groups]
        return {"state": {numbers[id(p)]: dict(v) for p, v in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, state_dict):
        params = self._numbered()
        self.state = defaultdict(dict)
        for i, held in state_dict["state"].items():
            self.state[params[i]] = {k: int(v) if k == "step" else v for k, v in held.items()}
        for group, saved in zip(self.param_groups, state_dict["param_groups"]):
            group.update({k: v for k, v in saved.items() if k != "params"})


class SGD(Optimizer):
    def __init__(
        self,
        params,
        lr=1e-3,
        momentum=0,
        dampening=0,
        weight_decay=0,
        nesterov=False,
        *,
        maximize=False,
        foreach=None,
        differentiable=False,
        fused=None,
    ):
        super().__init__(
            params,
            dict(
                lr=lr,
                momentum=momentum,
                dampening=dampening,
                weight_decay=weight_decay,
                nesterov=nesterov,
                maximize=maximize,
            ),
        )

    def update(self, parameter, gradient, group, state):
        if group["weight_decay"]:
            gradient = gradient + parameter * group["weight_decay"]
        if group["momentum"]:
            buffer = state.get("momentum_buffer")
            buffer = gradient if buffer is None else buffer * group["momentum"] + gradient * (1 - group["dampening"])
            state["momentum_buffer"] = buffer
            gradient = gradient + buffer * group["momentum"] if group["nesterov"] else buffer
        return parameter - gradient * group["lr"]


class Adam(Optimizer):
    decoupled = False

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        amsgrad=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
        fused=None,
        decoupled_weight_decay=False,
    ):
        super().__init__(
            params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize)
        )
        self.decoupled = self.decoupled or decoupled_weight_decay

    def update(self, parameter, gradient, group, state):
        (beta1, beta2), lr, decay = group["betas"], group["lr"], group["weight_decay"]
        value = parameter + 0
        if decay and self.decoupled:
            value = value * (1 - lr * decay)
        elif decay:
            gradient = gradient + value * decay
        state["step"] = state.get("step", 0) + 1
        state["exp_avg"] = gradient * (1 - beta1) + state.get("exp_avg", 0) * beta1
        state["exp_avg_sq"] = gradient * gradient * (1 - beta2) + state.get("exp_avg_sq", 0) * beta2
        square = state["exp_avg_sq"]
        if group["amsgrad"]:
            square = ops.maximum(state.get("max_exp_avg_sq", ops.zeros_like(square)), square)
            state["max_exp_avg_sq"] = square
        correction1, correction2 = 1 - beta1 ** state["step"], 1 - beta2 ** state["step"]
        return value - state["exp_avg"] * (lr / correction1) / (
            ops.sqrt(square) / math.sqrt(correction2) + group["eps"]
        )


class AdamW(Adam):
    decoupled = True

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=1e-2,
        amsgrad=False,
        *,
        maximize=False,
        foreach=None,
        capturable=False,
        differentiable=False,
        fused=None,
    ):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)


class RMSprop(Optimizer):
    def __init__(
        self,
        params,
        lr=1e-2,
        alpha=0.99,
        eps=1e-8,
        weight_decay=0,
        momentum=0,
        centered=False,
        capturable=False,
        foreach=None,
        maximize=False,
        differentiable=False,
    ):
        super().__init__(
            params,
            dict(
                lr=lr,
                alpha=alpha,
                eps=eps,
                weight_decay=weight_decay,
                momentum=momentum,
                centered=centered,
                maximize=maximize,
            ),
        )

    def update(self, parameter, gradient, group, state):
        alpha = group["alpha"]
        if group["weight_decay"]:
            gradient = gradient + parameter * group["weight_decay"]
        state["square_avg"] = state.get("square_avg", 0) * alpha + gradient * gradient * (1 - alpha)
        average = state["square_avg"]
        if group["centered"]:
            state["grad_avg"] = state.get("grad_avg", 0) * alpha + gradient * (1 - alpha)
            average = average - state["grad_avg"] * state["grad_avg"]
        change = gradient / (ops.sqrt(average) + group["eps"])
        if group["momentum"] > 0:
            state["momentum_buffer"] = state.get("momentum_buffer", 0) * group["momentum"] + change
            change = state["momentum_buffer"]
        return parameter - change * group["lr"]


class Adagrad(Optimizer):
    def __init__(
        self,
        params,
        lr=1e-2,
        lr_decay=0,
        weight_decay=0,
        initial_accumulator_value=0,
        eps=1e-10,
        foreach=None,
        *,
        maximize=False,
        differentiable=False,
        fused=None,
    ):
        super().__init__(
            params,
            dict(
                lr=lr,
                lr_decay=lr_decay,
                eps=eps,
                weight_decay=weight_decay,
                initial_accumulator_value=initial_accumulator_value,
                maximize=maximize,
            ),
        )

    def update(self, parameter, gradient, group, state):
        state["step"] = state.get("step", 0) + 1
        if group["weight_decay"]:
            gradient = gradient + parameter * group["weight_decay"]
        state["sum"] = state.get("sum", group["initial_accumulator_value"]) + gradient * gradient
        lr = group["lr"] / (1 + (state["step"] - 1) * group["lr_decay"])
        return parameter - gradient * lr / (ops.sqrt(state["sum"]) + group["eps"])


class Adadelta(Optimizer):
    def __init__(
        self,
        params,
        lr=1.0,
        rho=0.9,
        eps=1e-6,
        weight_decay=0,
        foreach=None,
        *,
        capturable=False,
        maximize=False,
        differentiable=False,
    ):
        super().__init__(params, dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize))

    def update(self, parameter, gradient, group, state):
        rho, eps = group["rho"], group["eps"]
        if group["weight_decay"]:
            gradient = gradient + parameter * group["weight_decay"]
        zeros = ops.zeros_like(gradient)
        state["square_avg"] = state.get("square_avg", zeros) * rho + gradient * gradient * (1 - rho)
        before = state.get("acc_delta", zeros)
        change = ops.sqrt(before + eps) / ops.sqrt(state["square_avg"] + eps) * gradient
        state["acc_delta"] = before * rho + change * change * (1 - rho)
        return parameter - change * group["lr"]


class Adamax(Optimizer):
    def __init__(
        self,
        params,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        foreach=None,
        *,
        maximize=False,
        differentiable=False,
        capturable=False,
    ):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize))

    def update(self, parameter, gradient, group, state):
        beta1, beta2 = group["betas"]
        state["step"] = state.get("step", 0) + 1
        if group["weight_decay"]:
            gradient = gradient + parameter * group["weight_decay"]
        state["exp_avg"] = gradient * (1 - beta1) + state.get("exp_avg", 0) * beta1
        before = state.get("exp_inf", ops.zeros_like(gradient))
        state["exp_inf"] = ops.maximum(before * beta2, ops.abs(gradient) + group["eps"])
        return parameter - state["exp_avg"] * (group["lr"] / (1 - beta1 ** state["step"])) / state["exp_inf"]


class NAdam(Optimizer):
    def __init__(
        self,
        params,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        momentum_decay=4e-3,
        decoupled_weight_decay=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
    ):
        super().__init__(
            params,
            dict(
                lr=lr,
                betas=betas,
                eps=eps,
                weight_decay=weight_decay,
                momentum_decay=momentum_decay,
                decoupled=decoupled_weight_decay,
                maximize=maximize,
            ),
        )

    def update(self, parameter, gradient, group, state):
        (beta1, beta2), lr, decay = group["betas"], group["lr"], group["weight_decay"]
        value = parameter + 0
        if decay and group["decoupled"]:
            value = value * (1 - lr * decay)
        elif decay:
            gradient = gradient + value * decay
        step = state["step"] = state.get("step", 0) + 1
        mu = beta1 * (1 - 0.5 * 0.96 ** (step * group["momentum_decay"]))
        mu_next = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * group["momentum_decay"]))
        product = state["mu_product"] = state.get("mu_product", 1.0) * mu
        state["exp_avg"] = gradient * (1 - beta1) + state.get("exp_avg", 0) * beta1
        state["exp_avg_sq"] = gradient * gradient * (1 - beta2) + state.get("exp_avg_sq", 0) * beta2
        denominator = ops.sqrt(state["exp_avg_sq"] / (1 - beta2**step)) + group["eps"]
        value = value - gradient * (lr * (1 - mu) / (1 - product)) / denominator
        return value - state["exp_avg"] * (lr * mu_next / (1 - product * mu_next)) / denominator


class RAdam(Optimizer):
    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        decoupled_weight_decay=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
    ):
        super().__init__(
            params,
            dict(
                lr=lr,
                betas=betas,
                eps=eps,
                weight_decay=weight_decay,
                decoupled=decoupled_weight_decay,
                maximize=maximize,
            ),
        )

    def update(self, parameter, gradient, group, state):
        (beta1, beta2), lr, decay = group["betas"], group["lr"], group["weight_decay"]
        value = parameter + 0
        if decay and group["decoupled"]:
            value = value * (1 - lr * decay)
        elif decay:
            gradient = gradient + value * decay
        step = state["step"] = state.get("step", 0) + 1
        state["exp_avg"] = gradient * (1 - beta1) + state.get("exp_avg", 0) * beta1
        state["exp_avg_sq"] = gradient * gradient * (1 - beta2) + state.get("exp_avg_sq", 0) * beta2
        correction1, correction2 = 1 - beta1**step, 1 - beta2**step
        average = state["exp_avg"] / correction1
        rho_inf = 2 / (1 - beta2) - 1
        rho = rho_inf - 2 * step * beta2**step / correction2
        if rho > 5:
            rectified = math.sqrt((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho))
            average = average * (rectified * math.sqrt(correction2)) / (ops.sqrt(state["exp_avg_sq"]) + group["eps"])
        return value - average * lr


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scale the gradients so that their common norm is at most ``max_norm``; returns the norm before."""
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    parameters = [p for p in parameters if getattr(p, "grad", None) is not None]
    if not parameters:
        return Tensor(0.0)
    if float(norm_type) == math.inf:
        norm = ops.stack([ops.abs(p.grad).max() for p in parameters]).max()
    else:
        power = float(norm_type)
        norm = sum((ops.abs(p.grad) ** power).sum() for p in parameters) ** (1.0 / power)
    scale = ops.minimum(max_norm / (norm + 1e-6), Tensor(1.0))
    for parameter in parameters:
        parameter.grad = parameter.grad * scale.astype(parameter.grad.dtype)
    return norm


def clip_grad_value_(parameters, clip_value, foreach=None):
    for parameter in [parameters] if isinstance(parameters, Tensor) else parameters:
        if getattr(parameter, "grad", None) is not None:
            parameter.grad = ops.clamp(parameter.grad, -clip_value, clip_value)


def accumulate(parameters, gradients):
    """Add gradients to what the parameters hold in ``grad``."""
    for parameter, gradient in zip(parameters, gradients):
        held = getattr(parameter, "grad", None)
        parameter.grad = gradient if held is None else held + gradient


def all_parameters(*cells):
    """Parameters in torch's sense: without the running statistics of normalization layers."""
    statistics = ("moving_mean", "moving_variance")
    found = [p for cell in cells for p in cell.get_parameters() if not p.name.endswith(statistics)]
    for parameter in found:
        if not hasattr(parameter, "grad"):
            parameter.grad = None
    return iter(found)


def trainable(*cells):
    """What gradients are asked for where no optimizer is at hand."""
    return [p for p in all_parameters(*cells) if p.requires_grad]


def clear_gradients(cell):
    for parameter in cell.get_parameters():
        parameter.grad = None


def freeze(cell, requires_grad):
    for parameter in all_parameters(cell):
        parameter.requires_grad = requires_grad
    return cell


class GradScaler:
    """Loss scaling with torch's schedule. Off on CPU unless asked for there, where nothing computes in float16."""

    def __init__(
        self,
        device="cuda",
        init_scale=2.0**16,
        growth_factor=2.0,
        backoff_factor=0.5,
        growth_interval=2000,
        enabled=True,
    ):
        if not isinstance(device, str):
            init_scale, device = device, "cuda"
        self.enabled = enabled and (device == "cpu" or on_device())
        self.scale_value, self.growth_factor, self.backoff_factor = float(init_scale), growth_factor, backoff_factor
        self.growth_interval, self.growth_tracker = growth_interval, 0
        self.unscaled, self.overflow = set(), False

    def scale(self, outputs):
        return outputs * self.scale_value if self.enabled else outputs

    def unscale_(self, optimizer):
        if not self.enabled or id(optimizer) in self.unscaled:
            return
        self.unscaled.add(id(optimizer))
        for parameter in optimizer.parameters:
            if getattr(parameter, "grad", None) is not None:
                parameter.grad = parameter.grad / self.scale_value
                self.overflow = self.overflow or not bool(ops.isfinite(parameter.grad).all())

    def step(self, optimizer, *args, **kwargs):
        self.unscale_(optimizer)
        return None if self.overflow else optimizer.step(*args, **kwargs)

    def update(self, new_scale=None):
        if not self.enabled:
            return
        if new_scale is not None:
            self.scale_value = float(new_scale)
        elif self.overflow:
            self.scale_value, self.growth_tracker = self.scale_value * self.backoff_factor, 0
        else:
            self.growth_tracker += 1
            if self.growth_tracker == self.growth_interval:
                self.scale_value, self.growth_tracker = self.scale_value * self.growth_factor, 0
        self.unscaled, self.overflow = set(), False

    def get_scale(self):
        return self.scale_value if self.enabled else 1.0

    def is_enabled(self):
        return self.enabled

    def state_dict(self):
        return {"scale": self.scale_value, "_growth_tracker": self.growth_tracker} if self.enabled else {}

    def load_state_dict(self, state_dict):
        if state_dict:
            self.scale_value, self.growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]


def on_device():
    """Whether MindSpore computes on an accelerator."""
    return ms.get_context("device_target") != "CPU"


class LBFGS(Optimizer):
    """L-BFGS as torch has it without a line search: one group, a closure that computes the loss and its gradients."""

    def __init__(
        self,
        params,
        lr=1,
        max_iter=20,
        max_eval=None,
        tolerance_grad=1e-7,
        tolerance_change=1e-9,
        history_size=100,
        line_search_fn=None,
    ):
        if line_search_fn is not None:
            raise NotImplementedError("MSP602: torch.optim.LBFGS: no line search is here; leave line_search_fn out")
        self.options = (
            max_iter,
            max_iter * 5 // 4 if max_eval is None else max_eval,
            tolerance_grad,
            tolerance_change,
            history_size,
        )
        super().__init__(params, dict(lr=lr))
        self.memory = {"old_dirs": [], "old_stps": [], "ro": [], "H_diag": 1.0, "n_iter": 0, "func_evals": 0}

    def _gradient(self):
        parts = []
        for parameter in self.param_groups[0]["params"]:
            gradient = getattr(parameter, "grad", None)
            parts.append(ops.zeros(parameter.size, parameter.dtype) if gradient is None else gradient.reshape(-1))
        return ops.cat(parts)

    def _move(self, step, direction):
        offset = 0
        for parameter in self.param_groups[0]["params"]:
            change = direction[offset : offset + parameter.size].reshape(parameter.shape)
            ops.assign(parameter, parameter + change * step)
            offset += parameter.size

    def step(self, closure):
        max_iter, max_eval, tolerance_grad, tolerance_change, history_size = self.options
        lr, held = self.param_groups[0]["lr"], self.memory
        first_loss = closure()
        loss, evaluations = float(first_loss), 1
        held["func_evals"] += 1
        gradient = self._gradient()
        if float(ops.abs(gradient).max()) <= tolerance_grad:
            return first_loss
        direction, step = held.get("d"), held.get("t")
        before = held.get("prev_flat_grad")
        count = 0
        while count < max_iter:
            count += 1
            held["n_iter"] += 1
            if held["n_iter"] == 1:
                direction = -gradient
            else:
                change, moved = gradient - before, direction * step
                curvature = float((change * moved).sum())
                if curvature > 1e-10:
                    if len(held["old_dirs"]) == history_size:
                        for name in ("old_dirs", "old_stps", "ro"):
                            held[name].pop(0)
                    held["old_dirs"].append(change)
                    held["old_stps"].append(moved)
                    held["ro"].append(1.0 / curvature)
                    held["H_diag"] = curvature / float((change * change).sum())
                q = -gradient
                factors = [None] * len(held["old_dirs"])
                for i in range(len(factors) - 1, -1, -1):
                    factors[i] = float((held["old_stps"][i] * q).sum()) * held["ro"][i]
                    q = q - held["old_dirs"][i] * factors[i]
                direction = q * held["H_diag"]
                for i in range(len(factors)):
                    again = float((held["old_dirs"][i] * direction).sum()) * held["ro"][i]
                    direction = direction + held["old_stps"][i] * (factors[i] - again)
            before, previous = gradient, loss
            step = min(1.0, 1.0 / float(ops.abs(gradient).sum())) * lr if held["n_iter"] == 1 else lr
            slope = float((gradient * direction).sum())
            if slope > -tolerance_change:
                break
            self._move(step, direction)
            if count != max_iter:
                loss = float(closure())
                gradient = self._gradient()
                evaluations += 1
                held["func_evals"] += 1
            small = float(ops.abs(gradient).max()) <= tolerance_grad
            still = (
                float(ops.abs(direction * step).max()) <= tolerance_change or abs(loss - previous) < tolerance_change
            )
            if evaluations >= max_eval or small or still:
                break
        held.update(d=direction, t=step, prev_flat_grad=before)
        return first_loss
