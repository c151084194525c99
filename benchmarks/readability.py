"""``python -m benchmarks.readability [MODEL ...]``: how the ports of 23 models read, into docs/readability.md.

Each model is built with random weights, small where a configuration allows it, and translated; nothing is run in
MindSpore. A model that the translation refuses, or leaves open, says so in its row.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch

from benchmarks.coverage_run import Example
from benchmarks.coverage_transformers import example
from benchmarks.gallery import MODELS
from benchmarks.readability_measure import Measures, measure
from ms_port.capture import Inputs, record
from ms_port.emit import Banner, write_package
from ms_port.opmap import OpMap
from ms_port.options import gallery_options
from ms_port.pipeline import Options, translate

PAGE = Path(__file__).resolve().parents[1] / "docs" / "readability.md"
TORCHVISION = (
    ("resnet50", 64), ("mobilenet_v3_small", 64), ("densenet121", 64), ("efficientnet_b0", 64), ("convnext_tiny", 64),
    ("swin_t", 224), ("vit_b_32", 224), ("shufflenet_v2_x1_0", 64),
)  # fmt: skip
TIMM = (
    ("vit_tiny_patch16_224", 224), ("convnext_atto", 64), ("mixer_s32_224", 224), ("resnet18", 64),
    ("deit_tiny_patch16_224", 224), ("poolformer_s12", 224),
)  # fmt: skip
TRANSFORMERS = (
    ("bert", "BertModel"), ("llama", "LlamaModel"), ("vit", "ViTModel"), ("distilbert", "DistilBertModel"),
    ("gpt2", "GPT2Model"), ("t5", "T5Model"),
)  # fmt: skip
GOLDEN = ("residual", "vision_transformer", "text_encoder")
Make = Callable[[], Example]


def models() -> Iterator[tuple[str, Make]]:
    """Name and maker of every model of the table."""
    for name in GOLDEN:
        yield name, partial(_gallery, name)
    for name, size in TORCHVISION:
        yield f"torchvision {name}", partial(_torchvision, name, size)
    for name, size in TIMM:
        yield f"timm {name}", partial(_timm, name, size)
    for kind, name in TRANSFORMERS:
        yield f"transformers {name}", partial(example, kind, name, "sdpa")


def _gallery(name: str) -> Example:
    with tempfile.TemporaryDirectory() as folder:
        options = gallery_options(MODELS / name, Path(folder) / "out", verify=False)[0]
        request = options.request()
    return Example(request.target, request.inputs.args, request.inputs.kwargs, request.arguments)


def _torchvision(name: str, size: int) -> Example:
    import torchvision

    return Example(getattr(torchvision.models, name), (torch.randn(2, 3, size, size),))


def _timm(name: str, size: int) -> Example:
    import timm

    return Example(timm.create_model, (torch.randn(2, 3, size, size),), arguments={"model_name": name})


def port(made: Example, op_map: OpMap) -> tuple[Measures, int]:
    """The measures, and how many flags are open. Raises what the translation raises."""
    recording = record(made.target, Inputs(made.args, dict(made.kwargs)), arguments=dict(made.arguments))
    program = translate(recording, op_map, Options("net"))
    with tempfile.TemporaryDirectory() as folder:
        write_package(program, op_map, Path(folder), Banner("", "", "", "", ""))
        text = (Path(folder) / "net" / "model.py").read_text(encoding="utf-8")
    return measure(program, text), sum(flag.open for flag in program.flags)


_HEAD = (
    "model", "source lines", "port", "ratio", "classes", "frozen / 100", "names", "statements", "longest", "duplicated",
    "flat", "open flags",
)  # fmt: skip


def row(name: str, found: Measures, flags: int) -> str:
    """One line of the table."""
    cells = [
        name, found.source_lines, found.lines, f"{found.ratio:.2f}", f"{found.classes} of {found.source_classes}",
        f"{found.frozen_share:.1f}", f"{found.names:.1%}", f"{found.statements:.2f}", found.longest,
        f"{found.duplicated} ({found.source_duplicated})", f"{found.flat:.1%}", flags,
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


_TEXT = """# How the ports read

Made by `python -m benchmarks.readability`. Lines are lines of code, without docstrings and comments. *source lines* are
those of the classes and functions that the port has, branches that never ran included; *port* is model.py without
imports, `build_model` and `load_weights`. *frozen*: numbers in a function that its source does not have. *names*: local
and attribute names that are the source's (those of MindSpore's own layers, such as `gamma`, aside). *statements*: for
each one that ran in the source. *duplicated*: lines in runs of six that occur again (in the source). *flat*: functions
made of traced calls. Aims: ratio at most 1.0, names at least 95%, flat below 3%.

"""


def main(arguments: list[str]) -> int:
    """Print the table; written into docs/ where all models were asked for."""
    op_map = OpMap.load()
    lines = ["| " + " | ".join(_HEAD) + " |", "| --- " + "| ---: " * (len(_HEAD) - 1) + "|"]
    print("\n".join(lines))
    for name, make in models():
        if arguments and not any(a in name for a in arguments):
            continue
        try:
            text = row(name, *port(make(), op_map))
        except Exception as error:  # a row says what went wrong; the others still count
            text = f"| {name} | {type(error).__name__}: {str(error)[:80]} |" + " |" * (len(_HEAD) - 2)
        print(text, flush=True)
        lines.append(text)
    if not arguments:
        PAGE.write_text(_TEXT + "\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
