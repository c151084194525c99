import numpy as np
import torch
from torch.utils.data import TensorDataset


def build_dataset(count):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(count, 6)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64) + (x[:, 1] > 0.5)
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
