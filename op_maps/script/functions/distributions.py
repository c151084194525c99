"""Distributions of torch.distributions that training scripts draw from."""

import math

import mindspore as ms
from mindspore import Tensor, ops


class Categorical:
    """Classes with probabilities, or with logits, along the last axis."""

    def __init__(self, probs=None, logits=None, validate_args=None):
        if logits is None:
            self.probs = probs / probs.sum(-1, keepdims=True)
            self.logits = ops.log(ops.clamp(self.probs, 1.1920929e-07, 1 - 1.1920929e-07))
        else:
            self.logits = ops.log_softmax(logits, axis=-1)
            self.probs = ops.exp(self.logits)

    def sample(self, sample_shape=()):
        shape = (*sample_shape, *self.probs.shape[:-1], 1)
        cumulative = ops.stop_gradient(self.probs).cumsum(-1)
        found = (cumulative < ops.rand(*shape)).astype(ms.int64).sum(-1)
        return ops.clamp(found, 0, self.probs.shape[-1] - 1).astype(ms.int64)  # the last sum may be rounded below 1

    def log_prob(self, value):
        index = value.astype(ms.int32).expand_dims(-1)
        return ops.gather_elements(
            self.logits.broadcast_to((*index.shape[:-1], self.logits.shape[-1])), index.ndim - 1, index
        ).squeeze(-1)

    def entropy(self):
        return -(self.probs * self.logits).sum(-1)


class NormalDistribution:
    """N(loc, scale)."""

    def __init__(self, loc, scale, validate_args=None):
        self.loc = loc if isinstance(loc, Tensor) else Tensor(float(loc))
        self.scale = scale if isinstance(scale, Tensor) else Tensor(float(scale))
        self.mean, self.stddev = self.loc, self.scale

    def rsample(self, sample_shape=()):
        return self.loc + ops.randn(*sample_shape, *(self.loc + self.scale).shape) * self.scale

    def sample(self, sample_shape=()):
        return ops.stop_gradient(self.rsample(sample_shape))

    def log_prob(self, value):
        return -((value - self.loc) ** 2) / (2 * self.scale**2) - ops.log(self.scale) - math.log(math.sqrt(2 * math.pi))

    def entropy(self):
        return 0.5 + 0.5 * math.log(2 * math.pi) + ops.log(self.scale) + ops.zeros_like(self.loc)


class BernoulliDistribution:
    """1 with a probability."""

    def __init__(self, probs=None, logits=None, validate_args=None):
        self.probs = ops.sigmoid(logits) if probs is None else probs

    def sample(self, sample_shape=()):
        return (ops.rand(*sample_shape, *self.probs.shape) < self.probs).astype(ms.float32)

    def log_prob(self, value):
        probs = ops.clamp(self.probs, 1.1920929e-07, 1 - 1.1920929e-07)
        return value * ops.log(probs) + (1 - value) * ops.log(1 - probs)

    def entropy(self):
        probs = ops.clamp(self.probs, 1.1920929e-07, 1 - 1.1920929e-07)
        return -(probs * ops.log(probs) + (1 - probs) * ops.log(1 - probs))


class MultivariateNormalDistribution:
    """N(loc, covariance) over the last axis, by the lower factor of its covariance."""

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        if precision_matrix is not None:
            covariance_matrix = ops.inverse(precision_matrix)
        self.scale_tril = ops.cholesky(covariance_matrix) if scale_tril is None else scale_tril
        shape = (*(loc.shape[:-1] or self.scale_tril.shape[:-2]), loc.shape[-1])
        self.loc = self.mean = loc.broadcast_to(shape)

    @property
    def covariance_matrix(self):
        return ops.matmul(self.scale_tril, self.scale_tril.swapaxes(-1, -2))

    def rsample(self, sample_shape=()):
        drawn = ops.randn(*sample_shape, *self.loc.shape).expand_dims(-1)
        return self.loc + ops.matmul(self.scale_tril, drawn).squeeze(-1)

    def sample(self, sample_shape=()):
        return ops.stop_gradient(self.rsample(sample_shape))

    def log_prob(self, value):
        apart = ops.matmul(ops.inverse(self.scale_tril), (value - self.loc).expand_dims(-1)).squeeze(-1)
        size = self.loc.shape[-1]
        return -0.5 * (size * math.log(2 * math.pi) + (apart**2).sum(-1)) - self._half_log_determinant()

    def entropy(self):
        size = self.loc.shape[-1]
        found = 0.5 * size * (1 + math.log(2 * math.pi)) + self._half_log_determinant()
        return found.broadcast_to(self.loc.shape[:-1])

    def _half_log_determinant(self):
        return ops.log((self.scale_tril * ops.eye(self.loc.shape[-1])).sum(-1)).sum(-1)


class UniformDistribution:
    """Even over [low, high)."""

    def __init__(self, low, high, validate_args=None):
        self.low = low if isinstance(low, Tensor) else Tensor(float(low))
        self.high = high if isinstance(high, Tensor) else Tensor(float(high))

    def rsample(self, sample_shape=()):
        width = self.high - self.low
        return self.low + ops.rand(*sample_shape, *width.shape) * width

    def sample(self, sample_shape=()):
        return ops.stop_gradient(self.rsample(sample_shape))

    def log_prob(self, value):
        inside = ops.logical_and(self.low <= value, value < self.high).astype(ms.float32)
        return ops.log(inside) - ops.log(self.high - self.low)

    def entropy(self):
        return ops.log(self.high - self.low)


def kl_divergence(p, q):
    """KL(p, q) of two normal or two categorical distributions."""
    if isinstance(p, NormalDistribution) and isinstance(q, NormalDistribution):
        ratio, apart = (p.scale / q.scale) ** 2, ((p.loc - q.loc) / q.scale) ** 2
        return 0.5 * (ratio + apart - 1 - ops.log(ratio))
    if isinstance(p, Categorical) and isinstance(q, Categorical):
        return (p.probs * (p.logits - q.logits)).sum(-1)
    raise NotImplementedError(f"no divergence of {type(p).__name__} and {type(q).__name__}")
