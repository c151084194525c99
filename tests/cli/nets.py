"""Small torch models for the tests of the command line, good and bad ones."""

import torch
from torch import Tensor, nn


class Net(nn.Module):
    """Two layers."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        return self.head(self.norm(x))


class Odd(nn.Module):
    """Calls an op that no row names and nothing expands."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.special.airy_ai(self.head(x))


def raising(width: int = 8) -> nn.Module:
    """A factory that raises."""
    raise RuntimeError("no such width")


def not_a_module() -> int:
    """A factory of something else."""
    return 3


model = Net(5)
number = 3


def inputs() -> tuple[Tensor, ...]:
    """Example inputs."""
    return (torch.ones(2, 4),)


def bad_inputs() -> None:
    """An --inputs function that raises."""
    raise KeyError("x")


class Words(nn.Module):
    """Takes integers; its rows end at 20."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 4)

    def forward(self, ids: Tensor) -> Tensor:
        return self.embedding(ids)


class Inference(nn.Module):
    """Refuses to train."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            raise ValueError("only for inference")
        return self.fc(x)
