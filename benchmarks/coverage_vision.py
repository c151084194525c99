"""The models of torchvision and timm: the smallest of each family at the smallest image that it takes.

Nothing here knows a model: sizes come from the zoos' own configurations, and smaller images are tried first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from benchmarks.coverage_run import Case, Example

BATCH = 2
SMALL = ("atto", "femto", "pico", "nano", "tiny", "xxs", "small", "mini", "_t", "_s", "18", "b0", "050", "400mf")
"""Parts of names of a family's small members, smallest first."""


def cases(zoo: str) -> Iterator[Case]:
    """Of torchvision one model a family, of timm one a module."""
    yield from _timm() if zoo == "timm" else _torchvision()


def _smallest(names: list[str]) -> str:
    """By the name: one that says that it is small, else the shortest."""
    rank = {name: next((i for i, part in enumerate(SMALL) if part in name), len(SMALL)) for name in names}
    return min(names, key=lambda name: (rank[name], len(name), name))


# --- torchvision ------------------------------------------------------------------------------------------------


def _torchvision() -> Iterator[Case]:
    from torchvision import models

    kinds: dict[str, tuple[Any, Callable[[int], tuple[torch.Tensor, ...]]]] = {
        "": (models, lambda size: (_noise(BATCH, 3, size, size),)),
        "segmentation.": (models.segmentation, lambda size: (_noise(BATCH, 3, size, size),)),
        "video.": (models.video, lambda size: (_noise(1, 3, 16, size, size),)),
        "optical_flow.": (models.optical_flow, lambda size: (_noise(1, 3, size, size), _noise(1, 3, size, size))),
    }
    for prefix, (module, inputs) in kinds.items():
        families: dict[str, list[str]] = {}
        for name in models.list_models(module=module):
            families.setdefault(_family(name), []).append(name)
        for names in families.values():
            name = _smallest(names)
            yield Case(prefix + name, partial(_torchvision_example, name, inputs))


def _family(name: str) -> str:
    """``vgg`` for ``vgg11_bn``, ``resnet`` for ``resnet18``: what stands before the size; ``_bn`` is another one."""
    stem = re.split(r"\d|_(?:tiny|small|base|large|nano|[tsblxhm])(?:_|$)", name)[0].rstrip("_")
    return stem + ("_bn" if name.endswith("_bn") else "") + ("_v2" if "_v2" in name else "")


def _torchvision_example(name: str, inputs: Callable[[int], tuple[torch.Tensor, ...]]) -> Example:
    from torchvision import models

    builder = models.get_model_builder(name)
    arguments = {"weights_backbone": None} if "weights_backbone" in builder.__annotations__ else {}
    args = _accepted(builder(**arguments), inputs, (64, 128, 224, 299))
    return Example(builder, args, arguments=arguments)


# --- timm -------------------------------------------------------------------------------------------------------


def _timm() -> Iterator[Case]:
    import timm
    from timm.models import is_model, list_modules

    for module in sorted(list_modules()):
        names = [name for name in timm.list_models(module=module) if is_model(name)]
        if names:
            name = _smallest(names)
            yield Case(name, partial(_timm_example, name))


def _timm_example(name: str) -> Example:
    import timm

    config = timm.get_pretrained_cfg(name)
    channels, *size = config.input_size if config is not None else (3, 224, 224)
    args = _accepted(
        timm.create_model(name), lambda side: (_noise(BATCH, channels, side, side),), (64, 128, min(size), 256)
    )
    return Example(timm.create_model, args, arguments={"model_name": name})


# --- inputs -----------------------------------------------------------------------------------------------------


def _noise(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def _accepted(
    model: torch.nn.Module, inputs: Callable[[int], tuple[torch.Tensor, ...]], sizes: tuple[int, ...]
) -> tuple[torch.Tensor, ...]:
    """The first inputs that the model runs on, in evaluation and in training. Raises what torch raised at last."""
    error: Exception | None = None
    for size in sizes:
        args = inputs(size)
        try:
            with torch.no_grad():
                for training in (False, True):
                    model.train(training)(*args)
        except Exception as raised:
            error = raised
        else:
            return args
    assert error is not None
    raise error
