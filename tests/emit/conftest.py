"""Torch source as text, and the model.py that comes of it."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from ms_port.capture import Inputs, record
from ms_port.emit import Banner, write_package
from ms_port.opmap import OpMap
from ms_port.pipeline import Options, translate

BANNER = Banner("0", "net.py:Net", "2", "2.10", "ms-port convert net.py:Net -o out")
Port = Callable[..., str]


@pytest.fixture(scope="session")
def opmap() -> OpMap:
    return OpMap.load()


@pytest.fixture
def port(tmp_path: Path, opmap: OpMap) -> Iterator[Port]:
    """``port(source, *inputs, **arguments)``: the generated text for its class ``Net``."""
    name = "readable_source"

    def make(source: str, *inputs: torch.Tensor, **arguments: object) -> str:
        file = tmp_path / f"{name}.py"
        file.write_text("import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n" + source)
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        recording = record(module.Net, Inputs(inputs or (torch.randn(2, 4),), {}), arguments=arguments)
        program = translate(recording, opmap, Options("net"))
        assert not [f for f in program.flags if f.open], program.flags
        write_package(program, opmap, tmp_path / "out", BANNER)
        return (tmp_path / "out/net/model.py").read_text()

    yield make
    sys.modules.pop(name, None)
