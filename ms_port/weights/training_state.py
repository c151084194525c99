"""A torch training checkpoint (model, optimizer, scheduler) as one that ``train.py --resume`` goes on from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ms_port.weights.checkpoint import WeightsError, read_torch_file, read_unwrapped
from ms_port.weights.convert import ParameterRow, apply_rule, convert, fit_names
from ms_port.weights.write import replacing, write_safetensors

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

OPTIMIZERS = ("optimizer", "optimizer_state_dict", "optim", "optimizer_states")
SCHEDULERS = ("scheduler", "lr_scheduler", "scheduler_state_dict", "lr_schedulers")
STEPS = ("global_step", "step", "steps", "iteration", "iter")
_MOMENTS = {
    ("exp_avg", "exp_avg_sq"): {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"},
    ("square_avg",): {"square_avg": "mean_square", "momentum_buffer": "moment", "grad_avg": "mean_grad"},
    ("sum",): {"sum": "accum"},
    ("momentum_buffer",): {"momentum_buffer": "accum"},
}
"""What torch keeps for a parameter -> what ``mindspore.experimental.optim`` calls it; the first that fits."""


def convert_training_state(source: Path, folder: Path, rows: Sequence[ParameterRow]) -> tuple[int, tuple[str, ...]]:
    """Write ``step_N.safetensors`` and ``step_N.state.npz`` into ``folder``; returns N and notes.

    Raises WeightsError: no optimizer in the file, or none that ``train.py`` has; parameters that are not the port's;
    groups whose order is not known.
    """
    loaded = read_torch_file(source)
    if not isinstance(loaded, Mapping):
        raise WeightsError(
            f"{source}: holds no dictionary with a model and an optimizer", "Name a training checkpoint."
        )
    key = next((k for k in OPTIMIZERS if k in loaded), None)
    state = loaded[key] if key else None
    state = state[0] if isinstance(state, list | tuple) and state else state
    if not isinstance(state, Mapping) or not {"state", "param_groups"} <= state.keys():
        raise WeightsError(
            f"{source}: there is no optimizer in it (it holds {', '.join(map(str, loaded))[:200]})",
            "Name a .safetensors file as DST to convert the weights alone.",
        )
    _check_kind(source, state)
    owners = _owners(source, state, [row for row in rows if row.kind == "parameter"])
    arrays, steps = dict[str, "NDArray[Any]"](), set[int]()
    for number, values in state["state"].items():
        arrays.update(_moments(owners[int(number)], values))
        if "step" in values:
            steps.add(int(values["step"]))
    step = next((int(loaded[k]) for k in STEPS if isinstance(loaded.get(k), int)), max(steps, default=0))
    if not state["state"]:  # plain SGD keeps nothing
        arrays.update(_first_step(row) for row in owners.values() if row.mindspore is not None)
    first: Mapping[str, Any] = next(iter(state["state"].values()), {})
    if "exp_avg" in first:
        arrays["state_step"] = np.asarray(max(steps), np.int32)
    elif "sum" in first:
        arrays["step_t"] = np.asarray(max(steps), np.int32)
    facts = {"step": step, "best": float("inf"), "schedule": _schedule(loaded), "from": "torch"}
    weights = fit_names(read_unwrapped(loaded, source), [r.torch for r in rows if r.rule not in ("drop", "tied")])
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / f"step_{step}.state.npz") as file, file.open("wb") as out:
        np.savez(out, __facts__=np.array(json.dumps(facts)), **arrays)
    write_safetensors(folder / f"step_{step}.safetensors", convert(weights.tensors, rows))
    groups = [{k: v for k, v in g.items() if k != "params"} for g in state["param_groups"]]
    return step, (*weights.notes, *_said(groups))


def _check_kind(source: Path, state: Mapping[str, Any]) -> None:
    """Raise WeightsError where the optimizer remembers what ``train.py`` has no place for."""
    advice = "Name a .safetensors file as DST to convert the weights alone."
    if not state["state"] and not all("nesterov" in group for group in state["param_groups"]):
        raise WeightsError(f"{source}: its optimizer has not taken a step yet", advice)
    for values in state["state"].values():
        kind = next((k for k in _MOMENTS if set(k) <= values.keys()), None)
        known = {"step", *(_MOMENTS[kind] if kind else ())}
        extra = sorted(k for k, v in values.items() if k not in known and v is not None)
        if extra or kind is None or ("exp_avg" in values and "step" not in values):
            kept = ", ".join(map(str, values)) or "nothing"
            raise WeightsError(f"{source}: its optimizer is none that train.py has (it keeps {kept})", advice)


def _owners(source: Path, state: Mapping[str, Any], rows: Sequence[ParameterRow]) -> dict[int, ParameterRow]:
    """The parameter behind each number of an optimizer's state.

    torch numbers parameters in the order of the groups. One group is the model's order; several are known by their
    names where torch saved them, or where they are the two usual ones (decay, and none for one dimension).
    """
    groups = state["param_groups"]
    numbers = [n for group in groups for n in group["params"]]
    own = [row for row in rows if row.rule != "tied"]
    named = {row.torch: row for row in own}
    if all("param_names" in group for group in groups):
        names = [name.removeprefix("module.").replace("_orig_mod.", "") for g in groups for name in g["param_names"]]
        if set(names) <= named.keys():
            return dict(zip(numbers, (named[name] for name in names), strict=True))
    orders = [own, [r for r in own if len(r.shape) > 1] + [r for r in own if len(r.shape) <= 1]]
    for order in orders[: 1 if len(groups) == 1 else 2]:
        found = dict(zip(numbers, order, strict=False))
        if len(numbers) == len(order) and all(_fits(found[int(n)], values) for n, values in state["state"].items()):
            return found
    raise WeightsError(
        f"{source}: its optimizer's {len(numbers)} parameters in {len(groups)} groups are not told apart "
        f"(the port has {len(own)})",
        "Save it from an optimizer that was given model.named_parameters(): then torch saves the names too.",
    )


def _fits(row: ParameterRow, values: Mapping[str, Any]) -> bool:
    shapes = [tuple(v.shape) for k, v in values.items() if hasattr(v, "shape") and k != "step"]
    return all(shape == row.shape for shape in shapes)


def _moments(row: ParameterRow, values: Mapping[str, Tensor]) -> Iterator[tuple[str, NDArray[Any]]]:
    """(name in the port's state, array) of one parameter, in the port's layout."""
    kind = next((k for k in _MOMENTS if set(k) <= values.keys()), None)
    if row.mindspore is None or kind is None:
        return
    for name, target in _MOMENTS[kind].items():
        if values.get(name) is not None:
            yield f"{target}.{row.mindspore}", apply_rule(row.rule, values[name]).float().numpy()
    if kind == ("momentum_buffer",):
        name, waits = _first_step(row)
        yield name, 0 * waits


def _first_step(row: ParameterRow) -> tuple[str, NDArray[Any]]:
    """What SGD keeps before its first step: ones say that the momentum is yet to be filled with the first gradient."""
    import torch

    return f"stat.{row.mindspore}", apply_rule(row.rule, torch.ones(row.shape)).numpy()


def _schedule(loaded: Mapping[str, Any]) -> dict[str, Any]:
    """What ReduceLROnPlateau remembers; other schedules follow from the step."""
    key = next((k for k in SCHEDULERS if isinstance(loaded.get(k), Mapping)), None)
    found = loaded[key] if key else {}
    plateau = {"factor": 1.0, "best": float("inf"), "waited": 0}
    if "num_bad_epochs" in found:
        plateau |= {"best": float(found["best"]), "waited": int(found["num_bad_epochs"])}
    return {"plateau": plateau, "losses": []}


def _said(groups: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The options that config.yaml has to repeat."""
    for number, group in enumerate(groups):
        plain = {k: v for k, v in group.items() if isinstance(v, int | float | tuple | list) and k != "param_names"}
        yield f"optimizer group {number}: " + ", ".join(f"{k}={v}" for k, v in plain.items())
