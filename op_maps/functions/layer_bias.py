"""Layers that lose their bias after they were made."""

from mindspore import nn


def take_bias_away(layer: nn.Cell) -> None:
    """``layer.bias = None`` of torch, for Dense and convolutions: they add a bias as long as they say they have one."""
    del layer.bias
    layer.bias = None
    layer.has_bias = False
