"""Random transforms of pictures, by torchvision's rules: PIL images, and where nothing is resampled tensors (..., C, H, W) too."""

import functools
import math
import random

import mindspore as ms
import numpy as np
from mindspore import Tensor

from .pictures import ToPILImage, adjusted, cropped, filling, flipped, grey, padded, resized, rotated, sides


@functools.cache
def _numbers():
    """The stream of random numbers of all transforms, begun by ``ms.set_seed``'s seed."""
    return np.random.default_rng(ms.get_seed())


def drawn():
    """A random number in [0, 1)."""
    return float(_numbers().random(dtype=np.float32))


def between(low, high):
    """A random number in [low, high)."""
    return float(np.float32(low + (high - low) * drawn()))


def below(count):
    """A random integer in [0, count)."""
    return min(int(drawn() * count), count - 1)


def _range(value, name):
    """(-value, value) for one number."""
    if isinstance(value, (tuple, list)):
        return tuple(map(float, value))
    if value < 0:
        raise ValueError(f"{name} must not be negative")
    return -float(value), float(value)


def _pair(size):
    return (size, size) if isinstance(size, int) else (size[0], size[-1])


def _picture_only(image, name):
    if isinstance(image, Tensor):
        raise NotImplementedError(f"MSP602: {name} of a tensor: put it before ToTensor, where it gets a picture")


class RandomHorizontalFlip:
    def __init__(self, p=0.5):
        self.p = p

    def __call__(self, image):
        return flipped(image, -1) if drawn() < self.p else image


class RandomVerticalFlip(RandomHorizontalFlip):
    def __call__(self, image):
        return flipped(image, -2) if drawn() < self.p else image


class RandomCrop:
    def __init__(self, size, padding=None, pad_if_needed=False, fill=0, padding_mode="constant"):
        self.height, self.width = _pair(size)
        self.padding, self.pad_if_needed, self.fill, self.padding_mode = padding, pad_if_needed, fill, padding_mode

    def __call__(self, image):
        if self.padding is not None:
            image = padded(image, self.padding, self.fill, self.padding_mode)
        height, width = sides(image)
        if self.pad_if_needed and width < self.width:
            image = padded(image, (self.width - width, 0), self.fill, self.padding_mode)
        if self.pad_if_needed and height < self.height:
            image = padded(image, (0, self.height - height), self.fill, self.padding_mode)
        height, width = sides(image)
        if height < self.height or width < self.width:
            raise ValueError(f"a crop of {(self.height, self.width)} is larger than the image {(height, width)}")
        if (height, width) == (self.height, self.width):
            return image
        top, left = below(height - self.height + 1), below(width - self.width + 1)
        return cropped(image, top, left, self.height, self.width)


def _area(height, width, scale, ratio):
    """Height and width of a random part of an image: a share of its area, a ratio of sides around 1."""
    share = height * width * between(*scale)
    aspect = math.exp(between(math.log(ratio[0]), math.log(ratio[1])))
    return share, aspect


class RandomResizedCrop:
    def __init__(self, size, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3), interpolation=2, antialias=True):
        self.size, self.scale, self.ratio, self.interpolation = _pair(size), scale, ratio, interpolation

    def __call__(self, image):
        return resized(cropped(image, *self._place(*sides(image))), self.size, self.interpolation)

    def _place(self, height, width):
        for _ in range(10):
            share, aspect = _area(height, width, self.scale, self.ratio)
            w, h = round(math.sqrt(share * aspect)), round(math.sqrt(share / aspect))
            if 0 < w <= width and 0 < h <= height:
                top, left = below(height - h + 1), below(width - w + 1)
                return top, left, h, w
        h, w = height, width  # the middle, with the nearest ratio
        if width / height < min(self.ratio):
            h = round(width / min(self.ratio))
        elif width / height > max(self.ratio):
            w = round(height * max(self.ratio))
        return (height - h) // 2, (width - w) // 2, h, w


class RandomRotation:
    def __init__(self, degrees, interpolation=0, expand=False, center=None, fill=0):
        self.degrees, self.interpolation = _range(degrees, "degrees"), interpolation
        self.expand, self.center, self.fill = expand, center, 0 if fill is None else fill

    def __call__(self, image):
        return rotated(image, between(*self.degrees), self.interpolation, self.expand, self.center, self.fill)


class RandomAffine:
    def __init__(self, degrees, translate=None, scale=None, shear=None, interpolation=0, fill=0, center=None):
        self.degrees, self.translate, self.scale = _range(degrees, "degrees"), translate, scale
        self.shear = None if shear is None else _range(shear, "shear")
        self.interpolation, self.fill, self.center = interpolation, 0 if fill is None else fill, center

    def __call__(self, image):
        _picture_only(image, "RandomAffine")
        width, height = image.size
        angle = between(*self.degrees)
        x = y = 0
        if self.translate is not None:
            x, y = (round(between(-share * size, share * size)) for share, size in zip(self.translate, image.size))
        scale = 1.0 if self.scale is None else between(*self.scale)
        shear_x = shear_y = 0.0
        if self.shear is not None:
            shear_x = between(*self.shear[:2])
            shear_y = between(*self.shear[2:]) if len(self.shear) == 4 else 0.0
        center = (width * 0.5, height * 0.5) if self.center is None else self.center
        matrix = _inverse(center, angle, (x, y), scale, (shear_x, shear_y))
        return image.transform(image.size, 0, matrix, self.interpolation, fillcolor=filling(self.fill, image))


def _inverse(center, angle, moved, scale, shear):
    """From places of the output to places of the input: six numbers for PIL."""
    turn, sx, sy = (math.radians(value) for value in (angle, *shear))
    (cx, cy), (tx, ty) = center, moved
    a = math.cos(turn - sy) / math.cos(sy)
    b = -math.cos(turn - sy) * math.tan(sx) / math.cos(sy) - math.sin(turn)
    c = math.sin(turn - sy) / math.cos(sy)
    d = -math.sin(turn - sy) * math.tan(sx) / math.cos(sy) + math.cos(turn)
    matrix = [d / scale, -b / scale, 0.0, -c / scale, a / scale, 0.0]
    matrix[2] += matrix[0] * (-cx - tx) + matrix[1] * (-cy - ty) + cx
    matrix[5] += matrix[3] * (-cx - tx) + matrix[4] * (-cy - ty) + cy
    return matrix


class ColorJitter:
    """Brightness, contrast, saturation and hue by random factors, in random order."""

    def __init__(self, brightness=0, contrast=0, saturation=0, hue=0):
        self.ranges = [self._around(value) for value in (brightness, contrast, saturation)]
        hues = (float(hue[0]), float(hue[1])) if isinstance(hue, (tuple, list)) else (-float(hue), float(hue))
        self.ranges.append(None if hues == (0.0, 0.0) else hues)

    def _around(self, value):
        """The range of factors around 1; None where all are 1."""
        low, high = value if isinstance(value, (tuple, list)) else (max(0.0, 1.0 - value), 1.0 + value)
        return None if low == high == 1 else (float(low), float(high))

    def __call__(self, image):
        _picture_only(image, "ColorJitter")
        order = np.argsort([drawn() for _ in range(4)])
        factors = [None if limits is None else between(*limits) for limits in self.ranges]
        for index in order:
            if factors[index] is not None:
                kind = ("brightness", "contrast", "saturation", "hue")[index]
                image = adjusted(image, kind, factors[index])
        return image


class RandomGrayscale:
    def __init__(self, p=0.1):
        self.p = p

    def __call__(self, image):
        _picture_only(image, "RandomGrayscale")
        if drawn() >= self.p:
            return image
        return grey(image, len(image.getbands()))


class Grayscale:
    def __init__(self, num_output_channels=1):
        self.channels = num_output_channels

    def __call__(self, image):
        return grey(image, self.channels)


class Pad:
    def __init__(self, padding, fill=0, padding_mode="constant"):
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def __call__(self, image):
        return padded(image, self.padding, self.fill, self.padding_mode)


class RandomErasing:
    """A random rectangle of a tensor (..., C, H, W) is overwritten."""

    def __init__(self, p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0, inplace=False):
        self.p, self.scale, self.ratio, self.value = p, scale, ratio, value

    def __call__(self, image):
        if drawn() >= self.p:
            return image
        array = np.array(image.asnumpy() if isinstance(image, Tensor) else image)
        channels, height, width = array.shape[-3:]
        for _ in range(10):
            share, aspect = _area(height, width, self.scale, self.ratio)
            h, w = round(math.sqrt(share * aspect)), round(math.sqrt(share / aspect))
            if not (h < height and w < width):
                continue
            if isinstance(self.value, str):
                value = _numbers().standard_normal((channels, h, w)).astype(np.float32)
            else:
                value = np.asarray(self.value, array.dtype).reshape(-1, 1, 1)
            top, left = below(height - h + 1), below(width - w + 1)
            array[..., top : top + h, left : left + w] = value
            break
        return Tensor(array)


class GaussianBlur:
    def __init__(self, kernel_size, sigma=(0.1, 2.0)):
        self.width, self.height = _pair(kernel_size)
        self.sigma = sigma if isinstance(sigma, (tuple, list)) else (sigma, sigma)

    def __call__(self, image):
        sigma = between(*self.sigma)
        array = image.asnumpy() if isinstance(image, Tensor) else np.asarray(image)
        array = array if isinstance(image, Tensor) else (array if array.ndim == 2 else array.transpose(2, 0, 1))
        out = array.astype(np.float32)
        for axis, count in ((-2, self.height), (-1, self.width)):
            out = self._along(out, axis, count, sigma)
        out = np.rint(out).astype(array.dtype) if array.dtype.kind in "iu" else out
        if isinstance(image, Tensor):
            return Tensor(out)
        return ToPILImage(image.mode)(out if out.ndim == 2 else out.transpose(1, 2, 0))

    def _along(self, array, axis, count, sigma):
        places = np.linspace(-(count - 1) * 0.5, (count - 1) * 0.5, count, dtype=np.float32)
        weights = np.exp(-0.5 * (places / sigma) ** 2)
        weights = weights / weights.sum()
        widths = [(0, 0)] * array.ndim
        widths[axis] = (count // 2, count // 2)
        wide = np.pad(array, widths, "reflect")
        moved = np.moveaxis(wide, axis, 0)
        length = array.shape[axis]
        return np.moveaxis(sum(w * moved[i : i + length] for i, w in enumerate(weights)), 0, axis)


class RandomApply:
    """All of some transforms, or none."""

    def __init__(self, transforms, p=0.5):
        self.transforms, self.p = transforms, p

    def __call__(self, image):
        if self.p < drawn():
            return image
        for transform in self.transforms:
            image = transform(image)
        return image


class RandomChoice:
    """One of some transforms."""

    def __init__(self, transforms, p=None):
        self.transforms, self.p = list(transforms), p

    def __call__(self, image):
        return random.choices(self.transforms, weights=self.p)[0](image)


class RandomOrder:
    """Some transforms in random order."""

    def __init__(self, transforms):
        self.transforms = list(transforms)

    def __call__(self, image):
        order = list(range(len(self.transforms)))
        random.shuffle(order)
        for index in order:
            image = self.transforms[index](image)
        return image
