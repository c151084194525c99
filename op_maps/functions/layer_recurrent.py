"""Recurrent cells with torch's optional state, and the LSTM with projections."""

import math

from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import Uniform, initializer


class LSTMCell(nn.LSTMCell):
    """torch.nn.LSTMCell: the state may be omitted."""

    def construct(self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        if hx is None:
            zeros = ops.zeros((*x.shape[:-1], self.hidden_size), x.dtype)
            hx = (zeros, zeros)
        if x.ndim == 1:
            h, c = super().construct(x.expand_dims(0), (hx[0].expand_dims(0), hx[1].expand_dims(0)))
            return h[0], c[0]
        return super().construct(x, hx)


class GRUCell(nn.GRUCell):
    """torch.nn.GRUCell: the state may be omitted."""

    def construct(self, x: Tensor, hx: Tensor | None = None) -> Tensor:
        if hx is None:
            hx = ops.zeros((*x.shape[:-1], self.hidden_size), x.dtype)
        if x.ndim == 1:
            return super().construct(x.expand_dims(0), hx.expand_dims(0))[0]
        return super().construct(x, hx)


class RNNCell(nn.RNNCell):
    """torch.nn.RNNCell: the state may be omitted."""

    def construct(self, x: Tensor, hx: Tensor | None = None) -> Tensor:
        if hx is None:
            hx = ops.zeros((*x.shape[:-1], self.hidden_size), x.dtype)
        if x.ndim == 1:
            return super().construct(x.expand_dims(0), hx.expand_dims(0))[0]
        return super().construct(x, hx)


class ProjectedLSTM(nn.Cell):
    """torch.nn.LSTM with proj_size; steps are unrolled."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        has_bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
    ) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.proj_size = proj_size
        self.num_layers = num_layers
        self.batch_first = batch_first
        self.directions = 2 if bidirectional else 1
        self.drop = nn.Dropout(p=float(dropout))
        names = []
        for layer in range(num_layers):
            width = input_size if layer == 0 else proj_size * self.directions
            for suffix in ("", "_reverse")[: self.directions]:
                shapes = {"weight_ih": (4 * hidden_size, width), "weight_hh": (4 * hidden_size, proj_size)}
                if has_bias:
                    shapes.update({"bias_ih": (4 * hidden_size,), "bias_hh": (4 * hidden_size,)})
                shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    full = f"{name}_l{layer}{suffix}"
                    uniform = initializer(Uniform(1 / math.sqrt(hidden_size)), shape)
                    self.insert_param_to_cell(full, Parameter(uniform, name=full))
                names.append(tuple(f"{name}_l{layer}{suffix}" for name in shapes))
        self.weights = [tuple(getattr(self, name) for name in group) for group in names]

    def steps(self, x: Tensor, h: Tensor, c: Tensor, weights, backwards: bool):
        """One direction of one layer over (length, batch, width)."""
        outputs = []
        for index in range(x.shape[0]):
            step = x.shape[0] - 1 - index if backwards else index
            gates = ops.matmul(x[step], weights[0].swapaxes(0, 1)) + ops.matmul(h, weights[1].swapaxes(0, 1))
            if len(weights) == 5:
                gates = gates + weights[2] + weights[3]
            i, f, g, o = ops.split(gates, self.hidden_size, 1)
            c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
            h = ops.matmul(ops.sigmoid(o) * ops.tanh(c), weights[-1].swapaxes(0, 1))
            outputs.append(h)
        if backwards:
            outputs = outputs[::-1]
        return ops.stack(outputs, 0), h, c

    def construct(self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None):
        if self.batch_first:
            x = x.swapaxes(0, 1)
        rows = self.num_layers * self.directions
        if hx is None:
            h0 = ops.zeros((rows, x.shape[1], self.proj_size), x.dtype)
            c0 = ops.zeros((rows, x.shape[1], self.hidden_size), x.dtype)
        else:
            h0, c0 = hx
        hs, cs = [], []
        for layer in range(self.num_layers):
            found = []
            for direction in range(self.directions):
                row = layer * self.directions + direction
                out, h, c = self.steps(x, h0[row], c0[row], self.weights[row], direction == 1)
                found.append(out)
                hs.append(h)
                cs.append(c)
            x = found[0] if self.directions == 1 else ops.cat(found, axis=2)
            if layer < self.num_layers - 1:
                x = self.drop(x)
        out = x.swapaxes(0, 1) if self.batch_first else x
        return out, (ops.stack(hs, 0), ops.stack(cs, 0))


def recurrent_without_batch(layer: nn.Cell, x: Tensor, hx: Tensor | tuple[Tensor, Tensor] | None = None):
    """An LSTM, GRU or RNN on (length, width), its state (layers, width): as a batch of one."""
    axis = 0 if layer.batch_first else 1
    if hx is None:
        out, state = layer(x.expand_dims(axis))
    elif isinstance(hx, tuple):
        out, state = layer(x.expand_dims(axis), (hx[0].expand_dims(1), hx[1].expand_dims(1)))
    else:
        out, state = layer(x.expand_dims(axis), hx.expand_dims(1))
    if isinstance(state, tuple):
        return out.squeeze(axis), (state[0].squeeze(1), state[1].squeeze(1))
    return out.squeeze(axis), state.squeeze(1)
