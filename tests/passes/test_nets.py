"""Every net of ``nets.py`` is translated, compiled in GRAPH_MODE and equal to torch, forward and gradient, in both modes."""

from __future__ import annotations

import copy
import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from ms_port.opmap import OpMap

HERE = Path(__file__).parent


def _load(name: str):
    spec = importlib.util.spec_from_file_location(f"tests_passes_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


nets, porting = _load("nets"), _load("port")


def _package(name: str) -> str:
    return name.replace(" ", "_")


@pytest.fixture(scope="module")
def ports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ports")
    opmap = OpMap.load()
    made = {}
    for name, (factory, args) in nets.CASES.items():
        torch.manual_seed(0)
        made[name] = porting.port(factory, args, folder, _package(name), opmap=opmap)
        porting.save_inputs(made[name], _package(name), args)
    porting.run_all(folder, [_package(name) for name in made])
    return folder, made


@pytest.mark.parametrize("name", nets.CASES)
def test_equals_torch(ports, name):
    folder, made = ports
    ported, args = made[name], nets.CASES[name][1]
    got = porting.outcome(folder, _package(name))
    names = {r.torch: r.mindspore for r in ported.emitted.parameters if r.rule == "same"}
    for mode in ("eval", "train"):
        model = copy.deepcopy(ported.model).double().train(mode == "train")
        # a module may keep tensors as plain attributes: these are doubled by hand
        for module in model.modules():
            for key, value in list(vars(module).items()):
                if isinstance(value, torch.Tensor) and value.is_floating_point():
                    setattr(module, key, value.double())
        inputs = [a.double() if a.is_floating_point() else a for a in args]
        want = porting.tensors(model(*[a.clone() for a in inputs]))
        assert [k for k in got if k.startswith(mode) and "." not in k] == [f"{mode}{i}" for i in range(len(want))]
        for i, truth in enumerate(want):
            close(got[f"{mode}{i}"], truth, f"{mode} output {i}")
        sum((t * torch.cos(torch.arange(t.numel()).double()).reshape(t.shape)).sum() for t in want).backward()
        for key, parameter in model.named_parameters():
            if key in names:
                gradient = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
                close(got[f"{mode}.grad.{names[key]}"], gradient, f"{mode} gradient of {key}")


def close(got: np.ndarray, truth: torch.Tensor, what: str) -> None:
    expected = truth.detach().numpy()
    assert got.shape == expected.shape, what
    scale = max(np.abs(expected).max(), 1e-3)
    assert np.abs(got - expected).max() <= 2e-5 * scale, what


@pytest.mark.parametrize("name", nets.CASES)
def test_nothing_is_flagged(ports, name):
    assert not ports[1][name].rules


@pytest.mark.parametrize("name", nets.CASES)
def test_no_torch_in_the_output(ports, name):
    source = ports[1][name].source
    assert "torch" not in source.split('"""', 2)[2]
    assert "ms_port" not in source
