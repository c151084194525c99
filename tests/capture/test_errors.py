"""Faults of the user's are named with their place."""

from __future__ import annotations

import inspect

import edge
import pytest
import torch

from ms_port.capture import CaptureError, Inputs, record

X = torch.randn(3, 4)


def line_of(target, text):
    lines, first = inspect.getsourcelines(target)
    return first + next(index for index, line in enumerate(lines) if text in line)


def fault(target, inputs=None, **arguments):
    with pytest.raises(CaptureError) as caught:
        record(target, inputs or Inputs((X,)), arguments=arguments)
    return caught.value


def test_factory_raises():
    error = fault(edge.failing_factory)
    assert error.message == "failing_factory raised ValueError: no model of width 3"
    assert (error.file, error.line) == (edge.__file__, line_of(edge.failing_factory, "raise"))


def test_factory_gets_wrong_arguments():
    error = fault(edge.Child, widht=4)
    assert "unexpected keyword argument 'widht'" in error.message
    assert (error.file, error.line) == (edge.__file__, line_of(edge.Child.__init__, "def"))


def test_factory_returns_something_else():
    error = fault(edge.not_a_module)
    assert error.message == "not_a_module returned str, not a torch.nn.Module"
    assert error.line == line_of(edge.not_a_module, "def")


@pytest.mark.parametrize(
    ("inputs", "parameter"), [(Inputs((X,), {"foo": 1}), "'foo'"), (Inputs(()), "'x'"), (Inputs((X, X)), "positional")]
)
def test_inputs_that_do_not_fit(inputs, parameter):
    error = fault(edge.Child, inputs, width=4)
    assert parameter in error.message
    assert error.line == line_of(edge.Child.forward, "def")
    assert "x" in error.advice


def test_forward_raises():
    error = fault(edge.Fails)
    assert "no attribute 'missing'" in error.message
    assert (error.file, error.line) == (edge.__file__, line_of(edge.Fails.forward, "self.missing"))


def test_shapes_that_do_not_fit_are_told_as_torch_tells_them(capfd):
    error = fault(edge.WrongShape)
    assert "mat1 and mat2 shapes cannot be multiplied (4x3 and 4x4)" in error.message
    assert error.line == line_of(edge.WrongShape.forward, "self.linear")
    assert capfd.readouterr().err == ""


def test_lazy_instance():
    assert "lazy layers" in fault(edge.Lazy()).message
