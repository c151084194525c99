"""The MindSpore side, in a process of its own: runs several ports in one graph, forward and gradient.

Request: ``(folder, cases, gradient)``, each case as truth.pkl holds it; answer ``("ok", [result a case])`` or
``("error", text)``, over the pipe of ``ms_port.opmap.worker``.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from ms_port.opmap.worker import numeric, read_message, write_message


def main() -> None:
    """Serve until the pipe closes."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while (request := read_message(sys.stdin.buffer)) is not None:
        try:
            answer: tuple[str, Any] = ("ok", run(*request))
        except Exception as error:
            text = "".join(traceback.format_exception_only(error)).strip()
            answer = ("error", (summary(text), culprit(text)))
        write_message(answers, answer)


_SOURCE = re.compile(r"In file .*/s_\w+/(\w+\.py:\d+).*\n(.*)")


def summary(text: str) -> str:
    """The first line of a MindSpore error, and the innermost line of the port that it names."""
    found = _SOURCE.findall(text)
    place = f" [{found[-1][0]} {found[-1][1].strip()}]" if found else ""
    return " ".join(text.partition("\n\n---")[0].split())[:300] + place


def culprit(text: str) -> str:
    """The port whose code an error names last; "" where it names none."""
    found = re.findall(r"In file .*/(s_\w+)/\w+\.py", text)
    return str(found[-1]) if found else ""


def source(cases: list[dict[str, Any]], gradient: bool) -> str:
    """The cell that calls all ports and, for the gradient, sums their projected outputs."""
    lines = ["import mindspore as ms", "from mindspore import nn, ops", "", "", "class Batch(nn.Cell):"]
    lines += ["    def __init__(self, cells, projections):", "        super().__init__()"]
    lines += ["        self.projections = projections"]
    lines += [f"        self.c{i} = cells[{i}]" for i in range(len(cases))]
    count = sum(len(case["inputs"]) for case in cases)
    lines += ["", f"    def construct({', '.join(['self', *(f'i{i}' for i in range(count))])}):"]
    position = leaf = 0
    terms = []
    for index, case in enumerate(cases):
        names = ", ".join(f"i{position + k}" for k in range(len(case["inputs"])))
        position += len(case["inputs"])
        lines.append(f"        o{index} = self.c{index}({names})")
        for path, projection in zip(case["paths"], case["projections"], strict=True):
            if projection is not None:
                out, by = f"o{index}{path}", f"self.projections[{leaf}]"
                if projection.ndim > _ndim(case, path):
                    terms += [f"(ops.real({out}) * {by}[..., 0]).sum()", f"(ops.imag({out}) * {by}[..., 1]).sum()"]
                else:
                    terms.append(f"({out}.astype(ms.float32) * {by}).sum()")
            leaf += 1
    outputs = "".join(f"({''.join(f'o{i}{path}, ' for path in case['paths'])}), " for i, case in enumerate(cases))
    if gradient:
        lines += ["        loss = ms.Tensor(0.0, ms.float32)", *(f"        loss = loss + {term}" for term in terms)]
    lines.append(f"        return loss, ({outputs})" if gradient else f"        return ({outputs})")
    return "\n".join(lines) + "\n"


def _ndim(case: dict[str, Any], path: str) -> int:
    return int(case["outputs"][case["paths"].index(path)][0].ndim)


def run(folder: str, cases: list[dict[str, Any]], gradient: bool) -> list[dict[str, Any]]:
    """Outputs, gradients and buffers of each case."""
    import mindspore as ms

    ms.set_context(mode=ms.GRAPH_MODE)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    cells, parameters = [], []
    for case in cases:
        package = importlib.import_module(case["package"])
        cell = package.build_model()
        if cell.parameters_dict():
            package.load_weights(cell, f"{folder}/{case['package']}/weights.safetensors")
        cells.append(cell)
        parameters.append([(p.name, p) for p in cell.trainable_params()])
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "batch.py"
        file.write_text(source(cases, gradient), encoding="utf-8")
        spec = importlib.util.spec_from_file_location(f"batch_{abs(hash(name))}", file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        projections = tuple(None if p is None else ms.Tensor(p) for case in cases for p in case["projections"])
        net = module.Batch(cells, projections)
        net.set_train(False)
        for cell, case in zip(cells, cases, strict=True):
            cell.set_train(case["training"])
        net.init_parameters_data()
        arrays = [array for case in cases for array in case["inputs"]]
        wanted = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]
        tensors = [ms.Tensor(array) for array in arrays]
        flat = [p for group in parameters for _, p in group]
        by_input: Any = ()
        by_weight: Any = ()
        if gradient and (wanted or flat):
            function = ms.value_and_grad(net, tuple(wanted) or None, flat or None, has_aux=True)
            (_, outputs), found = function(*tensors)
            by_input, by_weight = found if wanted and flat else (found, ()) if wanted else ((), found)
            by_input = by_input if isinstance(by_input, (tuple, list)) else [by_input]
            by_weight = by_weight if isinstance(by_weight, (tuple, list)) else [by_weight]
        else:
            outputs = net(*tensors)
            outputs = outputs[1] if gradient else outputs
    places = dict(zip(wanted, by_input, strict=False))
    weights = iter(by_weight)
    results = []
    start = 0
    for index, case in enumerate(cases):
        results.append(
            {
                "outputs": [numeric(leaf) for leaf in outputs[index]],
                "inputs": {k: numeric(places[start + k]) for k in range(len(case["inputs"])) if start + k in places},
                "parameters": {name: numeric(g) for (name, _), g in zip(parameters[index], weights, strict=False)},
                "buffers": {name: _buffer(cells[index], name) for name in case["buffers"]},
            }
        )
        start += len(case["inputs"])
    return results


def _buffer(cell: Any, name: str) -> Any:
    for owner, one in cell.parameters_and_names():
        if owner == name or one.name == name:
            return one.asnumpy()
    return next((b.asnumpy() for n, b in cell.named_buffers() if n == name), None)


if __name__ == "__main__":
    main()
