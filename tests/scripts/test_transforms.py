"""Transforms of pictures against torchvision's own: without chance by the same values, with it by the same draws."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))
from migrating import parts

transforms = pytest.importorskip("torchvision.transforms")
functional = transforms.functional

NAMES = {
    "Compose", "Resize", "CenterCrop", "RandomHorizontalFlip", "RandomVerticalFlip", "RandomCrop", "RandomResizedCrop", "RandomRotation",
    "RandomAffine", "ColorJitter", "RandomGrayscale", "Grayscale", "Pad", "RandomErasing", "GaussianBlur", "RandomApply", "RandomChoice",
    "RandomOrder", "ToTensor", "ToPILImage", "Normalize", "ConvertImageDtype", "PILToTensor",
}  # fmt: skip
PICTURES = (
    "Resize(7)", "Resize((9, 5))", "Resize(6, max_size=7)", "Resize(8, interpolation=0)", "CenterCrop(6)", "CenterCrop((15, 30))",
    "RandomHorizontalFlip(1.0)", "RandomVerticalFlip(p=1)", "RandomCrop(6)", "RandomCrop(10, padding=2)", "RandomCrop((12, 9), 3, fill=7)",
    "RandomCrop(8, padding=4, padding_mode='reflect')", "RandomCrop(14, pad_if_needed=True, padding_mode='edge')",
    "RandomResizedCrop(8)", "RandomResizedCrop((6, 9), scale=(0.2, 0.5), ratio=(0.5, 2.0))", "RandomResizedCrop(8, interpolation=0)",
    "RandomRotation(30)", "RandomRotation((10, 80), expand=True, fill=(1, 2, 3))", "RandomRotation(20, interpolation=2)",
    "RandomAffine(15, translate=(0.1, 0.2), scale=(0.8, 1.2), shear=10)", "RandomAffine(0, shear=(-5, 5, -8, 8), fill=9)",
    "ColorJitter(0.4, 0.4, 0.4, 0.1)", "ColorJitter(brightness=(0.5, 0.9), hue=0.3)", "RandomGrayscale(0.5)", "Grayscale()", "Grayscale(3)",
    "Pad(2)", "Pad((1, 2), fill=(3, 4, 5))", "Pad((1, 2, 3, 4), padding_mode='symmetric')", "GaussianBlur(3)", "GaussianBlur((5, 3), sigma=1.5)",
    "RandomApply([RandomHorizontalFlip(1.0)], p=0.5)",
    "Compose([RandomCrop(10, padding=2), RandomHorizontalFlip(), ColorJitter(0.2, 0.2), RandomRotation(5)])",
)  # fmt: skip
TENSORS = (
    "RandomErasing(1.0)", "RandomErasing(0.5, value=(0.1, 0.2, 0.3))", "RandomHorizontalFlip(0.5)", "RandomCrop(9, padding=1)",
    "Pad(2, fill=0.5)", "Pad(1, padding_mode='reflect')", "CenterCrop(5)", "Normalize((0.5, 0.4, 0.3), (0.1, 0.2, 0.3))", "GaussianBlur(3, 0.8)",
)  # fmt: skip


@pytest.fixture(scope="module")
def ours() -> Any:
    return parts(NAMES)


class Stream:
    """The same numbers for both sides: the n-th draw of a transform depends on n only."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> float:
        self.count += 1
        return float(np.random.default_rng(self.count).random(dtype=np.float32))


def theirs(text: str, image: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """torchvision's result, its draws taken from a stream."""
    import torch

    stream = Stream()
    with monkeypatch.context() as patch:
        patch.setattr(torch, "rand", lambda *size: torch.tensor([stream()]))
        patch.setattr(torch, "randint", lambda low, high, size: torch.tensor([low + int(stream() * (high - low))]))
        patch.setattr(torch, "randperm", lambda n: torch.tensor(np.argsort([stream() for _ in range(n)])))
        patch.setattr(torch.Tensor, "uniform_", lambda x, a, b: x.fill_(float(a) + float(b - a) * stream()))
        return eval(text, vars(transforms))(image)


def picture() -> Image.Image:
    return Image.fromarray(np.random.RandomState(0).randint(0, 256, (13, 11, 3)).astype(np.uint8))


@pytest.mark.parametrize("text", PICTURES)
def test_pictures(ours: Any, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    wanted = np.asarray(theirs(text, picture(), monkeypatch))
    monkeypatch.setattr(ours, "drawn", Stream())
    found = np.asarray(eval(text, vars(ours))(picture()))
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("text", TENSORS)
def test_tensors(ours: Any, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    import torch

    array = np.random.RandomState(1).rand(3, 13, 11).astype(np.float32)
    wanted = theirs(text, torch.from_numpy(array), monkeypatch).numpy()
    monkeypatch.setattr(ours, "drawn", Stream())
    found = eval(text, vars(ours))(ms.Tensor(array)).asnumpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_what_resamples_a_tensor_raises(ours: Any) -> None:
    for text in ("RandomRotation(5)", "ColorJitter(0.5)", "RandomGrayscale(1.0)"):
        with pytest.raises(NotImplementedError, match="MSP602"):
            eval(text, vars(ours))(ms.Tensor(np.zeros((3, 4, 4), np.float32)))
