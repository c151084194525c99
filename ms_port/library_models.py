"""Models that a script takes from torchvision: ported by ``convert``; the migrated project holds their source."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any


def port_torchvision(name: str, keywords: Mapping[str, Any], package: str) -> dict[str, str] | str:
    """The files of the port of ``torchvision.models.NAME(**keywords)`` by path, or why there is none."""
    import torch

    from ms_port.api import convert
    from ms_port.errors import BadInput

    module, _, function = name.rpartition(".")
    try:
        factory = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError):
        return f"this torchvision has no {name}"
    size = 299 if "inception" in function else 224
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / package
        try:
            image = torch.zeros(2, 3, size, size)
            port = convert(partial(factory, weights=None, **keywords), (image,), out=out, verify="none", name=package)
        except (BadInput, TypeError, ValueError, RuntimeError, NotImplementedError) as error:
            return f"its port failed: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        if any(flag.severity == "error" for flag in port.report.flags):
            return "its port has open flags: ms-port convert shows them"
        return {f"{package}/{p.name}": p.read_text(encoding="utf-8") for p in sorted((out / package).glob("*.py"))}
