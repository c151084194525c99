"""Initial values that MindSpore's initializers lack."""

import math

import numpy as np
from mindspore import nn
from mindspore.common.initializer import Initializer


class UniformBetween(Initializer):
    """torch.nn.init.uniform_ between two ends (Uniform is symmetric)."""

    def __init__(self, low: float = 0.0, high: float = 1.0) -> None:
        super().__init__(low=low, high=high)
        self.low = low
        self.high = high

    def _initialize(self, arr: np.ndarray) -> None:
        arr[:] = np.random.uniform(self.low, self.high, arr.shape)


def calculate_gain(nonlinearity: str, param: int | float | None = None) -> float:
    """torch.nn.init.calculate_gain."""
    gains = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope**2))
    return gains.get(nonlinearity, 1.0)


def calculate_fan_in_and_fan_out(shape: tuple[int, ...]) -> tuple[int, int]:
    """torch.nn.init._calculate_fan_in_and_fan_out: how many inputs and outputs a weight of this shape has."""
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def calculate_correct_fan(shape: tuple[int, ...], mode: str) -> int:
    """torch.nn.init._calculate_correct_fan."""
    fan_in, fan_out = calculate_fan_in_and_fan_out(shape)
    return fan_in if mode.lower() == "fan_in" else fan_out


TORCH_NAMES = {
    "BiDense": "Bilinear",
    "CellDict": "ModuleDict",
    "CellList": "ModuleList",
    "Conv1dTranspose": "ConvTranspose1d",
    "Conv2dTranspose": "ConvTranspose2d",
    "Conv3dTranspose": "ConvTranspose3d",
    "Dense": "Linear",
    "HShrink": "Hardshrink",
    "HSigmoid": "Hardsigmoid",
    "HSwish": "Hardswish",
    "SequentialCell": "Sequential",
    "SoftShrink": "Softshrink",
}
"""MindSpore's names of layers that torch calls otherwise."""


def torch_class_name(cell: nn.Cell) -> str:
    """The name of a cell's class; of MindSpore's own layers, as they are called in torch."""
    cls = type(cell)
    return TORCH_NAMES.get(cls.__name__, cls.__name__) if cls.__module__.startswith("mindspore.") else cls.__name__
