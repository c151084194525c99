"""Convolutions that are called without a batch where no line of the source calls them (inside a Sequential)."""

from mindspore import Tensor, nn


class Conv1dWithoutBatch(nn.Conv1d):
    """torch.nn.Conv1d of (C, L) -> (C', L')."""

    def construct(self, x: Tensor) -> Tensor:
        return super().construct(x.expand_dims(0)).squeeze(0)


class Conv2dWithoutBatch(nn.Conv2d):
    """torch.nn.Conv2d of (C, H, W) -> (C', H', W')."""

    def construct(self, x: Tensor) -> Tensor:
        return super().construct(x.expand_dims(0)).squeeze(0)


class Conv3dWithoutBatch(nn.Conv3d):
    """torch.nn.Conv3d of (C, D, H, W) -> (C', D', H', W')."""

    def construct(self, x: Tensor) -> Tensor:
        return super().construct(x.expand_dims(0)).squeeze(0)
