"""The rules behind the flags: loaded from ``rules.yaml``, the one place where they are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import yaml

FILE = Path(__file__).with_name("rules.yaml")
FAMILIES = {
    "1": "unsupported op",
    "2": "dynamic shape",
    "3": "Python on tensor values",
    "4": "in place and aliasing",
    "5": "numerics and defaults",
    "6": "scripts",
    "7": "data",
    "8": "distributed",
    "9": "performance",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, as ``rules.yaml`` describes its fields."""

    code: str
    title: str
    meaning: str
    graph: str
    instead: str
    before: str
    after: str

    @property
    def family(self) -> str:
        return FAMILIES[self.code[3]]

    def markdown(self) -> str:
        """The rule's page."""
        return (
            f"# {self.code}: {self.title}\n\n*{self.family}*\n\n"
            f"**What it means.** {self.meaning}\n\n"
            f"**Why graph mode minds.** {self.graph}\n\n"
            f"**What to write instead.** {self.instead}\n\n"
            f"Before:\n\n```python\n{self.before.rstrip()}\n```\n\nAfter:\n\n```python\n{self.after.rstrip()}\n```\n"
        )


@cache
def rules() -> Mapping[str, Rule]:
    """All rules by code, in order."""
    data = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    names = [f.name for f in fields(Rule) if f.name != "code"]
    return {code: Rule(code, **{name: str(entry[name]).strip("\n") for name in names}) for code, entry in data.items()}
