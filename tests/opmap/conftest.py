"""Shared fixtures. Helpers lie beside the tests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ms_port.opmap import OpMap

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def op_map() -> OpMap:
    return OpMap.load()


@pytest.fixture
def rows(tmp_path: Path) -> Callable[[str], OpMap]:
    """An op map with rows of one's own in front."""

    def load(text: str, functions: str = "") -> OpMap:
        (tmp_path / "own.yaml").write_text(text)
        if functions:
            (tmp_path / "functions").mkdir()
            (tmp_path / "functions" / "own.py").write_text(functions)
        return OpMap.load([tmp_path])

    return load
