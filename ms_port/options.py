"""The options of ``ms-port convert``, parsed and loaded into a request; ``port.yaml`` files hold the same options."""

from __future__ import annotations

import random
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ms_port.conversion import Request
from ms_port.errors import BadInput, one_line, raised_at
from ms_port.inputs import InputSpec, example_tensors, parse_specs, parse_static
from ms_port.target import load_arguments, load_object, load_target, parse_arguments, parse_target

if TYPE_CHECKING:
    from ms_port.capture import Inputs


@dataclass(frozen=True)
class ConvertOptions:
    """The options by their names on the command line; relative files count from ``base``."""

    target: str
    out: Path
    input: tuple[str, ...] = ()
    inputs: str | None = None
    weights: Path | None = None
    arg: tuple[str, ...] = ()
    static: str | None = None
    platform: str = "cpu"
    op_map: tuple[Path, ...] = ()
    freeze: bool = False
    verify: bool = True
    name: str | None = None
    dump_ir: str | None = None
    diff: bool = False
    base: Path | None = None
    """None: the working folder."""
    shown_out: Path | None = None
    """OUT as the banners show it, where that is not ``out``."""

    def command(self) -> str:
        """The command that makes the same port again, as the banners show it."""
        words = ["ms-port", "convert", self.target, "-o", str(self.shown_out or self.out)]
        words += [word for text in self.arg for word in ("--arg", text)]
        words += [word for text in self.input for word in ("--input", text)]
        single = {"--inputs": self.inputs, "--weights": self.weights, "--static": self.static, "--name": self.name}
        words += [word for option, value in single.items() if value is not None for word in (option, str(value))]
        words += [word for folder in self.op_map for word in ("--op-map", str(folder))]
        words += ["--target", self.platform] if self.platform != "cpu" else []
        return shlex.join(words + (["--freeze"] if self.freeze else []))

    def request(self) -> Request:
        """Parse and load all that the options name. Raises BadInput."""
        if self.inputs is not None and self.input:
            raise BadInput("--input and --inputs are given both", where="--inputs", advice="keep one of the two")
        if self.inputs is None and not self.input:
            raise BadInput(
                "no example inputs are given",
                where="--input",
                advice="--input 'x:float32[batch=8,3,224,224]' for each tensor of forward, or --inputs FILE.py:FUNC",
            )
        if self.weights is not None and not self.weights.exists():
            raise BadInput(f"there is no file or folder {self.weights}", where="--weights", advice="check the path")
        _seed()  # weights, example inputs and the values that Python reads from them: the same in every run
        sizes = parse_static(self.static)
        specs = parse_specs(self.input, sizes if self.input else None)
        texts = parse_arguments(self.arg)
        return Request(
            target=load_target(parse_target(self.target, self.base)),
            inputs=self._inputs(specs),
            out=self.out,
            target_text=self.target,
            arguments=load_arguments(texts, self.base),
            arguments_text=texts,
            specs=specs,
            inputs_text=self.inputs,
            static=sizes,
            weights=self.weights,
            platform=self.platform,
            op_maps=self.op_map,
            freeze=self.freeze,
            level="forward" if self.verify else "none",
            name=self.name,
            command=self.command(),
            dump_ir=self.dump_ir,
            diff=self.diff,
            base=self.base,
        )

    def _inputs(self, specs: tuple[InputSpec, ...]) -> Inputs:
        from ms_port.capture import Inputs

        if self.inputs is None:
            return Inputs((), dict(example_tensors(specs)))
        make = load_object(self.inputs, self.base)
        if not callable(make):
            raise BadInput(
                f"{self.inputs} is no function", where="--inputs", advice="name a function that returns the inputs"
            )
        try:
            made = make()
        except Exception as error:
            where = raised_at(error, parse_target(self.inputs, self.base).file)
            advice = "it is called without arguments and returns args or (args, kwargs)"
            raise BadInput(f"{self.inputs} raised {one_line(error)}", where=where, advice=advice) from error
        return Inputs(*split_inputs(made))


def _seed() -> None:
    """Set torch's, numpy's and Python's random generators."""
    import numpy
    import torch

    torch.manual_seed(0)
    numpy.random.seed(0)
    random.seed(0)


def split_inputs(made: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What an ``--inputs`` function returned, as args and kwargs: (args, kwargs), a dict, args, or one tensor."""
    if isinstance(made, Mapping):
        return (), dict(made)
    if not isinstance(made, tuple | list):
        return (made,), {}
    if len(made) == 2 and isinstance(made[0], tuple | list) and isinstance(made[1], Mapping):
        return tuple(made[0]), dict(made[1])
    return tuple(made), {}


def gallery_options(folder: Path, out: Path, verify: bool = True) -> list[ConvertOptions]:
    """The ports that ``folder/port.yaml`` describes, each to ``out`` (several: to folders in it, by name).

    Files are named relative to ``folder``, so that the banners are the same wherever the checkout lies.
    """
    ports = yaml.safe_load((folder / "port.yaml").read_text(encoding="utf-8"))["ports"]
    return [
        ConvertOptions(
            target=port["target"],
            out=out if len(ports) == 1 else out / port["name"],
            input=tuple(port.get("input", ())),
            inputs=port.get("inputs"),
            arg=tuple(port.get("arg", ())),
            static=port.get("static"),
            freeze=port.get("freeze", False),
            verify=verify,
            name=port["name"],
            base=folder,
            shown_out=Path("ported"),
        )
        for port in ports
    ]
