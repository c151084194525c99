"""What verification needs of a port: its ``port.json``, the torch model it came from, and the weights of both."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ms_port.errors import BadInput
from ms_port.inputs import Dim, InputSpec, example_tensors
from ms_port.target import load_arguments, load_object, load_target, parse_target
from ms_port.verify.noise import numbers, perturb
from ms_port.verify.torch_side import tensors
from ms_port.weights import LazyTensors, ParameterRow, convert, module_state, read_checkpoint


@dataclass(frozen=True)
class CellPair:
    """A module of the torch model and the cell of the port that stands for it."""

    path: str
    cell: str
    cls: str


@dataclass(frozen=True)
class Inputs:
    """Arguments of one forward call, as torch code passes them."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def tensors(self) -> list[Tensor]:
        """All tensors, positional ones first."""
        return tensors((self.args, dict(self.kwargs)))

    def call(self, model: nn.Module, double: bool = False, leaves: dict[int, Tensor] | None = None) -> Any:
        """Call the model; float tensors as float64 if ``double``. In-place writes do not reach these inputs.

        ``leaves`` is filled with the float tensors to differentiate by, by their index in ``tensors()``.
        """
        order = {id(t): i for i, t in enumerate(self.tensors())}

        def fresh(tensor: Tensor) -> Tensor:
            wider = double and tensor.is_floating_point()
            copy = tensor.detach().to(torch.float64 if wider else tensor.dtype, copy=True)
            if leaves is None or not tensor.is_floating_point():
                return copy
            leaves[order[id(tensor)]] = copy.requires_grad_()
            return copy.clone()  # forward may write into what it is given

        args, kwargs = mapped((self.args, dict(self.kwargs)), fresh)
        return model(*args, **kwargs)

    def with_tensor(self, index: int, tensor: Tensor) -> Inputs:
        """The same arguments with one of ``tensors()`` replaced."""
        old = self.tensors()[index]
        args, kwargs = mapped((self.args, dict(self.kwargs)), lambda t: tensor if t is old else t)
        return Inputs(args, kwargs)

    def varied(self, number: int) -> Inputs:
        """Another batch of the same kind, the same for the same number.

        Floats get noise of a third of their spread, unless they take three values or fewer (masks). Integers are rolled
        along their last axis, unless they are only 0 and 1; so they stay in their range.
        """
        counter = count()

        def change(tensor: Tensor) -> Tensor:
            index = next(counter)
            if tensor.is_complex() or tensor.numel() < 4 or tensor.dtype == torch.bool:
                return tensor
            if not tensor.is_floating_point():
                return tensor.roll(number, -1) if tensor.ndim and int(tensor.abs().max()) > 1 else tensor
            values = tensor.float()
            if not bool(torch.isfinite(values).all()) or len(torch.unique(values.flatten()[:1000])) <= 3:
                return tensor
            noise = torch.from_numpy(numbers(f"batch {number}", index, "normal", tensor.shape))
            return (values + values.std() * noise / 3).to(tensor.dtype)

        args, kwargs = mapped((self.args, dict(self.kwargs)), change)
        return Inputs(args, kwargs)

    def named(self, model: nn.Module) -> dict[str, Any]:
        """By forward's parameter names, in its order; only arguments that hold a tensor."""
        bound = inspect.signature(model.forward).bind(*self.args, **self.kwargs).arguments
        named: dict[str, Any] = {}
        for name, value in bound.items():
            kind = inspect.signature(model.forward).parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                named.update({f"{name}.{i}": v for i, v in enumerate(value)})
            elif kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            else:
                named[name] = value
        return {name: value for name, value in named.items() if tensors(value)}


def mapped(value: Any, change: Any) -> Any:
    """The same nesting with every tensor changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(v, change) for v in value))
    if type(value) in (tuple, list):
        return type(value)(mapped(v, change) for v in value)
    if isinstance(value, dict):
        return {k: mapped(v, change) for k, v in value.items()}
    return value


@dataclass(frozen=True)
class Port:
    """A folder written by ``convert``."""

    out: Path
    json: Mapping[str, Any]

    @staticmethod
    def read(out: str | Path) -> Port:
        """Read ``port.json``; raises BadInput where there is none."""
        out = Path(out).resolve()
        try:
            content = json.loads((out / "port.json").read_text())
            if not (out / content["package"]).is_dir():
                raise BadInput(f"{out} lacks the package {content['package']}", advice="convert the model again")
        except FileNotFoundError as error:
            raise BadInput(f"{out} holds no port.json", advice="name a folder that ms-port convert wrote") from error
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{out / 'port.json'} can't be read: {error!r}", advice="convert the model again") from error
        return Port(out, content)

    @property
    def package(self) -> str:
        """Name of the Python package in the folder."""
        return str(self.json["package"])

    @cached_property
    def rows(self) -> tuple[ParameterRow, ...]:
        """How parameters correspond."""
        return tuple(map(ParameterRow.of, self.json["parameters"]))

    @cached_property
    def cells(self) -> tuple[CellPair, ...]:
        """How modules correspond; the root is in it, whether port.json lists it or not."""
        listed = [CellPair(c["path"], c["cell"], c.get("class", "")) for c in self.json.get("cells", ())]
        return tuple(listed if any(c.path == "" for c in listed) else [CellPair("", "", ""), *listed])

    @property
    def trained(self) -> bool:
        """The weights come from a checkpoint, so they need no noise."""
        return bool((self.json.get("options") or {}).get("weights"))

    def model(self) -> nn.Module:
        """Make the torch model again from the target; raises BadInput if that fails."""
        target = self.json.get("target")
        if not target:
            raise BadInput(
                "this port came from a model built in Python, which port.json can't make again",
                where=str(self.out),
                advice="call ms_port.verify(out, model=model, inputs=...) where the model is",
            )
        found = load_target(parse_target(str(target), self.out))
        if isinstance(found, nn.Module):
            return found
        made = found(**load_arguments(self.json.get("arguments") or {}, self.out))
        if not isinstance(made, nn.Module):
            raise BadInput(f"{target} gave a {type(made).__name__}, not a torch.nn.Module", where=str(self.out))
        return made

    def inputs(self, seed: int = 0) -> Inputs:
        """Example inputs: of the function that port.json names, else seeded by the specifications."""
        if source := self.json.get("inputs_from"):
            make = load_object(str(source), self.out)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                return as_inputs(make())
        specs = [_spec(row) for row in self.json["inputs"]]
        return Inputs((), example_tensors(specs, seed))

    def weights(self, model: nn.Module) -> LazyTensors:
        """The port's parameters by their MindSpore names: of weights.safetensors, else the model's own."""
        file = self.out / "weights.safetensors"
        if file.is_file():
            return read_checkpoint(file).tensors
        return LazyTensors.of(dict(convert(module_state(model, self.rows), self.rows)))

    def kinds(self, model: nn.Module) -> dict[str, str]:
        """What each parameter of the port is, in the words of ``noise.KINDS``."""
        trainable = {name for name, _ in model.named_parameters(remove_duplicate=False)}
        normed = {name.rpartition(".")[0] for name, _ in model.named_buffers() if name.endswith("running_mean")}
        kinds: dict[str, str] = {}
        for row in self.rows:
            if row.mindspore is None or row.rule == "tied":
                continue
            owner, _, last = row.torch.rpartition(".")
            statistic = {"running_mean": "mean", "running_var": "variance"}.get(last, "fixed")
            # A frozen normalisation keeps its scale in buffers, and they are as easily lost.
            frozen = owner in normed and last in ("weight", "bias")
            kinds[row.mindspore] = "parameter" if row.torch in trainable or frozen else statistic
        return kinds


def as_inputs(value: Any) -> Inputs:
    """What an ``--inputs`` function returns: args, (args, kwargs), or one tensor."""
    if isinstance(value, Inputs):
        return value
    if isinstance(value, Mapping):
        return Inputs((), dict(value))
    pair = isinstance(value, Sequence) and len(value) == 2
    if pair and isinstance(value[1], Mapping) and isinstance(value[0], (tuple, list)):
        return Inputs(tuple(value[0]), dict(value[1]))
    return Inputs(tuple(value) if isinstance(value, (tuple, list)) else (value,), {})


def _spec(row: Mapping[str, Any]) -> InputSpec:
    labels = row.get("dims") or [None] * len(row["shape"])
    dims = tuple(Dim(size, label) for size, label in zip(row["shape"], labels, strict=True))
    return InputSpec(row["name"], row["dtype"], dims, row.get("range"))


def noisy_weights(weights: LazyTensors, kinds: Mapping[str, str], seed: int) -> dict[str, Tensor]:
    """All parameters of the port with seeded noise on those that have no meaning of their own."""
    result: dict[str, Tensor] = {}
    for name in weights:
        tensor = weights[name]
        if tensor.dtype in (torch.float32, torch.float64):
            array = perturb(name, tensor.numpy(), kinds.get(name, "fixed"), seed)
            tensor = torch.from_numpy(np.ascontiguousarray(array).reshape(array.shape))  # it makes a vector of a scalar
        result[name] = tensor
    return result
