"""What MindSpore's documentation says about a target device: APIs whose "Supported Platforms" leave it out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ms_port.opmap.calls import Note

_NAME = re.compile(r"\b(?:ops|nn|mint)(?:\.\w+)+")


def undocumented(directory: Path) -> dict[str, str]:
    """MindSpore's names that a target's ``undocumented.txt`` lists, with the platforms that have them."""
    file = directory / "undocumented.txt"
    if not file.is_file():
        return {}
    lines = (line.partition(" ") for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return {name: platforms for name, _, platforms in lines}


def notes_on_target(text: str, lacks: Mapping[str, str]) -> list[Note]:
    """A note for each of those names that source text uses."""
    found = dict.fromkeys(name for name in _NAME.findall(text) if name in lacks)
    return [
        Note("MSP507", f"MindSpore documents `{name}` for {lacks[name]} only; not run on this target") for name in found
    ]
