"""Initial values that MindSpore's initializers lack."""

import math

import numpy as np
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
