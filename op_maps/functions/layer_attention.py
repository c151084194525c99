"""torch's MultiheadAttention and Transformer layers: same arguments, results and parameter names."""

import copy
import math
from collections.abc import Callable

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import XavierNormal, XavierUniform, initializer

from .attention import masked_softmax
from .layer_norm import FlexibleLayerNorm


def causal_mask(size: int) -> Tensor:
    """nn.Transformer.generate_square_subsequent_mask: -inf above the diagonal, else 0."""
    return Tensor(np.triu(np.full((size, size), -np.inf, np.float32), 1))


def as_bias(mask: Tensor, dtype: ms.Type) -> Tensor:
    """A mask as what is added to the scores: True becomes -inf."""
    if mask.dtype == ms.bool_:
        return ops.zeros(mask.shape, dtype).masked_fill(mask, float("-inf"))
    return mask.astype(dtype)


class MultiheadAttention(nn.Cell):
    """torch.nn.MultiheadAttention. Returns (output, weights); the weights are None unless they are needed."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
    ) -> None:
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.batch_first = batch_first
        self.add_zero_attn = add_zero_attn
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.same_dims = self.kdim == embed_dim and self.vdim == embed_dim
        if self.same_dims:
            self.in_proj_weight = Parameter(initializer(XavierUniform(), (3 * embed_dim, embed_dim)))
        else:
            self.q_proj_weight = Parameter(initializer(XavierUniform(), (embed_dim, embed_dim)))
            self.k_proj_weight = Parameter(initializer(XavierUniform(), (embed_dim, self.kdim)))
            self.v_proj_weight = Parameter(initializer(XavierUniform(), (embed_dim, self.vdim)))
        self.in_proj_bias = Parameter(initializer("zeros", (3 * embed_dim,))) if bias else None
        self.out_proj = nn.Dense(embed_dim, embed_dim, bias_init="zeros", has_bias=bias)
        self.bias_k = Parameter(initializer(XavierNormal(), (1, 1, embed_dim))) if add_bias_kv else None
        self.bias_v = Parameter(initializer(XavierNormal(), (1, 1, embed_dim))) if add_bias_kv else None
        self.dropout = nn.Dropout(p=float(dropout))

    def project(self, x: Tensor, part: int) -> Tensor:
        """Queries (0), keys (1) or values (2)."""
        start, stop = part * self.embed_dim, (part + 1) * self.embed_dim
        if self.same_dims:
            weight = self.in_proj_weight[start:stop]
        else:
            weight = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)[part]
        out = ops.matmul(x, weight.swapaxes(0, 1))
        return out if self.in_proj_bias is None else out + self.in_proj_bias[start:stop]

    def split_heads(self, x: Tensor) -> Tensor:
        """(batch, length, embed) to (batch, heads, length, head)."""
        return x.reshape(x.shape[0], x.shape[1], self.num_heads, self.head_dim).swapaxes(1, 2)

    def scores_bias(
        self, key_padding_mask: Tensor | None, attn_mask: Tensor | None, batch: int, dtype: ms.Type
    ) -> Tensor | None:
        """The masks together, to broadcast over (batch, heads, queries, keys); None without any."""
        bias = None
        if attn_mask is not None:
            bias = as_bias(attn_mask, dtype)
            if bias.ndim == 3:
                bias = bias.reshape((batch, self.num_heads, *bias.shape[1:]))
        if key_padding_mask is not None:
            padding = as_bias(key_padding_mask, dtype)
            padding = padding.reshape(batch, 1, 1, -1)
            bias = padding if bias is None else bias + padding
        return bias

    def construct(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        unbatched = query.ndim == 2
        if unbatched:
            query, key, value = query.expand_dims(0), key.expand_dims(0), value.expand_dims(0)
        elif not self.batch_first:
            query, key, value = query.swapaxes(0, 1), key.swapaxes(0, 1), value.swapaxes(0, 1)
        batch, length = query.shape[0], query.shape[1]
        q, k, v = self.project(query, 0), self.project(key, 1), self.project(value, 2)
        bias = self.scores_bias(key_padding_mask, attn_mask, batch, q.dtype)
        extra = 0
        if self.bias_k is not None:
            k = ops.cat((k, self.bias_k.broadcast_to((batch, 1, self.embed_dim))), axis=1)
            v = ops.cat((v, self.bias_v.broadcast_to((batch, 1, self.embed_dim))), axis=1)
            extra = extra + 1
        if self.add_zero_attn:
            zeros = ops.zeros((batch, 1, self.embed_dim), q.dtype)
            k, v = ops.cat((k, zeros), axis=1), ops.cat((v, zeros), axis=1)
            extra = extra + 1
        q, k, v = self.split_heads(q), self.split_heads(k), self.split_heads(v)
        scores = ops.matmul(q * (1.0 / math.sqrt(self.head_dim)), k.swapaxes(-1, -2))
        if bias is None:
            weights = ops.softmax(scores, axis=-1)
        else:  # torch's is NaN for a row that may attend to nothing, where it gives the weights
            if extra > 0:
                bias = ops.cat((bias, ops.zeros((*bias.shape[:-1], extra), bias.dtype)), axis=-1)
            weights = masked_softmax(scores + bias, float("nan") if need_weights else 0.0)
        weights = self.dropout(weights)
        out = ops.matmul(weights, v).swapaxes(1, 2).reshape(batch, length, self.embed_dim)
        out = self.out_proj(out)
        if unbatched:
            out = out[0]
        elif not self.batch_first:
            out = out.swapaxes(0, 1)
        if not need_weights:
            return out, None
        if average_attn_weights:
            weights = weights.mean(1)
        return out, (weights[0] if unbatched else weights)


def layer_norm(width: int, epsilon: float, bias: bool) -> nn.Cell:
    """A LayerNorm, without shift where there are no biases."""
    return nn.LayerNorm((width,), epsilon=epsilon) if bias else FlexibleLayerNorm((width,), epsilon, has_bias=False)


def activation_of(activation: str | Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """``relu``, ``gelu`` or a function."""
    if activation == "relu":
        return ops.relu
    return ops.gelu if activation == "gelu" else activation


class TransformerEncoderLayer(nn.Cell):
    """torch.nn.TransformerEncoderLayer."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)
        self.linear1 = nn.Dense(d_model, dim_feedforward, has_bias=bias)
        self.dropout = nn.Dropout(p=float(dropout))
        self.linear2 = nn.Dense(dim_feedforward, d_model, has_bias=bias)
        self.norm_first = norm_first
        self.norm1 = layer_norm(d_model, layer_norm_eps, bias)
        self.norm2 = layer_norm(d_model, layer_norm_eps, bias)
        self.dropout1 = nn.Dropout(p=float(dropout))
        self.dropout2 = nn.Dropout(p=float(dropout))
        self.activation = activation_of(activation)

    def attend(self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None) -> Tensor:
        out, _ = self.self_attn(x, x, x, key_padding_mask, False, attn_mask)
        return self.dropout1(out)

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))

    def construct(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        x = src
        if self.norm_first:
            x = x + self.attend(self.norm1(x), src_mask, src_key_padding_mask)
            return x + self.feed_forward(self.norm2(x))
        x = self.norm1(x + self.attend(x, src_mask, src_key_padding_mask))
        return self.norm2(x + self.feed_forward(x))


class TransformerDecoderLayer(nn.Cell):
    """torch.nn.TransformerDecoderLayer."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)
        self.linear1 = nn.Dense(d_model, dim_feedforward, has_bias=bias)
        self.dropout = nn.Dropout(p=float(dropout))
        self.linear2 = nn.Dense(dim_feedforward, d_model, has_bias=bias)
        self.norm_first = norm_first
        self.norm1 = layer_norm(d_model, layer_norm_eps, bias)
        self.norm2 = layer_norm(d_model, layer_norm_eps, bias)
        self.norm3 = layer_norm(d_model, layer_norm_eps, bias)
        self.dropout1 = nn.Dropout(p=float(dropout))
        self.dropout2 = nn.Dropout(p=float(dropout))
        self.dropout3 = nn.Dropout(p=float(dropout))
        self.activation = activation_of(activation)

    def attend(self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None) -> Tensor:
        out, _ = self.self_attn(x, x, x, key_padding_mask, False, attn_mask)
        return self.dropout1(out)

    def look(self, x: Tensor, memory: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None) -> Tensor:
        out, _ = self.multihead_attn(x, memory, memory, key_padding_mask, False, attn_mask)
        return self.dropout2(out)

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))

    def construct(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        x = tgt
        if self.norm_first:
            x = x + self.attend(self.norm1(x), tgt_mask, tgt_key_padding_mask)
            x = x + self.look(self.norm2(x), memory, memory_mask, memory_key_padding_mask)
            return x + self.feed_forward(self.norm3(x))
        x = self.norm1(x + self.attend(x, tgt_mask, tgt_key_padding_mask))
        x = self.norm2(x + self.look(x, memory, memory_mask, memory_key_padding_mask))
        return self.norm3(x + self.feed_forward(x))


class TransformerEncoder(nn.Cell):
    """torch.nn.TransformerEncoder: copies of a layer, one after the other."""

    def __init__(self, encoder_layer: nn.Cell, num_layers: int, norm: nn.Cell | None = None) -> None:
        super().__init__()
        self.layers = nn.CellList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm

    def construct(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        out = src
        for layer in self.layers:
            out = layer(out, mask, src_key_padding_mask)
        return out if self.norm is None else self.norm(out)


class TransformerDecoder(nn.Cell):
    """torch.nn.TransformerDecoder: copies of a layer, one after the other."""

    def __init__(self, decoder_layer: nn.Cell, num_layers: int, norm: nn.Cell | None = None) -> None:
        super().__init__()
        self.layers = nn.CellList([copy.deepcopy(decoder_layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm

    def construct(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        out = tgt
        for layer in self.layers:
            out = layer(out, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return out if self.norm is None else self.norm(out)


class Transformer(nn.Cell):
    """torch.nn.Transformer."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        custom_encoder: nn.Cell | None = None,
        custom_decoder: nn.Cell | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        settings = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first
        self.encoder = custom_encoder
        if custom_encoder is None:
            norm = layer_norm(d_model, layer_norm_eps, bias)
            self.encoder = TransformerEncoder(TransformerEncoderLayer(*settings), num_encoder_layers, norm)
        self.decoder = custom_decoder
        if custom_decoder is None:
            norm = layer_norm(d_model, layer_norm_eps, bias)
            self.decoder = TransformerDecoder(TransformerDecoderLayer(*settings), num_decoder_layers, norm)
        for parameter in self.get_parameters():
            if parameter.ndim > 1:
                parameter.set_data(initializer(XavierUniform(), parameter.shape, parameter.dtype))

    def construct(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        memory = self.encoder(src, src_mask, src_key_padding_mask)
        return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
