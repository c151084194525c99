"""The MindSpore side of examples, in a process of its own: runs generated batches that come over a pipe as pickles.

Request: ``(path of the module, inputs, weights per case, projections, gradient wanted)``; answer: ``("ok", result)``
or ``("error", text)``. Only ms-port's own tests talk to it.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import struct
import sys
import traceback
from typing import Any, BinaryIO


def main() -> None:
    """Serve until the pipe closes."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests = sys.stdin.buffer
    while (request := read_message(requests)) is not None:
        try:
            answer: tuple[str, Any] = ("ok", run(*request))
        except Exception as error:
            lines = traceback.format_exception_only(error)
            answer = ("error", "".join(lines).strip()[:4000])
        write_message(answers, answer)


def read_message(stream: BinaryIO) -> Any:
    """One pickled message; None at the end."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    (size,) = struct.unpack("<Q", head)
    return pickle.loads(stream.read(size))


def write_message(stream: BinaryIO, message: Any) -> None:
    data = pickle.dumps(message)
    stream.write(struct.pack("<Q", len(data)) + data)
    stream.flush()


def run(
    path: str,
    inputs: list[Any],
    weights: list[dict[str, Any]],
    modes: list[bool],
    projections: list[Any],
    wanted: list[int] | None,
) -> Any:
    """Outputs of all cases; with ``wanted`` (indices of the float inputs) gradients too; buffers afterwards."""
    import mindspore as ms

    ms.set_context(mode=ms.GRAPH_MODE)
    spec = importlib.util.spec_from_file_location(f"batch_{abs(hash(path))}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    net = module.Batch()
    net.set_train(False)
    for cell, arrays, train in zip(net.cells_of_cases(), weights, modes, strict=True):
        load(ms, cell, arrays)
        cell.set_train(train)
    # A fresh cell draws its initial values late; nothing may be left undrawn in a graph.
    net.init_parameters_data()
    gradients: Any = ()
    by_weight: Any = ()
    tensors = [ms.Tensor(array) for array in inputs]
    if wanted is None:
        outputs = net(*tensors)
    else:
        parameters = net.trainable_params()
        scales = tuple(None if p is None else ms.Tensor(p) for p in projections)
        net.set_projections(scales)
        gradient = ms.value_and_grad(net, tuple(wanted) or None, parameters or None, has_aux=True)
        (_, outputs), found = gradient(*tensors)
        if wanted and parameters:
            gradients, by_weight = found
        else:
            gradients, by_weight = (found, ()) if wanted else ((), found)
        gradients = [gradients] if not isinstance(gradients, (tuple, list)) else gradients
        by_weight = [by_weight] if not isinstance(by_weight, (tuple, list)) else by_weight
    return {
        "outputs": [[numeric(leaf) for leaf in case] for case in outputs],
        "gradients": [numeric(item) for item in gradients],
        "weights": {p.name: numeric(g) for p, g in zip(net.trainable_params(), by_weight, strict=False)},
        "buffers": [{key: value.asnumpy() for key, value in state(cell).items()} for cell in net.cells_of_cases()],
    }


def state(cell: Any) -> dict[str, Any]:
    """Parameters and buffers of a case's cell by their names inside the layer."""
    layer = getattr(cell, "m", None)
    if layer is None:
        return {}
    found = dict(named_parameters(layer))
    found.update(dict(layer.named_buffers()) if hasattr(layer, "named_buffers") else {})
    return found


def named_parameters(layer: Any) -> list[tuple[str, Any]]:
    """Parameters by the path of attributes, whatever their ``name`` says."""
    found: list[tuple[str, Any]] = []
    for path, cell in layer.cells_and_names():
        for name, parameter in cell._params.items():
            if parameter is not None:
                found.append((f"{path}.{name}" if path else name, parameter))
    return found


def load(ms: Any, cell: Any, arrays: dict[str, Any]) -> None:
    """Strict: every parameter of the layer gets an array, of its shape, and none is left over."""
    have = state(cell)
    missing, extra = have.keys() - arrays.keys(), arrays.keys() - have.keys()
    if missing or extra:
        raise ValueError(f"weights of {cell.example}: missing {sorted(missing)}, unexpected {sorted(extra)}")
    for name, array in arrays.items():
        if tuple(have[name].shape) != tuple(array.shape):
            raise ValueError(f"weights of {cell.example}: {name} has shape {have[name].shape}, not {array.shape}")
        have[name].set_data(ms.Tensor(array.copy()))


def numeric(leaf: Any) -> Any:
    """A tensor as an array (bfloat16 as float32); anything else as it is."""
    if hasattr(leaf, "asnumpy"):
        return (leaf.float() if str(leaf.dtype) == "BFloat16" else leaf).asnumpy()
    return leaf


if __name__ == "__main__":
    main()
