"""Generated code passes ruff, and is the same every time."""

import subprocess
from collections.abc import Callable
from pathlib import Path

from ruff.__main__ import find_ruff_bin

MODELS = Path(__file__).resolve().parents[2] / "models"
RULES = "E,F,I,W"
Port = Callable[..., str]


def check(*places: Path) -> str:
    command = [
        find_ruff_bin(),
        "check",
        "--isolated",
        "--line-length",
        "120",
        "--select",
        RULES,
        "--output-format=concise",
    ]
    return subprocess.run([*command, *map(str, places)], capture_output=True, text=True, check=False).stdout


def test_the_gallery_passes_ruff() -> None:
    ports = sorted(MODELS.glob("*/ported"))
    assert len(ports) >= 6
    assert check(*ports) == "All checks passed!\n"


LIBRARY = """\
DEBUG = False
LIMIT = 3


def debugging():
    return DEBUG


def rates(depth):
    if depth < 0:
        raise ValueError("no depth")
    return [x.item() for x in torch.linspace(0, 0.1, depth)]


def dropout(width: int, dropout: float):
    return nn.Dropout(dropout) if dropout > 0 else nn.Identity()


class Net(nn.Module):
    def __init__(self, width: int = 4, depth: int = 2, act=nn.GELU, rate=0.1):
        super().__init__()
        self.debugging = debugging()
        dpr = rates(depth)
        self.layers = nn.ModuleList([nn.Linear(width, width) for i in range(depth)])
        self.act = act()
        self.drop = dropout(width, rate)

    def forward(self, x):
        dropout = 0.5
        for layer in self.layers:
            x = F.dropout(self.act(layer(x)), dropout, self.training)
        return self.drop(x)
"""


def test_no_unused_names_or_imports(port: Port, tmp_path: Path) -> None:
    text = port(LIBRARY)
    assert check(tmp_path / "out") == "All checks passed!\n"
    for gone in ("DEBUG", "debugging", "rates", "LIMIT", "dpr"):
        assert gone not in text
    assert port(LIBRARY) == text


HINTS = """\
from typing import Optional, Type


class Block(nn.Module):
    def __init__(self, width: int, act: Type[nn.Module] = nn.GELU, norm: Optional[Type[nn.Module]] = None):
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.act = act()
        self.norm = (norm or nn.LayerNorm)(width)

    def forward(self, x):
        return self.norm(self.act(self.inner(x)))


class Net(nn.Module):
    def __init__(self, width: int = 4):
        super().__init__()
        self.block = Block(width)

    def forward(self, x):
        return self.block(x)
"""


def test_what_makes_a_cell_is_a_callable(port: Port) -> None:
    """A class given as a default becomes a partial with torch's defaults: no ``Type[nn.Cell]``."""
    text = port(HINTS)
    assert "act: Callable[..., nn.Cell] = partial(nn.GELU, approximate=False)" in text
    assert "Type[" not in text
