"""Sequences of different length in one batch (torch.nn.utils.rnn), and the layers that take them."""

from collections import namedtuple

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

PackedSequence = namedtuple("PackedSequence", "data batch_sizes sorted_indices unsorted_indices")


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """The steps of all sequences without what pads them: all first steps, all second steps and so on, the longest first."""
    counts = np.asarray(lengths.asnumpy() if isinstance(lengths, Tensor) else lengths).astype(np.int64)
    order = None
    x = input if batch_first else input.swapaxes(0, 1)
    if not enforce_sorted:
        order = np.argsort(-counts, kind="stable")
        counts, x = counts[order], x[Tensor(order)]
    elif (np.diff(counts) > 0).any():
        raise ValueError("lengths must be in decreasing order, or enforce_sorted=False")
    sizes = (counts[None, :] > np.arange(counts[0])[:, None]).sum(1)
    data = ops.cat([x[: int(n), step] for step, n in enumerate(sizes)])
    back = None if order is None else Tensor(np.argsort(order))
    return PackedSequence(data, Tensor(sizes), None if order is None else Tensor(order), back)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """(batch, longest, ...) padded, and the lengths."""
    padded, counts = _padded(sequence, padding_value, total_length)
    counts = Tensor(counts)
    if sequence.unsorted_indices is not None:
        padded, counts = padded[sequence.unsorted_indices], counts[sequence.unsorted_indices]
    return (padded if batch_first else padded.swapaxes(0, 1)), counts


def _padded(sequence, value=0.0, total_length=None):
    """The sequences in the order in which they lie, (batch, longest, ...), and their lengths."""
    sizes = sequence.batch_sizes.asnumpy()
    batch, steps, start = int(sizes[0]), [], 0
    for n in map(int, sizes):
        step = sequence.data[start : start + n]
        rest = ops.full((batch - n, *step.shape[1:]), value, dtype=step.dtype) if n < batch else None
        steps.append(step if rest is None else ops.cat([step, rest]))
        start += n
    for _ in range((total_length or len(steps)) - len(steps)):
        steps.append(ops.full(steps[0].shape, value, dtype=steps[0].dtype))
    return ops.stack(steps, 1), (sizes[:, None] > np.arange(batch)[None, :]).sum(0)


class _TakesPacked:
    """A recurrent layer that takes and gives packed sequences as well."""

    def construct(self, x, hx=None, seq_length=None):
        if not isinstance(x, PackedSequence):
            return super().construct(x, hx, seq_length)
        padded, counts = _padded(x)
        hx = self._ordered(hx, x.sorted_indices)
        padded = padded if self.batch_first else padded.swapaxes(0, 1)
        out, state = super().construct(padded, hx, Tensor(counts, ms.int32))
        packed = pack_padded_sequence(out, counts, self.batch_first)
        return x._replace(data=packed.data), self._ordered(state, x.unsorted_indices)

    def _ordered(self, state, order):
        """The states (layers, batch, width) of the sequences in another order."""
        if state is None or order is None:
            return state
        return tuple(h[:, order] for h in state) if isinstance(state, tuple) else state[:, order]


class PackedLSTM(_TakesPacked, nn.LSTM):
    pass


class PackedGRU(_TakesPacked, nn.GRU):
    pass


class PackedRNN(_TakesPacked, nn.RNN):
    pass
