"""Losses of torch.nn.functional where MindSpore's own are wrong or have other arguments."""

from __future__ import annotations

from mindspore import Tensor, ops

from .layer_losses import reduced


def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """F.kl_div; a target of zero adds nothing."""
    if log_target:
        losses = ops.exp(target) * (target - input)
    else:
        losses = target * (ops.log(ops.where(target == 0, ops.ones_like(target), target)) - input)
    if reduction == "batchmean":
        return losses.sum() / input.shape[0]
    return reduced(losses, reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """F.triplet_margin_loss (ops.triplet_margin_loss has no CPU kernel)."""
    near, far = p_distance(anchor, positive, p, eps), p_distance(anchor, negative, p, eps)
    if swap:
        far = ops.minimum(far, p_distance(positive, negative, p, eps))
    return reduced(ops.relu(near - far + margin), reduction)


def p_distance(x: Tensor, y: Tensor, p: float, eps: float) -> Tensor:
    """The p-norm of x - y + eps over the last axis."""
    size = ops.abs(x - y + eps)
    if p == 2:
        return ops.sqrt((size * size).sum(-1))
    return size.sum(-1) if p == 1 else (size**p).sum(-1) ** (1.0 / p)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """F.margin_ranking_loss with targets 1 and -1 of any type."""
    return reduced(ops.relu(margin - target * (input1 - input2)), reduction)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """F.hinge_embedding_loss with targets 1 and -1 of any type."""
    zeros = ops.zeros_like(input)
    losses = ops.where(target != 1, ops.relu(margin - input), zeros) + ops.where(target != -1, input, zeros)
    return reduced(losses, reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """F.gaussian_nll_loss; the bound on the variance takes no part in the gradient."""
    if var.ndim == input.ndim - 1:
        var = var.expand_dims(-1)
    var = var + ops.stop_gradient(ops.clamp(var, min=eps) - var)
    losses = 0.5 * (ops.log(var) + ops.square(input - target) / var)
    return reduced(losses + 0.9189385332046727 if full else losses, reduction)


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """F.multi_margin_loss (ops.multi_margin_loss takes whole margins only)."""
    scores = input.reshape(-1, input.shape[-1]) if input.ndim > 0 else input.reshape(1, 1)
    labels = target.reshape(-1, 1)
    losses = ops.relu(margin - ops.gather_elements(scores, 1, labels) + scores)
    losses = losses * losses if p == 2 else losses
    if weight is not None:
        losses = losses * ops.gather(weight, labels, 0)
    others = labels != ops.arange(scores.shape[1]).astype(labels.dtype)
    losses = (losses * others.astype(losses.dtype)).sum(-1) / scores.shape[1]
    return reduced(losses if input.ndim > 1 else losses.reshape(()), reduction)
