"""torch's random draws under ``--compare``: by number, so that the migrated script can repeat them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ms_port.script.draws import Draws


def repeatable(torch: Any, draws: Draws) -> None:
    """Draws of the script, of samplers, dropout, distributions and torchvision's transforms come from ``draws``; initial values stay."""
    _random(torch, draws)
    _more(torch, draws)
    _distributions(torch, draws)
    _samplers(torch, draws)
    _dropout(torch, draws)


def _random(torch: Any, draws: Draws) -> None:
    """Draws that the script itself makes; those inside torch (initial values) stay."""

    def shaped(kind: str, original: Any) -> Any:
        def draw(*size: Any, **options: Any) -> Any:
            if draws.from_transforms() and size == (1,):
                return torch.tensor([draws.number()])
            if not draws.from_script() or "out" in options:
                return original(*size, **options)
            plain = {k: v for k, v in options.items() if k in ("dtype", "device", "requires_grad")}
            shape = options.get("size", size[0] if len(size) == 1 and not isinstance(size[0], int) else size)
            found = torch.from_numpy(getattr(draws, kind)(tuple(shape)))
            return found.to(plain.get("dtype") or torch.float32).requires_grad_(bool(plain.get("requires_grad")))

        return draw

    def randint(low: Any, high: Any = None, size: Any = None, **options: Any) -> Any:
        if draws.from_transforms() and high is not None and size == (1,):
            return torch.tensor([low + min(int(draws.number() * (high - low)), high - low - 1)])
        if not draws.from_script():
            given = [a for a in (low, high, size) if a is not None]
            return originals["randint"](*given, **options)
        if isinstance(high, (tuple, list)):
            low, high, size = 0, low, high
        elif high is None:
            low, high = 0, low
        values = torch.from_numpy(draws.uniform(tuple(size))) * (high - low)
        return values.to(options.get("dtype") or torch.int64) + low

    originals = {"randint": torch.randint}
    torch.randn, torch.rand, torch.randint = shaped("normal", torch.randn), shaped("uniform", torch.rand), randint
    for name, kind in (("randn_like", "normal"), ("rand_like", "uniform")):
        setattr(torch, name, _like(torch, kind, getattr(torch, name), draws))
    for name, kind in (("normal_", "normal"), ("uniform_", "uniform")):
        setattr(torch.Tensor, name, _in_place(torch, kind, getattr(torch.Tensor, name), draws))

    def normal(mean: Any, std: Any = 1.0, size: Any = None, **options: Any) -> Any:
        if not draws.from_script():
            given = [a for a in (mean, std, size) if a is not None]
            return originals["normal"](*given, **options)
        shape = size if size is not None else (torch.as_tensor(mean) + std).shape
        return torch.from_numpy(draws.normal(tuple(shape))) * std + mean

    originals["normal"], torch.normal = torch.normal, normal
    old = torch.randperm

    def randperm(n: int, **options: Any) -> Any:
        if draws.from_transforms():
            return torch.tensor(np.argsort([draws.number() for _ in range(n)]))
        return torch.tensor(draws.permutation(n)) if draws.from_script() else old(n, **options)

    torch.randperm = randperm


def _like(torch: Any, kind: str, original: Any, draws: Draws) -> Any:
    def draw(tensor: Any, **options: Any) -> Any:
        if not draws.from_script():
            return original(tensor, **options)
        return torch.from_numpy(getattr(draws, kind)(tuple(tensor.shape))).to(options.get("dtype") or tensor.dtype)

    return draw


def _in_place(torch: Any, kind: str, original: Any, draws: Draws) -> Any:
    def draw(tensor: Any, *args: Any, **options: Any) -> Any:
        if kind == "uniform" and draws.from_transforms() and len(args) == 2 and tensor.numel() == 1:
            low, high = map(float, args)
            return tensor.fill_(low + (high - low) * draws.number())
        if not draws.from_script():
            return original(tensor, *args, **options)
        low, high = (*args, *options.values(), *(0.0, 1.0)[len(args) + len(options) :])[:2]
        values = torch.from_numpy(getattr(draws, kind)(tuple(tensor.shape)))
        scaled = values * high + low if kind == "normal" else values * (high - low) + low
        return tensor.copy_(scaled.to(tensor.dtype))

    return draw


def _more(torch: Any, draws: Draws) -> None:
    """Draws that MindSpore makes out of uniform numbers."""

    def uniform(tensor: Any, shape: Any = None) -> Any:
        return torch.from_numpy(draws.uniform(tuple(tensor.shape if shape is None else shape))).to(tensor.dtype)

    def multinomial(input: Any, num_samples: int, replacement: bool = False, **options: Any) -> Any:
        if replacement and num_samples != 1:
            noise = uniform(input, (*input.shape[:-1], num_samples, input.shape[-1]))
            return (input.log().unsqueeze(-2) - (-noise.log()).log()).argmax(-1)
        return (input.log() - (-uniform(input).log()).log()).topk(num_samples)[1]

    def bernoulli(input: Any, p: Any = None, **options: Any) -> Any:
        return (uniform(input) < (input if p is None else p)).to(input.dtype)

    def bernoulli_(input: Any, p: Any = 0.5, **options: Any) -> Any:
        return input.copy_((uniform(input) < p).to(input.dtype))

    def exponential_(input: Any, lambd: float = 1, **options: Any) -> Any:
        return input.copy_(-torch.log1p(-uniform(input)) / lambd)

    def gumbel_softmax(logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Any:
        noise = -(-uniform(logits).clamp(min=1.1754943508222875e-38).log()).log()
        soft = ((logits + noise) / tau).softmax(dim)
        if not hard:
            return soft
        return torch.zeros_like(logits).scatter_(dim, soft.argmax(dim, keepdim=True), 1.0) - soft.detach() + soft

    def patch(holder: Any, name: str, new: Any) -> None:
        original = getattr(holder, name)
        setattr(holder, name, lambda *args, **o: (new if draws.from_script() else original)(*args, **o))

    for holder in (torch, torch.Tensor):
        patch(holder, "multinomial", multinomial)
        patch(holder, "bernoulli", bernoulli)
    patch(torch.Tensor, "bernoulli_", bernoulli_)
    patch(torch.Tensor, "exponential_", exponential_)
    patch(torch.nn.functional, "gumbel_softmax", gumbel_softmax)


def _distributions(torch: Any, draws: Draws) -> None:
    """Samples as the migrated script's distributions take them."""
    known = torch.distributions

    def categorical(self: Any, sample_shape: Any = ()) -> Any:
        probs = self.probs.detach()
        noise = torch.from_numpy(draws.uniform((*sample_shape, *probs.shape[:-1], 1)))
        return (probs.cumsum(-1) < noise).sum(-1).clamp(max=probs.shape[-1] - 1)

    def normal(self: Any, sample_shape: Any = ()) -> Any:
        shape = (*sample_shape, *torch.broadcast_shapes(self.loc.shape, self.scale.shape))
        return self.loc + torch.from_numpy(draws.normal(shape)) * self.scale

    def bernoulli(self: Any, sample_shape: Any = ()) -> Any:
        return (torch.from_numpy(draws.uniform((*sample_shape, *self.probs.shape))) < self.probs).float()

    def multivariate(self: Any, sample_shape: Any = ()) -> Any:
        drawn = torch.from_numpy(draws.normal((*sample_shape, *self.loc.shape)))
        return self.loc + (self.scale_tril @ drawn.unsqueeze(-1)).squeeze(-1)

    def uniform(self: Any, sample_shape: Any = ()) -> Any:
        width = self.high - self.low
        return self.low + torch.from_numpy(draws.uniform((*sample_shape, *width.shape))) * width

    known.MultivariateNormal.rsample, known.Uniform.rsample = multivariate, uniform
    known.MultivariateNormal.sample = lambda self, sample_shape=(): multivariate(self, sample_shape).detach()
    known.Uniform.sample = lambda self, sample_shape=(): uniform(self, sample_shape).detach()
    known.Categorical.sample, known.Normal.rsample, known.Bernoulli.sample = categorical, normal, bernoulli
    known.Normal.sample = lambda self, sample_shape=(): normal(self, sample_shape).detach()


WORKERS = (
    "num_workers",
    "prefetch_factor",
    "persistent_workers",
    "multiprocessing_context",
    "timeout",
    "worker_init_fn",
)
LOADER = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory", "drop_last",
          "timeout", "worker_init_fn", "multiprocessing_context", "generator")  # fmt: skip
"""Arguments of DataLoader by position."""


def _samplers(torch: Any, draws: Draws) -> None:
    data = torch.utils.data

    def random_order(sampler: Any) -> Any:
        count = len(sampler.data_source)
        if sampler.replacement:
            return iter((draws.uniform((sampler.num_samples,)) * count).astype(int).tolist())
        rounds = -(-sampler.num_samples // max(count, 1))
        return iter([i for _ in range(rounds) for i in draws.permutation(count)][: sampler.num_samples])

    def distributed(sampler: Any) -> Any:
        count, total = len(sampler.dataset), sampler.total_size
        order = list(range(count))
        if sampler.shuffle:
            order = np.random.RandomState(sampler.seed + sampler.epoch).permutation(count).tolist()
        order = (order * -(-total // max(count, 1)))[:total]
        return iter(order[sampler.rank : total : sampler.num_replicas])

    def weighted(sampler: Any) -> Any:
        weights = np.asarray(sampler.weights.tolist())
        uniform = draws.uniform((sampler.num_samples if sampler.replacement else len(weights),)).astype(np.float64)
        if sampler.replacement:
            return iter(np.searchsorted(np.cumsum(weights / weights.sum()), uniform).tolist())
        keys = np.where(weights > 0, uniform ** (1 / np.maximum(weights, 1e-300)), -1)
        return iter(np.argsort(-keys)[: sampler.num_samples].tolist())

    def fake(dataset: Any, index: int) -> Any:
        numbers = np.random.RandomState(index + dataset.random_offset)
        channels, *size = dataset.image_size
        image: Any = Image.fromarray(numbers.randint(0, 256, (*size, channels)).astype(np.uint8))
        target = int(np.random.RandomState(index + dataset.random_offset).randint(0, dataset.num_classes))
        image = dataset.transform(image) if dataset.transform else image
        return image, target if dataset.target_transform is None else dataset.target_transform(target)

    try:
        from PIL import Image
        from torchvision.datasets import FakeData
    except ImportError:
        pass
    else:
        FakeData.__getitem__ = fake
    made = data.DataLoader.__init__

    def loader(self: Any, *args: Any, **options: Any) -> None:
        """Without workers: each would draw on its own."""
        given = {**dict(zip(LOADER, args, strict=False)), **options}
        made(self, **{name: value for name, value in given.items() if name not in WORKERS})

    data.DataLoader.__init__ = loader
    data.RandomSampler.__iter__ = random_order
    data.distributed.DistributedSampler.__iter__ = distributed
    data.WeightedRandomSampler.__iter__ = weighted
    data.SubsetRandomSampler.__iter__ = lambda s: iter([s.indices[i] for i in draws.permutation(len(s.indices))])
    data.dataset.randperm = lambda n, **o: torch.tensor(draws.permutation(n))


def _dropout(torch: Any, draws: Draws) -> None:
    functional = torch.nn.functional

    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        if not training or p == 0:
            return input
        return input * torch.from_numpy(draws.mask(tuple(input.shape), p)).to(input.dtype)

    def channels(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        if not training or p == 0:
            return input
        shape = (*input.shape[:2], *(1 for _ in input.shape[2:]))
        return input * torch.from_numpy(draws.mask(shape, p)).to(input.dtype)

    attention = functional.scaled_dot_product_attention

    def scaled_dot_product_attention(query: Any, key: Any, value: Any, *args: Any, **options: Any) -> Any:
        names = ("attn_mask", "dropout_p", "is_causal")
        given = {**dict(zip(names, args, strict=False)), **options}
        p = given.get("dropout_p", 0.0)
        if not p:
            return attention(query, key, value, **given)
        scores = query @ key.transpose(-2, -1) * (given.get("scale") or query.shape[-1] ** -0.5)
        mask = given.get("attn_mask")
        if given.get("is_causal"):
            mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
        return dropout(scores.softmax(-1), p) @ value

    functional.dropout = dropout
    functional.dropout1d = functional.dropout2d = functional.dropout3d = channels
    functional.scaled_dot_product_attention = scaled_dot_product_attention
