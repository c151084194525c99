"""Faults to plant into the ports of ``ports/``: what is edited, and what verification must say of it."""

from __future__ import annotations

from dataclasses import dataclass

R, V, T, M = "residual", "vision_transformer", "text_encoder", "mixed"


@dataclass(frozen=True)
class Fault:
    """One edit of a port (old and new text of model.py, in turns).

    ``path`` is the module at fault, ``op`` the end of the torch call's name, ``cause`` a part of the likely
    cause, empty where none is known.
    """

    port: str
    path: str
    edits: tuple[str, ...]
    op: str = ""
    cause: str = ""
    script: bool = True
    """Whether report/repro_*.py is due: of gradients it is not where the cell draws random numbers."""


FORWARD = {
    "alias of an in-place op": Fault(R, "stages.0.1", ("identity = out if", "identity = x if"), "add_"),
    "BatchNorm momentum": Fault(R, "stem.0.1", ("momentum=0.97", "momentum=0.03"), "batch_norm", "momentum"),
    "padding left out": Fault(
        R, "stem.0.0", ('            pad_mode="pad",\n            padding=kernel_size // 2,\n', ""), "conv2d", "'same'"
    ),
    "padding side": Fault(R, "stem.2", ('pad_mode="pad", padding=1', 'pad_mode="same"'), "max_pool2d", "'same'"),
    "stride left out": Fault(
        R, "stem.2", ('3, stride=2, pad_mode="pad"', '3, pad_mode="pad"'), "max_pool2d", "stride=1"
    ),
    "BatchNorm eps": Fault(R, "stem.0.1", ("eps=1e-3", "eps=1e-5"), "batch_norm", "eps=1e-05"),
    "dropout missing in training": Fault(
        R, "dropout", ("nn.Dropout(p=dropout)", "nn.Dropout(p=0.0)"), "dropout", "drops 0"
    ),
    "sum for mean": Fault(R, "", ("self.pool(x)", "x.sum(axis=(2, 3), keepdims=True)"), script=False),
    "GELU form": Fault(V, "blocks.0.mlp.1", ("nn.GELU(approximate=False)", "nn.GELU()"), "gelu", "approximate='tanh'"),
    "LayerNorm eps": Fault(
        V, "blocks.0.norm1", ("epsilon=1e-6", "epsilon=1e-7", "epsilon=1e-5", "epsilon=1e-7"), "layer_norm", "eps=1e-07"
    ),
    "stale training": Fault(V, "", ("if self.training:", "if False:")),
    "dropout rate": Fault(V, "pos_drop", ("nn.Dropout(p=drop_rate)", "nn.Dropout(p=0.3)"), "dropout", "drops 0.3"),
    "scale missing": Fault(V, "blocks.0.attn", ("(q * self.scale) @", "q @"), "mul", "missing"),
    "gamma dropped": Fault(
        V, "blocks.0.ls1", ("return x * self.gamma", "return x + 0.0 * self.gamma"), "mul", "missing"
    ),
    "drop path without scale": Fault(
        V, "blocks.1.drop_path", ("x.div(keep) * mask", "x * mask"), "div", "this step is missing"
    ),
    "sum for mean of patches": Fault(
        V, "", ("x[:, 1:].mean(axis=1)", "x[:, 1:].sum(axis=1)"), "mean", "sum instead of mean"
    ),
    "mask missing": Fault(T, "layers.0.attention", ("scores = scores + mask", "scores = scores"), "add", "missing"),
    "mask inverted": Fault(
        T, "layers.0.attention", ("scores = scores + mask", "scores = scores - mask"), "add", "difference"
    ),
    "softmax axis": Fault(
        T, "layers.0.attention", ("ops.softmax(scores, axis=-1)", "ops.softmax(scores, axis=-2)"), "softmax", "dim="
    ),
    "masked assignment dropped": Fault(
        T, "pool", ("scores.masked_fill(mask == 0, finfo_min(scores.dtype))", "scores + 0"), "__setitem__", "missing"
    ),
    "query and key swapped": Fault(T, "layers.0.attention", ("q, k, v = self", "k, q, v = self"), "transpose"),
    "residual missing": Fault(
        T,
        "layers.0",
        ("x + self.dropout(self.attention(x, mask))", "self.dropout(self.attention(x, mask))"),
        "add",
        "only the second operand",
    ),
    "statistics swapped": Fault(
        M,
        "norm",
        ("x, self.running_mean, self.running_var", "x, self.running_var, self.running_mean"),
        "batch_norm",
        "exchanged",
    ),
    "functional eps left out": Fault(M, "norm", (", eps=1e-3", ""), "batch_norm", "eps=1e-05"),
    "reflect for replicate": Fault(M, "edge", ('mode="replicate"', 'mode="reflect"'), "pad", "mode='reflect'"),
    "padding before and after swapped": Fault(M, "edge", ("(2, 1, 1, 2)", "(1, 2, 2, 1)"), "pad", "at the other side"),
    "count_include_pad": Fault(
        M, "edge", ("count_include_pad=False", "count_include_pad=True"), "avg_pool2d", "count_include_pad"
    ),
    "align_corners": Fault(
        M, "grow", ("align_corners=False", "align_corners=True"), "interpolate", "align_corners=True"
    ),
    "LSTM gates swapped": Fault(M, "gates", ("i, f, g, o = self", "i, g, f, o = self")),
    "weight transposed": Fault(M, "mix", ("self.weight.swapaxes(0, 1)", "self.weight"), "linear", "weight transposed"),
    "bias dropped": Fault(
        M, "mix", ("self.weight.swapaxes(0, 1)) + self.bias", "self.weight.swapaxes(0, 1))"), "linear", "without bias"
    ),
    "integer division": Fault(M, "", ("(ids / 3)", "(ids // 3).astype(ms.float32)"), "div", "integer division"),
    "biased std": Fault(M, "", ("axis=-1, ddof=1", "axis=-1, ddof=0"), "std", "unbiased"),
    "flipped axis": Fault(M, "", ("ops.flip(x, (-1,))", "ops.flip(x, (0,))"), "flip"),
}
"""Wrong results."""

GRADIENT = {
    "padding row trained": Fault(
        T, "embeddings.word", ("self.word = Embedding(", "self.word = nn.Embedding("), cause="row of padding_idx"
    ),
    "stop_gradient added": Fault(
        V, "blocks.2.attn", ("x = attn @ v", "x = attn @ ops.stop_gradient(v)"), cause="stop_gradient", script=False
    ),
    "stop_gradient on what a cell gives": Fault(
        V,
        "blocks.2",
        ("self.ls2(self.mlp(", "self.ls2(ops.stop_gradient(self.mlp(", "self.norm2(x))))", "self.norm2(x)))))"),
        cause="stop_gradient",
        script=False,
    ),
    "stop_gradient missing": Fault(M, "mix", ("y * ops.stop_gradient(y)", "y * y"), cause="no stop_gradient"),
    "gradient through a cast to integers": Fault(
        M,
        "mix",
        ("ops.stop_gradient((y * 4.0).astype(ms.int32).astype(y.dtype))", "(y * 4.0).astype(ms.int32).astype(y.dtype)"),
        cause="cast to integers",
    ),
    "parameter not trained": Fault(
        V,
        "",
        (
            'Parameter(initializer("zeros", (1, 1, dim)))',
            'Parameter(initializer("zeros", (1, 1, dim)), requires_grad=False)',
        ),
        script=False,
    ),
}
"""Right results with wrong gradients."""

TIES = "        self.decoder.weight = self.embeddings.word.embedding_table\n"
FITS = "    missing, unexpected = ms.load_param_into_net"
GRADIENT["tied weight copied"] = Fault(
    T,
    "embeddings.word",
    (
        TIES,
        "",
        FITS,
        '    weights["decoder.weight"] = ms.Parameter(weights["embeddings.word.embedding_table"].value())\n' + FITS,
    ),
    cause="torch ties decoder.weight to embeddings.word.weight",
    script=False,
)

STEP = {
    "no weight decay on gamma": Fault(
        R,
        "stem.0.1",
        ("if options.decay_norm_and_bias:", "if False:"),
        "SGD",
        "no weight decay",
    ),
    "nesterov": Fault(R, "", ("nesterov=options.nesterov", "nesterov=True"), "SGD", "Nesterov"),
    "momentum left out": Fault(
        R, "", ("momentum=options.momentum,\n            dampening", "dampening"), "SGD", "no momentum"
    ),
    "dampening": Fault(R, "", ("dampening=options.dampening", "dampening=0.9"), "SGD", "damped"),
    "another beta": Fault(
        R, "", ("betas = (options.beta1, options.beta2)", "betas = (0.8, options.beta2)"), "AdamW", ""
    ),
    "bias correction": Fault(
        R,
        "",
        (
            "return optim.AdamW(groups, lr=lr, betas=betas, eps=options.eps, weight_decay=decay, amsgrad=options.amsgrad)",
            "return nn.AdamWeightDecay(groups[0]['params'], lr, *betas, eps=options.eps, weight_decay=decay)",
        ),
        "AdamW",
        "no bias correction",
    ),
    "weight decay in the gradient": Fault(
        R,
        "",
        (
            "return optim.AdamW(groups, lr=lr, betas=betas, eps=options.eps, weight_decay=decay, amsgrad=options.amsgrad)",
            "return Adam(groups, lr, betas, options.eps, decay, False)",
        ),
        "AdamW",
        "(Adam)",
    ),
}
"""Right gradients with wrong updates: edits of optimization.py. ``path`` is empty where every parameter is wrong."""

UNLOADABLE = {
    "convolution without its bias": Fault(
        V, "unexpected ['patch_embed.proj.bias']", (', pad_mode="valid", has_bias=True', ', pad_mode="valid"')
    ),
    "cells in a python list": Fault(
        V, "blocks.0.norm1.gamma", ("nn.CellList(\n            [Block(", "list(\n            [Block(")
    ),
    "tied weight untied": Fault(T, "decoder.weight", (TIES, "")),
}
"""Ports that the weights do not fit; ``path`` is a part of the message."""

DEFAULT = ("mask missing", "weight transposed")
"""A sample for every run of the tests."""
