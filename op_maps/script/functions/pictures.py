"""Transforms of pictures without chance: PIL images, and tensors (C, H, W), as torchvision has them."""

import mindspore as ms
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


class ToDtype:
    """Another type; ``scale`` also takes bytes to [0, 1] and back."""

    def __init__(self, dtype, scale=False):
        self.dtype, self.scale = dtype, scale

    def __call__(self, image):
        if not isinstance(image, Tensor) or image.dtype == self.dtype:
            return image
        given, wanted = (kind in (ms.float16, ms.float32, ms.float64) for kind in (image.dtype, self.dtype))
        if not self.scale or given == wanted:
            return image.astype(self.dtype)
        if wanted:
            return image.astype(self.dtype) / 255
        return (image * (256 - 1e-3)).astype(self.dtype)


class ConvertImageDtype(ToDtype):
    def __init__(self, dtype):
        super().__init__(dtype, True)


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
        self.size, self.interpolation, self.max_size = size, interpolation, max_size

    def __call__(self, image):
        return resized(image, self.size, self.interpolation, self.max_size)


class CenterCrop:
    """The middle; a smaller image is padded with zeros."""

    def __init__(self, size):
        self.height, self.width = (size, size) if isinstance(size, int) else (size[0], size[-1])

    def __call__(self, image):
        height, width = sides(image)
        if self.width > width or self.height > height:
            across, down = max(self.width - width, 0), max(self.height - height, 0)
            image = padded(image, (across // 2, down // 2, (across + 1) // 2, (down + 1) // 2))
            height, width = sides(image)
        top, left = round((height - self.height) / 2), round((width - self.width) / 2)
        return cropped(image, top, left, self.height, self.width)


def sides(image):
    """(height, width)."""
    return tuple(image.shape[-2:]) if isinstance(image, (Tensor, np.ndarray)) else (image.size[1], image.size[0])


def resized(image, size, interpolation=2, max_size=None, antialias=True):
    """A picture, or a tensor (C, H, W) band by band, in another size; one number is the shorter side."""
    from PIL import Image

    interpolation = 2 if interpolation is None else interpolation
    height, width = sides(image)
    if isinstance(size, (tuple, list)) and len(size) == 2:
        new = (size[1], size[0])
    else:
        side = size[0] if isinstance(size, (tuple, list)) else size
        shorter, longer = side, int(side * max(height, width) / min(height, width))
        if max_size is not None and longer > max_size:
            shorter, longer = int(max_size * shorter / longer), max_size
        new = (shorter, longer) if width <= height else (longer, shorter)
    if not isinstance(image, Tensor):
        return image if new == image.size else image.resize(new, interpolation)
    array = image.asnumpy()
    bands = [np.asarray(Image.fromarray(band.astype(np.float32)).resize(new, interpolation)) for band in array]
    out = np.stack(bands)
    return Tensor(out if array.dtype.kind == "f" else np.clip(np.rint(out), 0, 255).astype(array.dtype))


def cropped(image, top, left, height, width):
    if isinstance(image, Tensor):
        return image[..., top : top + height, left : left + width]
    return image.crop((left, top, left + width, top + height))


def flipped(image, axis):
    """Mirrored: axis -1 is left and right, -2 is up and down."""
    if isinstance(image, Tensor):
        return Tensor(np.flip(image.asnumpy(), axis).copy())
    return image.transpose(0 if axis == -1 else 1)


def padded(image, padding, fill=0, padding_mode="constant"):
    """With a border: one width, (sides, top and bottom), or (left, top, right, bottom)."""
    from PIL import Image, ImageOps

    if isinstance(padding, (tuple, list)):
        padding = tuple(padding) * (4 // len(padding))
    else:
        padding = (padding,) * 4
    left, top, right, bottom = padding
    if not isinstance(image, Tensor) and padding_mode == "constant":
        return ImageOps.expand(image, border=padding, fill=filling(fill, image))
    array = image.asnumpy() if isinstance(image, Tensor) else np.asarray(image)
    widths = [(top, bottom), (left, right)]
    widths = [(0, 0)] * (array.ndim - 2) + widths if isinstance(image, Tensor) else widths + [(0, 0)] * (array.ndim - 2)
    options = {"constant_values": fill} if padding_mode == "constant" else {}
    array = np.pad(array, widths, padding_mode, **options)
    return Tensor(array) if isinstance(image, Tensor) else Image.fromarray(array)


def adjusted(image, kind, factor):
    """A picture with another brightness, contrast, saturation, sharpness or hue."""
    from PIL import Image, ImageEnhance

    if isinstance(image, Tensor):
        raise NotImplementedError(f"MSP602: {kind} of a tensor: change the picture before ToTensor")
    if kind != "hue":
        name = {"saturation": "Color"}.get(kind, kind.capitalize())
        return getattr(ImageEnhance, name)(image).enhance(factor)
    if image.mode in ("L", "1", "I", "F"):
        return image
    hue, saturation, value = image.convert("HSV").split()
    turned = np.array(hue, np.uint8) + np.int32(factor * 255).astype(np.uint8)
    return Image.merge("HSV", (Image.fromarray(turned), saturation, value)).convert(image.mode)


def filling(fill, image):
    """A colour for each band of a picture."""
    bands = len(image.getbands())
    colour = tuple(fill) if isinstance(fill, (tuple, list)) else (fill or 0,)
    colour = colour * bands if len(colour) == 1 else colour
    colour = colour if image.mode == "F" else tuple(map(int, colour))
    return colour if bands > 1 else colour[0]


def rotated(img, angle, interpolation=0, expand=False, center=None, fill=None):
    """A picture turned against the clock, by degrees."""
    if isinstance(img, Tensor):
        raise NotImplementedError("MSP602: rotation of a tensor: turn the picture before ToTensor")
    return img.rotate(angle, interpolation, expand, center, fillcolor=filling(fill, img))


def grey(img, num_output_channels=1):
    """A picture without colours, in one band or three equal ones."""
    from PIL import Image

    if isinstance(img, Tensor):
        raise NotImplementedError("MSP602: greyscale of a tensor: change the picture before ToTensor")
    band = img.convert("L")
    return band if num_output_channels == 1 else Image.merge("RGB", (band, band, band))


def picture_bytes(pic):
    return PILToTensor()(pic)


def picture_tensor(pic):
    return ToTensor()(pic)


def normalized(tensor, mean, std, inplace=False):
    return Normalize(mean, std)(tensor)


def hflip(img):
    return flipped(img, -1)


def vflip(img):
    return flipped(img, -2)


def center_crop(img, output_size):
    return CenterCrop(output_size)(img)


def resized_crop(img, top, left, height, width, size, interpolation=2, antialias=True):
    return resized(cropped(img, top, left, height, width), size, interpolation)


def adjust_brightness(img, brightness_factor):
    return adjusted(img, "brightness", brightness_factor)


def adjust_contrast(img, contrast_factor):
    return adjusted(img, "contrast", contrast_factor)


def adjust_saturation(img, saturation_factor):
    return adjusted(img, "saturation", saturation_factor)


def adjust_hue(img, hue_factor):
    return adjusted(img, "hue", hue_factor)


def adjust_sharpness(img, sharpness_factor):
    return adjusted(img, "sharpness", sharpness_factor)


def to_pil_image(pic, mode=None):
    return ToPILImage(mode)(pic)
