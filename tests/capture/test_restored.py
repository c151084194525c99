"""torch, the user's functions and models, and the random generators are as they were, whatever happens."""

from __future__ import annotations

import gc
import logging
import random
import sys

import edge
import numpy as np
import pytest
import torch
from torch import nn

from ms_port.capture import CaptureError, Inputs, record

X = torch.randn(3, 4)


def world():
    """What a recording could leave changed."""
    functions = [
        edge.Child.forward,
        edge.Child.__init__,
        edge.decorated_forward,
        edge.Decorated.forward,
        edge.Fails.forward,
    ]
    return {
        "codes": [function.__code__ for function in functions],
        "module init": nn.Module.__dict__["__init__"],
        "module new": "__new__" in nn.Module.__dict__,
        "init functions": [item for name, item in sorted(vars(nn.init).items()) if callable(item)],
        "trace": sys.gettrace(),
        "gradients": torch.is_grad_enabled(),
        "fast path": torch.backends.mha.get_fastpath_enabled(),
        "modes": torch._C._len_torch_function_stack(),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
        "collector": gc.isenabled(),
        "recursion": sys.getrecursionlimit(),
        "log": logging.getLogger("torch._subclasses.fake_tensor").disabled,
    }


CASES = {
    "success": (edge.Child, {"width": 4}, None),
    "instance": (edge.Child(4), {}, None),
    "forward raises": (edge.Fails, {}, CaptureError),
    "shapes": (edge.WrongShape, {}, CaptureError),
    "factory raises": (edge.failing_factory, {}, CaptureError),
    "no module": (edge.not_a_module, {}, CaptureError),
    "interrupted forward": (edge.Interrupts, {}, KeyboardInterrupt),
    "interrupted build": (edge.InterruptsBuild, {}, KeyboardInterrupt),
}


@pytest.mark.parametrize("case", CASES)
def test_the_world_is_as_it_was(case):
    target, arguments, error = CASES[case]
    before = world()
    if error is None:
        record(target, Inputs((X,)), arguments=arguments)
    else:
        with pytest.raises(error):
            record(target, Inputs((X,)), arguments=arguments)
    assert world() == before


class InterruptsLate(nn.Module):
    """Interrupted in the recorded pass: its functions are swapped then."""

    runs = 0

    def forward(self, x):
        InterruptsLate.runs += 1
        if InterruptsLate.runs == 2:
            raise KeyboardInterrupt
        return x


def test_interrupted_while_recording():
    code = InterruptsLate.forward.__code__
    model = InterruptsLate().train()
    before = world()
    with pytest.raises(KeyboardInterrupt):
        record(model, Inputs((X,)))
    assert InterruptsLate.forward.__code__ is code
    assert world() == before
    assert model.training


def test_a_trace_function_stays_set():
    def tracer(frame, event, argument):
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        record(edge.Child, Inputs((X,)), arguments={"width": 4})
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)


def test_an_instance_keeps_its_state():
    model = edge.Stateful()
    model.norm.eval()
    parameters = dict(model.named_parameters())
    last = model.last
    for _ in range(2):
        record(model, Inputs((X,)))
    assert (model.calls, model.cache, model.seen) == (0, {}, [])
    assert model.last is last
    assert (model.training, model.norm.training) == (True, False)
    assert model.norm.num_batches_tracked.item() == 0
    assert dict(model.named_parameters()) == parameters
    assert all(type(item) is nn.Parameter for item in model.parameters())


def test_lstm_keeps_its_weights():
    model = edge.Tagger()
    weights = list(model.lstm._flat_weights)
    record(model, Inputs((torch.arange(6).reshape(2, 3),)))
    assert all(a is b for a, b in zip(model.lstm._flat_weights, weights, strict=True))


def test_closures_kept_by_the_model_have_their_own_code():
    def factory():
        model = nn.Linear(4, 4)
        bias = 2.0
        model.extra = lambda x: x + bias
        return model

    model = record(factory, Inputs((X,))).model
    assert model.extra.__code__ in factory.__code__.co_consts
    assert model.extra(1) == 3.0


def test_caches_hold_no_fake_tensor():
    recording = record(edge.Cached, Inputs((X,)))
    assert recording.torch_calls[0].name == "torch.arange"
    assert type(edge.cached_table(4)) is torch.Tensor


def seeded():
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)


def drawn():
    return torch.rand(3).tolist(), random.random(), np.random.rand()


@pytest.mark.parametrize("factory", [edge.Noisy, lambda: edge.Child(4), lambda: edge.Tagger()])
def test_the_model_and_the_generators_are_those_of_one_call(factory):
    inputs = Inputs((torch.arange(6).reshape(2, 3),) if isinstance(factory(), edge.Tagger) else (X,))
    seeded()
    expected = factory()
    draws = drawn()
    seeded()
    recording = record(factory, inputs)
    assert drawn() == draws
    state = recording.model.state_dict()
    assert all(torch.equal(state[name], value) for name, value in expected.state_dict().items())
    assert getattr(recording.model, "scale", None) == getattr(expected, "scale", None)


def test_a_factory_that_works_once():
    torch.manual_seed(3)
    expected = edge.Child(4)
    torch.manual_seed(3)
    recording = record(edge.OnlyOnce(), Inputs((X,)))
    assert recording.roots["init"] is None
    assert recording.roots["eval"] is not None
    assert any("already registered" in reason for reason in recording.skipped)
    assert torch.equal(recording.model.linear.weight, expected.linear.weight)
