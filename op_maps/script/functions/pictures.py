"""Transforms of pictures: PIL images through mindspore.dataset.vision, tensors (C, H, W) in and out as torchvision has them."""

import numpy as np
from mindspore import Tensor


class Compose:
    """One transform after the other."""

    def __init__(self, transforms):
        self.transforms = list(transforms)

    def __call__(self, image):
        for transform in self.transforms:
            image = transform(image)
        return image


class Lambda:
    def __init__(self, lambd):
        self.function = lambd

    def __call__(self, image):
        return self.function(image)


class ToTensor:
    """A picture (H, W, C) of bytes as float32 (C, H, W) in [0, 1]."""

    def __call__(self, picture):
        array = np.asarray(picture)
        array = array[:, :, None] if array.ndim == 2 else array
        array = np.ascontiguousarray(array.transpose(2, 0, 1))
        return Tensor(array.astype(np.float32) / 255 if array.dtype == np.uint8 else array)


class PILToTensor:
    def __call__(self, picture):
        array = np.asarray(picture)
        array = array[:, :, None] if array.ndim == 2 else array
        return Tensor(np.ascontiguousarray(array.transpose(2, 0, 1)))


class ToPILImage:
    def __init__(self, mode=None):
        self.mode = mode

    def __call__(self, picture):
        from PIL import Image

        array = picture.asnumpy().transpose(1, 2, 0) if isinstance(picture, Tensor) else np.asarray(picture)
        array = (array * 255).astype(np.uint8) if array.dtype.kind == "f" else array
        return Image.fromarray(array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array, self.mode)


class Normalize:
    """(x - mean) / std for each channel."""

    def __init__(self, mean, std, inplace=False):
        self.mean, self.std = (
            np.asarray(mean, np.float32).reshape(-1, 1, 1),
            np.asarray(std, np.float32).reshape(-1, 1, 1),
        )

    def __call__(self, image):
        array = image.asnumpy() if isinstance(image, Tensor) else np.asarray(image)
        return Tensor(((array - self.mean) / self.std).astype(np.float32))


class Resize:
    """To a size (height, width); one number is the shorter side."""

    def __init__(self, size, interpolation=2, max_size=None, antialias=True):
        self.size, self.interpolation = size, 2 if interpolation is None else interpolation

    def __call__(self, image):
        from PIL import Image

        tensor = isinstance(image, Tensor)
        if tensor:
            bands = [Image.fromarray(band) for band in image.asnumpy().astype(np.float32)]
            resized = np.stack([np.asarray(self._resized(band)) for band in bands])
            return Tensor(resized)
        return self._resized(image)

    def _resized(self, image):
        width, height = image.size
        if isinstance(self.size, (tuple, list)) and len(self.size) == 2:
            height, width = self.size
        else:
            side = self.size[0] if isinstance(self.size, (tuple, list)) else self.size
            if width <= height:
                width, height = side, int(side * height / width)
            else:
                width, height = int(side * width / height), side
        return image.resize((width, height), self.interpolation)


class CenterCrop:
    def __init__(self, size):
        self.height, self.width = (size, size) if isinstance(size, int) else (size[0], size[-1])

    def __call__(self, image):
        tensor = isinstance(image, Tensor)
        width, height = (image.shape[-1], image.shape[-2]) if tensor else image.size
        top, left = round((height - self.height) / 2), round((width - self.width) / 2)
        if tensor:
            return image[..., top : top + self.height, left : left + self.width]
        return image.crop((left, top, left + self.width, top + self.height))


class OnPictures:
    """An operation of mindspore.dataset.vision on a PIL image, or on a tensor (C, H, W)."""

    def __init__(self, operation):
        self.operation = operation

    def __call__(self, image):
        if not isinstance(image, Tensor):
            return self.operation(image)
        array = np.ascontiguousarray(image.asnumpy().transpose(1, 2, 0))
        return Tensor(np.ascontiguousarray(np.asarray(self.operation(array)).transpose(2, 0, 1)))


def jitter(brightness=0, contrast=0, saturation=0, hue=0):
    """torchvision's strengths as vision.RandomColorAdjust's ranges."""

    def around_one(value):
        return tuple(value) if isinstance(value, (tuple, list)) else (max(0.0, 1 - value), 1 + value)

    hues = tuple(hue) if isinstance(hue, (tuple, list)) else (-hue, hue)
    return around_one(brightness), around_one(contrast), around_one(saturation), hues


def picture_tensor(pic):
    return ToTensor()(pic)


def normalized(tensor, mean, std, inplace=False):
    return Normalize(mean, std)(tensor)
