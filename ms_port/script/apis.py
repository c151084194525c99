"""``apis.yaml``, and the names by which it and the op map know torch's classes and functions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml


@dataclass(frozen=True)
class Apis:
    """``apis.yaml``."""

    parts: dict[str, str]
    values: dict[str, str]
    templates: dict[str, str]
    drop: frozenset[str]
    identity: frozenset[str]
    contexts: frozenset[str]
    refused: dict[str, str]
    routes: dict[str, str]
    """Packages that run on torch, and what to do instead."""
    plain: dict[str, str]
    """Which of their names hold no tensors, as a pattern."""


@cache
def apis() -> Apis:
    data: dict[str, Any] = yaml.safe_load(
        resources.files("ms_port.script").joinpath("apis.yaml").read_text(encoding="utf-8")
    )
    return Apis(
        data["parts"],
        {name: str(value) for name, value in data["values"].items()},
        {name: str(value) for name, value in data["templates"].items()},
        frozenset(data["drop"]),
        frozenset(data["identity"]),
        frozenset(data["contexts"]),
        data["refused"],
        {name: entry["route"] for name, entry in data["libraries"].items()},
        {name: entry["plain"] for name, entry in data["libraries"].items() if "plain" in entry},
    )


_ALIASES: tuple[tuple[str, str], ...] = (
    ("torch.nn.modules.", "torch.nn."),
    ("torch.functional.", "torch."),
    ("torch._C._nn.", "torch.nn.functional."),
)
_MODULES = re.compile(
    r"^torch\.nn\.(?:conv|linear|batchnorm|activation|loss|pooling|dropout|container|normalization|padding|rnn|sparse|pixelshuffle|fold|distance|instancenorm|channelshuffle|adaptive|flatten|transformer|module|upsampling|utils\.rnn(?=\.$))\.(?=[A-Z])"
)
_OPTIM = re.compile(r"^torch\.optim\.(?:sgd|adam|adamw|rmsprop|adagrad|adadelta|adamax|nadam|radam)\.(?=[A-Z])")


def normal(name: str) -> str:
    """A dotted name in its usual form: without the file that defines it."""
    for old, new in _ALIASES:
        if name.startswith(old):
            name = new + name[len(old) :]
    name = _OPTIM.sub("torch.optim.", _MODULES.sub("torch.nn.", name))
    if re.fullmatch(r"einops\.[a-z]+", name):
        name = f"einops.{name}"
    if name.startswith("torchvision.transforms.transforms."):
        name = name.replace(".transforms.transforms.", ".transforms.")
    if name.startswith("torchvision.transforms.v2."):
        name = name.replace(".v2.", ".")
    if name.startswith("torchvision.datasets."):
        name = f"torchvision.datasets.{name.rpartition('.')[2]}"
    return name


def is_foreign(name: str) -> bool:
    """Whether a dotted name belongs to torch or to a package that runs on it, and needs another form."""
    root, _, rest = name.partition(".")
    if root not in TORCH | OWN_ROWS and root not in apis().routes:
        return False
    plain = apis().plain.get(root)
    return not (plain and rest and re.search(plain, rest))


TORCH = frozenset({"torch", "torchvision"})
OWN_ROWS = frozenset({"einops"})
"""Packages beside torch whose functions have rows in the op map."""
