"""Datasets of torchvision, read from the files that torchvision keeps; nothing is downloaded."""

import gzip
import os
import pickle
import struct

import numpy as np
from mindspore import Tensor

from .data import Dataset


class VisionDataset(Dataset):
    """Images with labels in memory; the image goes through ``transform`` as a PIL image."""

    def __init__(self, images, targets, transform=None, target_transform=None):
        self.data, self.targets, self.transform, self.target_transform = images, targets, transform, target_transform

    def __getitem__(self, index):
        from PIL import Image

        image, target = Image.fromarray(self.data[index]), int(self.targets[index])
        image = image if self.transform is None else self.transform(image)
        return image, target if self.target_transform is None else self.target_transform(target)

    def __len__(self):
        return len(self.data)


class FakeData(VisionDataset):
    def __init__(
        self,
        size=1000,
        image_size=(3, 224, 224),
        num_classes=10,
        transform=None,
        target_transform=None,
        random_offset=0,
    ):
        shape = (*image_size[1:], image_size[0])
        images = [np.random.RandomState(i + random_offset).randint(0, 256, shape).astype(np.uint8) for i in range(size)]
        targets = [int(np.random.RandomState(i + random_offset).randint(0, num_classes)) for i in range(size)]
        super().__init__(images, targets, transform, target_transform)


class MNIST(VisionDataset):
    """The four files of MNIST (gzipped or not) below ``root``; nothing is downloaded."""

    folder = "MNIST"

    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        kind = "train" if train else "t10k"
        images = self._read(os.path.join(root, self.folder, "raw", f"{kind}-images-idx3-ubyte"))
        targets = self._read(os.path.join(root, self.folder, "raw", f"{kind}-labels-idx1-ubyte"))
        super().__init__(images, Tensor(targets.astype(np.int64)), transform, target_transform)

    @property
    def data(self):
        return Tensor(self.images)

    @data.setter
    def data(self, images):
        self.images = images.asnumpy() if isinstance(images, Tensor) else np.asarray(images)

    @property
    def targets(self):
        return Tensor(self.labels)

    @targets.setter
    def targets(self, labels):
        self.labels = labels.asnumpy() if isinstance(labels, Tensor) else np.asarray(labels)

    train_data = test_data = data
    train_labels = test_labels = targets

    def __getitem__(self, index):
        from PIL import Image

        image, target = Image.fromarray(self.images[index]), int(self.labels[index])
        image = image if self.transform is None else self.transform(image)
        return image, target if self.target_transform is None else self.target_transform(target)

    def __len__(self):
        return len(self.images)

    def _read(self, path):
        if not os.path.exists(path) and not os.path.exists(path + ".gz"):
            raise RuntimeError(f"Dataset not found: put {os.path.basename(path)} into {os.path.dirname(path)}")
        with open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz", "rb") as stream:
            data = stream.read()
        dims = data[3]
        shape = struct.unpack(f">{dims}I", data[4 : 4 + 4 * dims])
        return np.frombuffer(data, np.uint8, offset=4 + 4 * dims).reshape(shape)


class FashionMNIST(MNIST):
    folder = "FashionMNIST"


class KMNIST(MNIST):
    folder = "KMNIST"


class CIFAR10(VisionDataset):
    """The python version of CIFAR-10 below ``root``; nothing is downloaded."""

    folder, train_files, test_files, key = (
        "cifar-10-batches-py",
        [f"data_batch_{i}" for i in range(1, 6)],
        ["test_batch"],
        "labels",
    )

    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        images, targets = [], []
        for name in self.train_files if train else self.test_files:
            path = os.path.join(root, self.folder, name)
            if not os.path.exists(path):
                raise RuntimeError(f"Dataset not found: put {name} into {os.path.dirname(path)}")
            with open(path, "rb") as stream:
                entry = pickle.load(stream, encoding="latin1")
            images.append(entry["data"])
            targets += entry[self.key]
        super().__init__(
            np.vstack(images).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), targets, transform, target_transform
        )


class CIFAR100(CIFAR10):
    folder, train_files, test_files, key = "cifar-100-python", ["train"], ["test"], "fine_labels"


class ImageFolder(Dataset):
    """Images in one folder a class."""

    extensions = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")

    def __init__(self, root, transform=None, target_transform=None, loader=None, is_valid_file=None):
        self.root, self.transform, self.target_transform = root, transform, target_transform
        self.classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
        self.class_to_idx = {name: index for index, name in enumerate(self.classes)}
        self.samples = [
            (os.path.join(folder, name), index)
            for label, index in self.class_to_idx.items()
            for folder, _, names in sorted(os.walk(os.path.join(root, label), followlinks=True))
            for name in sorted(names)
            if name.lower().endswith(self.extensions)
        ]
        self.imgs, self.targets = self.samples, [index for _, index in self.samples]
        self.loader = loader or self._open

    def _open(self, path):
        from PIL import Image

        with Image.open(path) as image:
            return image.convert("RGB")

    def __getitem__(self, index):
        path, target = self.samples[index]
        image = self.loader(path)
        image = image if self.transform is None else self.transform(image)
        return image, target if self.target_transform is None else self.target_transform(target)

    def __len__(self):
        return len(self.samples)


class SVHN(VisionDataset):
    """House numbers: ``train_32x32.mat`` and its like below ``root``."""

    def __init__(self, root, split="train", transform=None, target_transform=None, download=False):
        from scipy.io import loadmat

        path = os.path.join(root, f"{split}_32x32.mat")
        if not os.path.exists(path):
            raise RuntimeError(f"Dataset not found: put {os.path.basename(path)} into {root}")
        entry = loadmat(path)
        labels = entry["y"].astype(np.int64).squeeze()
        labels[labels == 10] = 0  # the digit 0 is labelled 10
        self.labels, self.split = labels, split
        super().__init__(entry["X"].transpose(3, 0, 1, 2), labels, transform, target_transform)
