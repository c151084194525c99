"""``--target ascend``: what MindSpore's documentation does not list for the device is noted."""

from __future__ import annotations

import importlib
import inspect
import re

import pytest
from opmap_calls import call, of

from ms_port.ir.values import TensorValue
from ms_port.opmap import OpMap
from ms_port.opmap.opmap import op_map_directory
from ms_port.opmap.targets import undocumented

MATRIX = of("x", TensorValue((3, 3), "float32"))
LISTED = undocumented(op_map_directory() / "targets" / "ascend")


@pytest.fixture(scope="module")
def ascend() -> OpMap:
    return OpMap.load((), "ascend")


@pytest.mark.parametrize("api", ["torch.digamma", "torch.linalg.cholesky"])  # in the form; in a function that it needs
def test_undocumented_names_are_noted_for_the_target_alone(op_map: OpMap, ascend: OpMap, api: str) -> None:
    assert not [n for n in op_map.lower(call(api, MATRIX)).notes if n.rule == "MSP507"]
    notes = [n.message for n in ascend.lower(call(api, MATRIX)).notes if n.rule == "MSP507"]
    assert any(f"ops.{api.rpartition('.')[2]}` for GPU and CPU only" in message for message in notes)


def test_documented_names_are_not_noted(ascend: OpMap) -> None:
    assert not ascend.lower(call("torch.exp", MATRIX)).notes


@pytest.mark.parametrize("name", LISTED)
def test_the_list_says_what_the_documentation_says(name: str) -> None:
    module, _, short = name.partition(".")
    text = inspect.getdoc(getattr(importlib.import_module(f"mindspore.{module}"), short)) or ""
    platforms = re.search(r"Supported Platforms:\s*\n\s*(.*)", text)
    assert platforms is not None and "Ascend" not in platforms[1]
    assert re.findall(r"``(\w+)``", platforms[1]) == LISTED[name].split(" and ")
