"""Datasets, samplers and loaders with torch's order and batching, over ``mindspore.dataset`` where workers are asked for."""

import math

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import Tensor

from .running import process_rank, world_size


class Dataset:
    """Samples by index: ``__getitem__`` and ``__len__``."""


class Sampler:
    """Gives the indices of the samples in their order."""

    def __init__(self, data_source=None):
        pass


class IterableDataset:
    """Samples by iteration."""


class TensorDataset(Dataset):
    def __init__(self, *tensors):
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self):
        return len(self.tensors[0])


class Subset(Dataset):
    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index):
        return self.dataset[int(self.indices[index])]

    def __len__(self):
        return len(self.indices)


class ConcatDataset(Dataset):
    def __init__(self, datasets):
        self.datasets = list(datasets)

    def __getitem__(self, index):
        index = index + len(self) if index < 0 else index
        for dataset in self.datasets:
            if index < len(dataset):
                return dataset[index]
            index -= len(dataset)
        raise IndexError(index)

    def __len__(self):
        return sum(map(len, self.datasets))


def random_split(dataset, lengths, generator=None):
    """Random parts of a dataset; lengths are numbers of samples, or shares that add up to one."""
    total = len(dataset)
    if sum(lengths) <= 1 and any(isinstance(length, float) for length in lengths):
        counts = [math.floor(total * share) for share in lengths]
        for index in range(total - sum(counts)):
            counts[index % len(counts)] += 1
        lengths = counts
    order = permutation(total, generator)
    ends = np.cumsum(lengths)
    return [Subset(dataset, order[end - length : end]) for end, length in zip(ends, lengths)]


def permutation(count, generator=None):
    """A random order of ``count`` numbers, by the generator's seed (the same in each run), else by MindSpore's."""
    if generator is not None:
        return generator.numbers.permutation(count).tolist()
    return np.argsort(ms.ops.rand(count).asnumpy(), kind="stable").tolist() if count else []


class SequentialSampler:
    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


class RandomSampler:
    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        self.data_source, self.replacement, self.num_samples = data_source, replacement, num_samples or len(data_source)
        self.generator = generator

    def __iter__(self):
        count = len(self.data_source)
        if self.replacement:
            return iter((ms.ops.rand(self.num_samples).asnumpy() * count).astype(int).tolist())
        rounds = math.ceil(self.num_samples / max(count, 1))
        return iter([i for _ in range(rounds) for i in permutation(count, self.generator)][: self.num_samples])

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler:
    def __init__(self, indices, generator=None):
        self.indices, self.generator = list(indices), generator

    def __iter__(self):
        return iter([self.indices[i] for i in permutation(len(self.indices), self.generator)])

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler:
    def __init__(self, weights, num_samples, replacement=True, generator=None):
        self.weights, self.num_samples, self.replacement = (
            np.asarray([float(w) for w in weights]),
            num_samples,
            replacement,
        )

    def __iter__(self):
        draws = ms.ops.rand(self.num_samples if self.replacement else len(self.weights)).asnumpy().astype(np.float64)
        if self.replacement:
            ends = np.cumsum(self.weights)
            return iter(
                np.searchsorted(ends / ends[-1], draws, side="right").tolist()
            )  # "right": no weight of 0 is drawn
        keys = np.where(self.weights > 0, draws ** (1 / np.maximum(self.weights, 1e-300)), -1)
        return iter(np.argsort(-keys)[: self.num_samples].tolist())

    def __len__(self):
        return self.num_samples


class BatchSampler:
    def __init__(self, sampler, batch_size, drop_last=False):
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self):
        batch = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self):
        count = len(self.sampler) / self.batch_size
        return math.floor(count) if self.drop_last else math.ceil(count)


class DistributedSampler:
    """This process's share of the samples; ``set_epoch`` gives each epoch an order of its own."""

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        self.dataset, self.shuffle, self.seed, self.drop_last, self.epoch = dataset, shuffle, seed, drop_last, 0
        self.num_replicas = world_size() if num_replicas is None else num_replicas
        self.rank = process_rank() if rank is None else rank
        count = len(dataset) / self.num_replicas
        self.num_samples = math.floor(count) if drop_last else math.ceil(count)

    def __iter__(self):
        count, total = len(self.dataset), self.num_samples * self.num_replicas
        order = list(range(count))
        if self.shuffle:
            order = np.random.RandomState(self.seed + self.epoch).permutation(count).tolist()
        order = (order * math.ceil(total / max(count, 1)))[:total]
        return iter(order[self.rank : total : self.num_replicas])

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        self.epoch = epoch


def default_collate(batch):
    """Samples to one batch: arrays and tensors are stacked, numbers become a tensor, containers keep their form."""
    first = batch[0]
    if isinstance(first, Tensor):
        return Tensor(np.stack([item.asnumpy() for item in batch]))
    if isinstance(first, (np.ndarray, np.generic)):
        return Tensor(np.stack(batch))
    if isinstance(first, (bool, int)):
        return Tensor(np.asarray(batch))
    if isinstance(first, float):
        return Tensor(np.asarray(batch, np.float64))
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, dict):
        return {key: default_collate([item[key] for item in batch]) for key in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(list(items)) for items in zip(*batch)))
    if isinstance(first, (tuple, list)):
        return [default_collate(list(items)) for items in zip(*batch)]
    raise TypeError(f"a batch of {type(first).__name__} can't be made; give the loader a collate_fn")


class DataLoader:
    """Batches of a dataset. With ``num_workers`` they are made ahead by the threads of a GeneratorDataset."""

    def __init__(
        self,
        dataset,
        batch_size=1,
        shuffle=None,
        sampler=None,
        batch_sampler=None,
        num_workers=0,
        collate_fn=None,
        pin_memory=False,
        drop_last=False,
        timeout=0,
        worker_init_fn=None,
        multiprocessing_context=None,
        generator=None,
        *,
        prefetch_factor=None,
        persistent_workers=False,
        pin_memory_device="",
        in_order=True,
    ):
        self.dataset, self.batch_size, self.num_workers, self.drop_last = dataset, batch_size, num_workers, drop_last
        self.iterable = not hasattr(dataset, "__getitem__")
        self.sampler = sampler
        if sampler is None and not self.iterable:
            self.sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        self.batch_sampler = batch_sampler
        if batch_sampler is None and batch_size is not None and not self.iterable:
            self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self.collate_fn = collate_fn or (default_collate if self.batched else _as_tensor)

    @property
    def batched(self):
        return self.batch_size is not None or self.batch_sampler is not None

    def __len__(self):
        if self.iterable:
            count = len(self.dataset) / (self.batch_size or 1)
            return math.floor(count) if self.drop_last else math.ceil(count)
        return len(self.batch_sampler if self.batched else self.sampler)

    def __iter__(self):
        if self.iterable:
            return self._stream()
        if self.batched:
            make = [
                lambda indices=indices: self.collate_fn([self.dataset[int(i)] for i in indices])
                for indices in self.batch_sampler
            ]
        else:
            make = [lambda index=index: self.collate_fn(self.dataset[int(index)]) for index in self.sampler]
        return _prefetched(make, self.num_workers) if self.num_workers and make else (batch() for batch in make)

    def _stream(self):
        if self.batch_size is None:
            yield from map(self.collate_fn, self.dataset)
            return
        batch = []
        for sample in self.dataset:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.collate_fn(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.collate_fn(batch)


def _as_tensor(sample):
    if isinstance(sample, (tuple, list)):
        return type(sample)(map(_as_tensor, sample))
    return Tensor(sample) if isinstance(sample, (np.ndarray, np.generic)) else sample


def _leaves(batch):
    """Arrays of a batch in order; None where something else stands in it."""
    if isinstance(batch, Tensor):
        return [batch.asnumpy()]
    if isinstance(batch, dict):
        batch = list(batch.values())
    if not isinstance(batch, (tuple, list)):
        return None
    parts = [_leaves(item) for item in batch]
    return None if any(part is None for part in parts) else [leaf for part in parts for leaf in part]


def _rebuilt(batch, leaves):
    """A batch of the form of ``batch`` out of tensors."""
    if isinstance(batch, Tensor):
        return next(leaves)
    if isinstance(batch, dict):
        return {key: _rebuilt(item, leaves) for key, item in batch.items()}
    return type(batch)([_rebuilt(item, leaves) for item in batch])


class _Batches:
    """Random access to the batches of one epoch, for GeneratorDataset."""

    def __init__(self, make, first):
        self.make, self.first = make, first

    def __getitem__(self, index):
        return tuple(_leaves(self.first if index == 0 else self.make[index]()))

    def __len__(self):
        return len(self.make)


def _prefetched(make, workers):
    first = make[0]()
    leaves = _leaves(first)
    if not leaves:  # strings and the like can't go through a pipeline
        yield first
        yield from (batch() for batch in make[1:])
        return
    columns = [f"column_{i}" for i in range(len(leaves))]
    pipeline = ds.GeneratorDataset(
        _Batches(make, first),
        columns,
        shuffle=False,
        num_parallel_workers=min(workers, len(make)),
        python_multiprocessing=False,
    )
    for row in pipeline.create_tuple_iterator(num_epochs=1):
        yield _rebuilt(first, iter(row))
