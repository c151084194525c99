"""The training files of a port: which loss fits the model's outputs, and the files rendered from ``templates/``."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ms_port.ir.values import DictValue, ObjectValue, SequenceValue, TensorValue, Value, holds_tensor
from ms_port.resources import render

Loss: TypeAlias = Literal["cross_entropy", "token_cross_entropy", "mse", "output"]
FILES = (
    "train.py",
    "eval.py",
    "infer.py",
    "losses.py",
    "text_data.py",
    "metrics.py",
    "optimization.py",
    "checkpoints.py",
    "distribution.py",
    "dataset.py",
    "config.yaml",
    "launch.sh",
)
_TEXTS: dict[Loss, str] = {
    "cross_entropy": "As generated: cross entropy of the logits with class indices, (batch).",
    "token_cross_entropy": "As generated: cross entropy at every position, (batch, length).",
    "mse": "As generated: mean squared distance to a target of the output's shape.",
    "output": "The model's own loss.",
}


_OTHERS = re.compile("mask|position|type|segment|label|length|target")
"""In names of integer inputs that are no token ids."""


@dataclass(frozen=True, slots=True)
class TrainInput:
    """One parameter of ``construct``; ``name`` dotted where it stands inside a container (``features.0``)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    keyword: bool = False
    dims: tuple[str | None, ...] = ()
    """Labels of the dimensions (``batch``, ``seq``)."""
    limit: int | None = None
    """Of integers: they lie below it."""


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """Which outputs the loss reads, and the target it needs."""

    loss: Loss
    outputs: tuple[str, ...]
    """How each is reached from the output: ``""``, ``[0]``, ``["logits"][1]``."""
    target_shape: tuple[int, ...] | None
    target_dtype: str
    classes: int | None
    shape: tuple[int, ...] | None = None
    """Of the output that the loss reads."""

    @property
    def class_axis(self) -> int:
        """Dimension of the classes, where the output has them: the last of tokens, else torch's, the second."""
        return -1 if self.loss == "token_cross_entropy" else 1


def plan_training(output: Value, inputs: Sequence[TrainInput]) -> TrainingPlan:
    """Choose a loss for what the model returns in training.

    - A float scalar among the outputs is taken as the model's own loss.
    - (batch, classes) with more than one class: cross entropy. So is (batch, length, classes) where the model reads
      integers of shape (batch, length).
    - Anything else: mean squared error with a target of the first float output's shape.

    Outputs of the first one's shape (auxiliary heads) count too.
    """
    floats = [(place, value) for place, value in _leaves(output) if "float" in value.dtype]
    scalars = [place for place, value in floats if value.shape == ()]
    if scalars:
        return TrainingPlan("output", (scalars[0],), None, "float32", None)
    if not floats:
        raise ValueError("the model returns no float tensor that a loss could read")
    shape = floats[0][1].shape
    places = tuple(place for place, value in floats if value.shape == shape)
    if len(shape) == 2 and shape[1] > 1:
        return TrainingPlan("cross_entropy", places, shape[:1], "int32", shape[1], shape)
    tokens = any("int" in i.dtype and i.shape == shape[:2] for i in inputs)
    if len(shape) == 3 and shape[2] > 1 and tokens:
        return TrainingPlan("token_cross_entropy", places, shape[:2], "int32", shape[2], shape)
    return TrainingPlan("mse", places, shape, "float32", None, shape)


def _leaves(value: Value, place: str = "") -> Iterator[tuple[str, TensorValue]]:
    match value:
        case TensorValue():
            yield place, value
        case SequenceValue(items=items):
            for i, item in enumerate(items):
                yield from _leaves(item, f"{place}[{i}]")
        case DictValue(items=pairs):
            for key, item in pairs:
                name = str(key) if isinstance(key, int) else f'"{key}"'
                yield from _leaves(item, f"{place}[{name}]")
        case ObjectValue(kind="output", fields=fields):  # a tuple in the port, without what holds no tensor
            for i, (_, item) in enumerate(f for f in fields if holds_tensor(f[1])):
                yield from _leaves(item, f"{place}[{i}]")
        case _:
            return


def write_training_files(
    out: Path,
    *,
    package: str,
    model: str,
    banner: str,
    inputs: Sequence[TrainInput],
    plan: TrainingPlan,
    evaluation: TrainingPlan | None = None,
    device: str = "CPU",
) -> tuple[str, ...]:
    """Render train.py, dataset.py, config.yaml and the other training files into ``out``; returns their names.

    ``evaluation``: the plan for what the model returns in evaluation mode, where that differs from training.
    """
    context = _context(package, model, banner, inputs, plan, evaluation or plan, device)
    unused = {"losses.py": plan.loss == "output", "text_data.py": not context["text"]}
    files = tuple(file for file in FILES if not unused.get(file))
    for file in files:
        (out / file).write_text(render(f"{file}.j2", **context), encoding="utf-8")
    (out / "launch.sh").chmod(0o755)
    format_python([out / file for file in files if file.endswith(".py")])
    return files


def _context(
    package: str,
    model: str,
    banner: str,
    inputs: Sequence[TrainInput],
    plan: TrainingPlan,
    evaluation: TrainingPlan,
    device: str,
) -> dict[str, object]:
    parameters: dict[str, bool] = {}
    for item in inputs:
        parameters.setdefault(item.name.partition(".")[0], item.keyword)
    classifies = plan.loss in ("cross_entropy", "token_cross_entropy")
    single = "logits" if classifies else "prediction"
    names = [single] if len(plan.outputs) == 1 else [f"{single}_{i}" for i in range(len(plan.outputs))]
    fields = [*(i.name for i in inputs), *(["target"] if plan.target_shape is not None else [])]
    axis, tokens = plan.class_axis, _token_input(inputs) if plan.loss != "mse" else None
    return {
        "package": package,
        "model": model,
        "banner": banner,
        "loss": plan.loss,
        "loss_text": _TEXTS[plan.loss],
        "config_loss": "cross_entropy" if classifies else "mse",
        "outputs": plan.outputs,
        "names": names,
        "classifies": classifies,
        "evaluation": evaluation,
        "output_shape": plan.shape,
        "rank": len(plan.shape or ()),
        "class_axis": axis,
        "classes_last": lambda name: name if axis == -1 else f"ops.movedim({name}, 1, -1)",
        "mixes": plan.loss == "cross_entropy" and _is_picture(inputs),
        "input_names": [i.name for i in inputs],
        "parameters": list(parameters),
        "call": [f"{name}={name}" if keyword else name for name, keyword in parameters.items()],
        "nested": any("." in i.name for i in inputs),
        "batch_text": f"({', '.join(fields)}{',' if len(fields) == 1 else ''})",
        "batch": _batch_size(inputs),
        "rows": _rows_of_a_batch(inputs, plan),
        "target": plan.target_shape is not None,
        "text": tokens is not None,
        "ids": tokens.name if tokens else None,
        "seq": tokens.shape[1] if tokens else None,
        "labelled": plan.loss == "cross_entropy",
        "device": device,
        "optimizer": "adamw",
        "learning_rate": 0.001,
        "weight_decay": 0.01,
    }


def _rows_of_a_batch(inputs: Sequence[TrainInput], plan: TrainingPlan) -> str:
    """Expression for the number of samples of ``batch``: the target's, else those of the first plain input."""
    if plan.target_shape is not None:
        return "batch[-1].shape[0]"
    names = list(dict.fromkeys(i.name.partition(".")[0] for i in inputs))
    plain = [names.index(i.name) for i in inputs if "." not in i.name and i.shape]
    return f"batch[{plain[0]}].shape[0]" if plain else "1"


def _batch_size(inputs: Sequence[TrainInput]) -> int:
    """The size labelled ``batch``, else the first dimension of the first input."""
    labelled = [size for i in inputs for size, label in zip(i.shape, i.dims, strict=False) if label == "batch"]
    return next(iter(labelled + [i.shape[0] for i in inputs if i.shape]), 1)


def _is_picture(inputs: Sequence[TrainInput]) -> bool:
    """Whether the model reads pictures alone: float (batch, channels, height, width)."""
    return len(inputs) == 1 and "float" in inputs[0].dtype and len(inputs[0].shape) == 4


def _token_input(inputs: Sequence[TrainInput]) -> TrainInput | None:
    """The integers (batch, length) that token ids go into: of several the one named so, else the first."""
    integers = [i for i in inputs if "int" in i.dtype and len(i.shape) == 2 and i.limit != 2]
    found = [i for i in integers if not _OTHERS.search(i.name.lower())]
    return next((i for i in found if i.name.lower().endswith("ids")), found[0] if found else None)


def format_python(files: Sequence[Path]) -> None:
    """Format files in place with ruff, the same for everyone: no configuration of the surroundings is read."""
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", "120", "--quiet"]
    subprocess.run([*command, *map(str, files)], check=True)
