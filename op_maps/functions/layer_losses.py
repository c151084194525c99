"""Losses with torch's arguments, label types and edge cases, as functions and cells."""

import mindspore as ms
from mindspore import Parameter, Tensor, nn, ops

from .functional import log1p_exp


def class_weights(weight: Tensor | None) -> Parameter | None:
    """Weights of a loss, which torch saves with the model: they come with the weights and have no gradient."""
    return None if weight is None else Parameter(Tensor(weight), requires_grad=False)


def reduced(losses: Tensor, reduction: str) -> Tensor:
    """``mean``, ``sum`` or the losses themselves."""
    if reduction == "mean":
        return losses.mean()
    return losses.sum() if reduction == "sum" else losses


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """F.binary_cross_entropy: logarithms are at least -100 (ops stops at -27.6)."""
    tiny = 1.2e-38  # smaller numbers are denormal: their logarithm counts as -100
    certain = ops.log(ops.maximum(input, ops.full_like(input, tiny)))
    certain_not = ops.log(ops.maximum(1.0 - input, ops.full_like(input, tiny)))
    value = -(
        target * ops.where(input < tiny, ops.full_like(input, -100.0), certain)
        + (1.0 - target) * ops.where(1.0 - input < tiny, ops.full_like(input, -100.0), certain_not)
    )
    slope = (input - target) / ops.maximum((1.0 - input) * input, ops.full_like(input, 1e-12))
    # torch's gradient is (x - y) / max(x (1 - x), 1e-12), also where the value is clamped.
    losses = ops.stop_gradient(value) + ops.stop_gradient(slope) * (input - ops.stop_gradient(input))
    if target.dtype == input.dtype:
        losses = losses + ops.stop_gradient(certain_not - certain) * (target - ops.stop_gradient(target))
    return reduced(losses if weight is None else losses * weight, reduction)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | tuple[int, ...],
    target_lengths: Tensor | tuple[int, ...],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """F.ctc_loss: lengths may be numbers, targets may stand one behind the other, and the batch may be missing."""
    targets = targets.astype(ms.int32)
    longest = max(target_lengths) if isinstance(target_lengths, (tuple, list)) else targets.shape[-1]
    input_lengths, target_lengths = int32_tensor(input_lengths), int32_tensor(target_lengths)
    single = log_probs.ndim == 2
    if single:
        log_probs, targets = log_probs.expand_dims(1), targets.reshape(1, -1)
        input_lengths, target_lengths = input_lengths.reshape(1), target_lengths.reshape(1)
    elif targets.ndim == 1:
        starts = ops.cumsum(target_lengths, 0) - target_lengths
        places = starts.expand_dims(1) + ops.arange(longest).astype(ms.int32)
        targets = ops.gather(targets, ops.clamp(places, 0, targets.shape[0] - 1), 0)
    loss = ops.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)[0]
    return loss.reshape(()) if single else loss


def int32_tensor(lengths: Tensor | tuple[int, ...]) -> Tensor:
    """Lengths as MindSpore's ctc_loss wants them."""
    return Tensor(lengths, ms.int32) if isinstance(lengths, (tuple, list)) else lengths.astype(ms.int32)


class MarginRankingLoss(nn.Cell):
    """torch.nn.MarginRankingLoss: the target may be of an integer type."""

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__()
        self.margin = margin
        self.reduction = reduction

    def construct(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        losses = ops.relu(-target.astype(input1.dtype) * (input1 - input2) + self.margin)
        return reduced(losses, self.reduction)


class MultiLabelMarginLoss(nn.Cell):
    """torch.nn.MultiLabelMarginLoss."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def construct(self, input: Tensor, target: Tensor) -> Tensor:
        return multilabel_margin_loss(input, target, self.reduction)


def multilabel_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """F.multilabel_margin_loss: labels of a row end at the first -1."""
    if input.ndim == 0:
        input, target = input.reshape(1), target.reshape(1)
    classes = input.shape[-1]
    ended = ops.cumsum((target < 0).astype(ms.int32), -1) > 0
    labels = ops.where(ended, ops.zeros_like(target), target)
    wanted = ops.gather_elements(input, -1, labels)
    hit = (labels.expand_dims(-1) == ops.arange(classes).astype(target.dtype)).astype(input.dtype)
    live = 1.0 - ended.astype(input.dtype)
    is_label = ops.clamp((hit * live.expand_dims(-1)).sum(-2), 0.0, 1.0)
    margins = ops.relu(1.0 - wanted.expand_dims(-1) + input.expand_dims(-2))
    losses = (margins * live.expand_dims(-1) * (1.0 - is_label).expand_dims(-2)).sum((-2, -1)) / classes
    return reduced(losses, reduction)


class BCELoss(nn.Cell):
    """torch.nn.BCELoss."""

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.weight = class_weights(weight)
        self.reduction = reduction

    def construct(self, input: Tensor, target: Tensor) -> Tensor:
        return binary_cross_entropy(input, target, self.weight, self.reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """F.binary_cross_entropy_with_logits."""
    softplus = log1p_exp(-input)
    factor = 1.0 if pos_weight is None else 1.0 + (pos_weight - 1.0) * target
    losses = (1.0 - target) * input + factor * softplus
    return reduced(losses if weight is None else losses * weight, reduction)


class BCEWithLogitsLoss(nn.Cell):
    """torch.nn.BCEWithLogitsLoss."""

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean", pos_weight: Tensor | None = None) -> None:
        super().__init__()
        self.weight = class_weights(weight)
        self.pos_weight = class_weights(pos_weight)
        self.reduction = reduction

    def construct(self, input: Tensor, target: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(input, target, self.weight, self.reduction, self.pos_weight)


class CrossEntropyLoss(nn.Cell):
    """torch.nn.CrossEntropyLoss: labels of any integer type, or probabilities."""

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        self.weight = class_weights(weight)
        self.ignore_index = ignore_index
        self.reduction = reduction
        self.label_smoothing = label_smoothing

    def construct(self, input: Tensor, target: Tensor) -> Tensor:
        return ops.cross_entropy(input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing)


class NLLLoss(nn.Cell):
    """torch.nn.NLLLoss: labels of any integer type."""

    def __init__(self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__()
        self.weight = class_weights(weight)
        self.ignore_index = ignore_index
        self.reduction = reduction

    def construct(self, input: Tensor, target: Tensor) -> Tensor:
        return ops.nll_loss(input, target.astype(ms.int32), self.weight, self.ignore_index, self.reduction)


class KLDivLoss(nn.Cell):
    """torch.nn.KLDivLoss."""

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__()
        self.reduction = reduction
        self.log_target = log_target

    def construct(self, input: Tensor, target: Tensor) -> Tensor:
        if self.log_target:
            losses = ops.exp(target) * (target - input)
        else:
            safe = ops.where(target == 0, ops.ones_like(target), target)
            losses = target * (ops.log(safe) - input)
        if self.reduction == "batchmean":
            return losses.sum() / input.shape[0]
        return reduced(losses, self.reduction)


class TripletMarginLoss(nn.Cell):
    """torch.nn.TripletMarginLoss (nn.TripletMarginLoss has no CPU kernel)."""

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, reduction: str = "mean"
    ) -> None:
        super().__init__()
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap
        self.reduction = reduction

    def distance(self, x: Tensor, y: Tensor) -> Tensor:
        size = ops.abs(x - y + self.eps)
        if self.p == 2:
            return ops.sqrt((size * size).sum(-1))
        return size.sum(-1) if self.p == 1 else ops.pow(ops.pow(size, self.p).sum(-1), 1.0 / self.p)

    def construct(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        near = self.distance(anchor, positive)
        far = self.distance(anchor, negative)
        if self.swap:
            far = ops.minimum(far, self.distance(positive, negative))
        return reduced(ops.relu(near - far + self.margin), self.reduction)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """F.multilabel_soft_margin_loss."""
    losses = (1.0 - target) * input + log1p_exp(-input)
    losses = losses if weight is None else losses * weight
    return reduced(losses.mean(-1), reduction)


class MultiLabelSoftMarginLoss(nn.Cell):
    """torch.nn.MultiLabelSoftMarginLoss."""

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.weight = class_weights(weight)
        self.reduction = reduction

    def construct(self, input: Tensor, target: Tensor) -> Tensor:
        return multilabel_soft_margin_loss(input, target, self.weight, self.reduction)


class CTCLoss(nn.Cell):
    """torch.nn.CTCLoss: lengths and targets of any integer type."""

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__()
        self.blank = blank
        self.reduction = reduction
        self.zero_infinity = zero_infinity

    def construct(self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor) -> Tensor:
        return ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )


def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """F.soft_margin_loss with targets 1 and -1 of any type."""
    return reduced(log1p_exp(-input * target), reduction)


class SoftMarginLoss(nn.Cell):
    """torch.nn.SoftMarginLoss."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def construct(self, input: Tensor, target: Tensor) -> Tensor:
        return soft_margin_loss(input, target, self.reduction)


class HingeEmbeddingLoss(nn.Cell):
    """torch.nn.HingeEmbeddingLoss: targets 1 and -1 of any type."""

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__()
        self.margin = margin
        self.reduction = reduction

    def construct(self, input: Tensor, target: Tensor) -> Tensor:
        zeros = ops.zeros_like(input)
        apart = ops.where(target != 1, ops.relu(self.margin - input), zeros)
        return reduced(apart + ops.where(target != -1, input, zeros), self.reduction)


class MultiMarginLoss(nn.MultiMarginLoss):
    """torch.nn.MultiMarginLoss: the weight of the classes may be an array."""

    def __init__(self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(p, margin, reduction, None if weight is None else Tensor(weight))


class PoissonNLLLoss(nn.Cell):
    """torch.nn.PoissonNLLLoss."""

    def __init__(self, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean") -> None:
        super().__init__()
        self.log_input = log_input
        self.full = full
        self.eps = eps
        self.reduction = reduction

    def construct(self, input: Tensor, target: Tensor) -> Tensor:
        return poisson_nll_loss(input, target, self.log_input, self.full, self.eps, self.reduction)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """F.poisson_nll_loss; ``full`` adds Stirling's term where the target is above 1."""
    if log_input:
        losses = ops.exp(input) - target * input
    else:
        losses = input - target * ops.log(input + eps)
    if full:
        term = target * ops.log(target) - target + 0.5 * ops.log(6.283185307179586 * target)
        losses = losses + ops.where(target <= 1, ops.zeros_like(term), term)
    return reduced(losses, reduction)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """F.cosine_embedding_loss of (N, D) or (D,) (ops.cosine_embedding_loss divides by 0 for a vector of zeros)."""
    sizes = (ops.square(input1).sum(-1) + 1e-12) * (ops.square(input2).sum(-1) + 1e-12)
    cosine = (input1 * input2).sum(-1) / ops.sqrt(sizes)
    zeros = ops.zeros_like(cosine)
    near, far = ops.where(target == 1, 1.0 - cosine, zeros), ops.where(target == -1, ops.relu(cosine - margin), zeros)
    return reduced(near + far, reduction)


class CosineEmbeddingLoss(nn.Cell):
    """torch.nn.CosineEmbeddingLoss of (N, D) or (D,)."""

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__()
        self.margin = margin
        self.reduction = reduction

    def construct(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return cosine_embedding_loss(input1, input2, target, self.margin, self.reduction)
