"""Functions for what a script's source leaves open."""

import math

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops


def diag(x, diagonal=0):
    """The matrix with a diagonal, or the diagonal of a matrix."""
    if diagonal:
        raise NotImplementedError("diag with an offset")
    return ops.diag(x) if x.ndim == 1 else ops.diagonal(x)


def nonzero_by_axis(x):
    """Where a tensor is not zero, an index for each axis (``ops.nonzero(x, as_tuple=True)`` has no kernel in PYNATIVE mode on CPU)."""
    found = ops.nonzero(x)
    return tuple(found[:, axis] for axis in range(x.ndim))


def unique(x, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different elements, or slices, in order; on request where each element went, and how often each was met."""
    array = x.asnumpy()
    found = np.unique(array, return_inverse=True, return_counts=True, axis=dim)
    values, inverse, counts = (Tensor(np.ascontiguousarray(part)) for part in found)
    shape = array.shape if dim is None else (array.shape[dim],)
    wanted = [values, *([inverse.reshape(shape)] if return_inverse else []), *([counts] if return_counts else [])]
    return wanted[0] if len(wanted) == 1 else tuple(wanted)


def scatter_source(value, index, like):
    """The values that scatter writes: a number for all places, or what lies under the index."""
    if not isinstance(value, Tensor):
        return ops.full(index.shape, value, dtype=like.dtype)
    return value[tuple(slice(n) for n in index.shape)].astype(like.dtype)


def randint(low, high=None, size=None, dtype=None, device=None, generator=None, requires_grad=False):
    """Integers in [low, high); ``randint(high, size)`` starts at 0. int64 unless a type is given."""
    if isinstance(high, (tuple, list)):
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    return (ops.rand(*size) * (high - low)).astype(dtype or ms.int64) + low


class ModuleDict(nn.Cell):
    """Cells by name, read as items and as attributes (nn.CellDict takes no lists of cells)."""

    def __init__(self, modules=None):
        super().__init__()
        self.update(modules or {})

    def update(self, modules):
        for name, cell in dict(modules).items():
            self[name] = cell

    def __setitem__(self, name, cell):
        self.insert_child_to_cell(name, cell)

    def __getitem__(self, name):
        return self.name_cells()[name]

    def __contains__(self, name):
        return name in self.name_cells()

    def __iter__(self):
        return iter(self.name_cells())

    def __len__(self):
        return len(self.name_cells())

    def keys(self):
        return self.name_cells().keys()

    def values(self):
        return self.name_cells().values()

    def items(self):
        return self.name_cells().items()


def FloatTensor(*given, dtype=ms.float32):
    """torch's old constructors: of a size, or of data."""
    if not given or (isinstance(given[0], int) and not isinstance(given[0], bool)):
        return ops.zeros(given or (0,), dtype)
    data = given[0]
    if isinstance(data, (list, tuple)) and data and isinstance(data[0], Tensor):
        data = [item.asnumpy() for item in data]
    return data.astype(dtype) if isinstance(data, Tensor) else Tensor(np.asarray(data), dtype)


def LongTensor(*given):
    return FloatTensor(*given, dtype=ms.int64)


def IntTensor(*given):
    return FloatTensor(*given, dtype=ms.int32)


def DoubleTensor(*given):
    return FloatTensor(*given, dtype=ms.float64)


def BoolTensor(*given):
    return FloatTensor(*given, dtype=ms.bool_)


class Generator:
    """Stands for torch.Generator where samples are put in order; draws of numbers follow ``ms.set_seed``."""

    def __init__(self, device=None):
        self.manual_seed(0)

    def manual_seed(self, seed):
        self.seed_value, self.numbers = seed, np.random.RandomState(seed % 2**32)
        return self

    def seed(self):
        return self.seed_value

    initial_seed = seed


def calculate_gain(nonlinearity, param=None):
    """Recommended gain of an activation for initial values."""
    gains = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    return gains.get(nonlinearity, 1.0)


def gradient_of(function, inputs, weight=None):
    """Gradients of a function's output, weighted and summed, by each of its inputs: a tuple. Can be differentiated again."""

    def total(*given):
        output = function(*given)
        return output.sum() if weight is None else (output * weight).sum()

    inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    found = ms.grad(total, grad_position=tuple(range(len(inputs))))(*inputs)
    return found if isinstance(found, tuple) else (found,)  # ms.grad gives one gradient bare


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    return bool(np.allclose(input.asnumpy(), other.asnumpy(), rtol, atol, equal_nan))


def equal(input, other):
    """Whether two tensors have the same shape and elements."""
    return bool(np.array_equal(input.asnumpy(), other.asnumpy()))


def channel_dropout(x, p=0.5, training=True):
    """Whole channels (the second axis) are dropped, whatever stands behind it; nn.Dropout2d takes four axes only."""
    if not training or p == 0:
        return x
    return x * ops.dropout(ops.ones(x.shape[:2] + (1,) * (x.ndim - 2), x.dtype), p=p, training=True)


class ChannelDropout(nn.Cell):
    """``channel_dropout`` while training."""

    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def construct(self, x):
        return channel_dropout(x, self.p, self.training)


def pretrained_embedding(
    embeddings, freeze=True, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
):
    """nn.Embedding that starts from a table; it is trained only if ``freeze`` is False."""
    if max_norm is not None or padding_idx is not None or scale_grad_by_freq or sparse:
        raise NotImplementedError(
            "MSP602: a pretrained embedding with max_norm, padding_idx, scale_grad_by_freq or sparse"
        )
    cell = nn.Embedding(*embeddings.shape, embedding_table=Tensor(embeddings.asnumpy()))
    cell.embedding_table.requires_grad = not freeze
    return cell


def normal_draw(mean, std=1.0, size=None, generator=None, out=None):
    """Normal numbers of the shape that a mean or deviation has, or of ``size``."""
    if size is None:
        size = (mean + std).shape
    return ops.randn(*size) * std + mean


def dense_of(indices, values, size=None, **kwargs):
    """A sparse tensor with all its zeros: what is computed with it is the same, memory is not."""
    values = values if isinstance(values, Tensor) else Tensor(np.asarray(values))
    places = np.asarray(indices.asnumpy() if isinstance(indices, Tensor) else indices)
    size = tuple(size or (places.max(1) + 1).tolist()) + values.shape[1:]
    whole = np.zeros(size, values.asnumpy().dtype)
    np.add.at(whole, tuple(places), values.asnumpy())
    return Tensor(whole)


def strided(x, index):
    """``x[index]`` with steps, which MindSpore 2.10 on CPU differentiates in graphs only: such an axis is gathered."""
    index = index if isinstance(index, tuple) else (index,)
    if not isinstance(x, Tensor) or not all(part is ... or isinstance(part, (slice, int)) for part in index):
        return x[index]
    place = index.index(...) if ... in index else len(index)
    whole = (slice(None),) * (x.ndim - len(index) + (... in index))
    index = [*index[:place], *whole, *index[place + 1 :]]
    for axis, part in enumerate(index):
        if isinstance(part, slice) and part.step not in (None, 1):
            places = np.arange(*part.indices(x.shape[axis]), dtype=np.int32)
            x, index[axis] = ops.gather(x, Tensor(places), axis), slice(None)
    return x[tuple(index)]
