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


SECOND = 20
"""So many modules of timm give a second model of another size."""


def cases(zoo: str) -> Iterator[Case]:
    """Of torchvision the smallest of each family, then all others; of timm one a module, then a second of twenty."""
    yield from _timm() if zoo == "timm" else _torchvision()


def _smallest(names: list[str]) -> str:
    """By the name: one that says that it is small, else the shortest."""
    return min(names, key=lambda name: (_rank(name), len(name), name))


def _rank(name: str) -> int:
    return next((i for i, part in enumerate(SMALL) if part in name), len(SMALL))


# --- torchvision ------------------------------------------------------------------------------------------------


def _torchvision() -> Iterator[Case]:
    from torchvision import models

    kinds: dict[str, tuple[Any, Callable[[int], tuple[Any, ...]]]] = {
        "": (models, lambda size: (_noise(BATCH, 3, size, size),)),
        "segmentation.": (models.segmentation, lambda size: (_noise(BATCH, 3, size, size),)),
        "video.": (models.video, lambda size: (_noise(1, 3, 16, size, size),)),
        "optical_flow.": (models.optical_flow, lambda size: (_noise(1, 3, size, size), _noise(1, 3, size, size))),
        "detection.": (models.detection, lambda size: ([_noise(3, size, size)],)),
    }
    others: list[Case] = []
    for prefix, (module, inputs) in kinds.items():
        families: dict[str, list[str]] = {}
        for name in models.list_models(module=module):
            families.setdefault(_family(name), []).append(name)
        for names in families.values():
            made = {name: Case(prefix + name, partial(_torchvision_example, name, inputs)) for name in names}
            yield made.pop(_smallest(names))
            others += made.values()
    yield from others


def _family(name: str) -> str:
    """``vgg`` for ``vgg11_bn``, ``resnet`` for ``resnet18``: what stands before the size; ``_bn`` is another one."""
    stem = re.split(r"\d|_(?:tiny|small|base|large|nano|[tsblxhm])(?:_|$)", name)[0].rstrip("_")
    return stem + ("_bn" if name.endswith("_bn") else "") + ("_v2" if "_v2" in name else "")


def _torchvision_example(name: str, inputs: Callable[[int], tuple[Any, ...]]) -> Example:
    from torchvision import models

    builder = models.get_model_builder(name)
    arguments: dict[str, Any] = {"weights_backbone": None} if "weights_backbone" in builder.__annotations__ else {}
    args = _accepted(builder(**arguments), inputs, (64, 128, 224, 299))
    return Example(builder, args, arguments=arguments)


# --- timm -------------------------------------------------------------------------------------------------------


def _timm() -> Iterator[Case]:
    import timm
    from timm.models import is_model, list_modules

    second: list[str] = []
    for module in sorted(list_modules()):
        names = [name for name in timm.list_models(module=module) if is_model(name)]
        if names:
            name = _smallest(names)
            yield Case(name, partial(_timm_example, name))
            second += sorted(set(names) - {name}, key=lambda other: (_rank(other), len(other), other))[:1]
    step = max(len(second) // SECOND, 1)
    yield from (Case(name, partial(_timm_example, name)) for name in second[::step][:SECOND])


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
    model: torch.nn.Module, inputs: Callable[[int], tuple[Any, ...]], sizes: tuple[int, ...]
) -> tuple[Any, ...]:
    """The first inputs that the model runs on, in evaluation and in training, else in evaluation alone.

    Raises what torch raised at last.
    """
    error: Exception | None = None
    for modes in ((False, True), (False,)):
        for size in sizes:
            args = inputs(size)
            try:
                with torch.no_grad():
                    for training in modes:
                        model.train(training)(*args)
            except Exception as raised:
                error = raised
            else:
                return args
    assert error is not None
    raise error
