"""The torch side of ``--compare``: runs a script with drawn numbers that the other side can repeat, and keeps its first weights.

``python -m ms_port.script.replay_torch FOLDER SCRIPT ARGS...``. Only ms_port.script.compare starts it.
"""

from __future__ import annotations

import copy
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ms_port.script.draws import Draws


def main(folder: str, script: str, arguments: list[str]) -> None:
    import torch

    torch.set_num_threads(1)
    root = Path(script).resolve().parent
    draws = Draws(root)
    _random(torch, draws)
    _samplers(torch, draws)
    _dropout(torch, draws)
    _weights(torch, Path(folder), draws)
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(root))
    runpy.run_path(script, run_name="__main__")


def _random(torch: Any, draws: Draws) -> None:
    """Draws that the script itself makes; those inside torch (initial values) stay."""

    def shaped(kind: str, original: Any) -> Any:
        def draw(*size: Any, **options: Any) -> Any:
            if not draws.from_script() or "out" in options:
                return original(*size, **options)
            plain = {k: v for k, v in options.items() if k in ("dtype", "device", "requires_grad")}
            shape = options.get("size", size[0] if len(size) == 1 and not isinstance(size[0], int) else size)
            found = torch.from_numpy(getattr(draws, kind)(tuple(shape)))
            return found.to(plain.get("dtype") or torch.float32).requires_grad_(bool(plain.get("requires_grad")))

        return draw

    def randint(low: Any, high: Any = None, size: Any = None, **options: Any) -> Any:
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
    torch.randperm = lambda n, **o: torch.tensor(draws.permutation(n)) if draws.from_script() else old(n, **o)


def _like(torch: Any, kind: str, original: Any, draws: Draws) -> Any:
    def draw(tensor: Any, **options: Any) -> Any:
        if not draws.from_script():
            return original(tensor, **options)
        return torch.from_numpy(getattr(draws, kind)(tuple(tensor.shape))).to(options.get("dtype") or tensor.dtype)

    return draw


def _in_place(torch: Any, kind: str, original: Any, draws: Draws) -> Any:
    def draw(tensor: Any, *args: Any, **options: Any) -> Any:
        if not draws.from_script():
            return original(tensor, *args, **options)
        low, high = (*args, *options.values(), *(0.0, 1.0)[len(args) + len(options) :])[:2]
        values = torch.from_numpy(getattr(draws, kind)(tuple(tensor.shape)))
        scaled = values * high + low if kind == "normal" else values * (high - low) + low
        return tensor.copy_(scaled.to(tensor.dtype))

    return draw


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


def _weights(torch: Any, folder: Path, draws: Draws) -> None:
    """The first state of each model, under MindSpore's names, when it is first used."""
    from ms_port.opmap import OpMap
    from ms_port.weights.rules import RULES

    op_map = OpMap.load()
    seen: set[int] = set()
    kept: list[Any] = []
    taken = 0

    def named(module: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for path, inner in module.named_modules():
            own = [*inner._parameters.items(), *((k, b) for k, b in inner._buffers.items())]
            row = next(
                (
                    op_map.row(f"torch.nn.{c.__name__}")
                    for c in type(inner).__mro__
                    if c.__module__.startswith("torch.nn") and op_map.row(f"torch.nn.{c.__name__}")
                ),
                None,
            )
            for name, tensor in own:
                if tensor is None:
                    continue
                array = tensor.detach().numpy()
                try:
                    rule = row.weight(name) if row is not None else None
                except KeyError:
                    rule = None
                if rule is not None and rule.mindspore is None:
                    continue
                if rule is not None:
                    name, array = str(rule.mindspore), RULES[rule.rule].forward(array) if rule.rule != "same" else array
                found[f"{path}.{name}" if path else name] = np.array(array)
        return found

    def snapshot(module: Any, used: bool = True) -> None:
        """Keep the state; until a model is called, each look at it is kept anew, since it may be initialised in between."""
        nonlocal taken
        if id(module) in seen:
            return
        kept.append(module)
        if used:
            seen.update(id(inner) for inner in module.modules())
        state = named(module)
        if state:
            np.savez(folder / f"{taken}.npz", **state)
            taken += 1

    torch.nn.modules.module.register_module_forward_pre_hook(lambda module, _: snapshot(module))
    for name in ("state_dict", "named_parameters", "parameters"):
        original = getattr(torch.nn.Module, name)

        def triggered(self: Any, *args: Any, original: Any = original, **options: Any) -> Any:
            if draws.from_script():
                snapshot(self, False)
            return original(self, *args, **options)

        setattr(torch.nn.Module, name, triggered)
    deepcopy = copy.deepcopy

    def copied(item: Any, memo: Any = None) -> Any:
        if isinstance(item, torch.nn.Module):
            snapshot(item, False)
            made = deepcopy(item, memo)
            kept.append(made)
            if id(item) in seen:
                seen.update(id(inner) for inner in made.modules())
            return made
        return deepcopy(item, memo)

    copy.deepcopy = copied  # type: ignore[assignment]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
