"""The torch side of ``--compare``: runs a script with drawn numbers that the other side can repeat, and keeps its first weights.

``python -m ms_port.script.replay_torch FOLDER SCRIPT ARGS...``. Only ms_port.script.compare starts it.
"""

from __future__ import annotations

import copy
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ms_port.script.compare import NOISE
from ms_port.script.draws import Draws, seed_python
from ms_port.script.shown import show_torch
from ms_port.script.torch_draws import repeatable


def main(folder: str, script: str, arguments: list[str]) -> None:
    import torch

    torch.set_num_threads(1)
    root = Path(script).resolve().parent
    draws = Draws(root)
    repeatable(torch, draws)
    show_torch(torch)
    _weights(torch, Path(folder), draws)
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(root))
    seed_python()
    torch.manual_seed(0)  # a second run has the same first weights
    runpy.run_path(script, run_name="__main__")


def _weights(torch: Any, folder: Path, draws: Draws) -> None:
    """The first state of each model, under MindSpore's names, when it is first used."""
    from ms_port.opmap import OpMap
    from ms_port.weights.rules import RULES

    op_map = OpMap.load()
    seen: set[int] = set()
    kept: list[Any] = []
    noise = torch.Generator()
    taken = 0

    def holds(module: Any) -> bool:
        own = [*module._parameters.values(), *module._buffers.values()]
        return any(t is not None for t in own) and not isinstance(module, torch.optim.swa_utils.AveragedModel)

    def named(module: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for path, inner in module.named_modules():
            if not holds(inner):
                continue
            own = [*inner._parameters.items(), *((k, b) for k, b in inner._buffers.items())]
            row = next(
                (
                    op_map.row(f"torch.nn.{c.__name__}")
                    for c in type(inner).__mro__
                    if c.__module__.startswith("torch.nn") and op_map.row(f"torch.nn.{c.__name__}")
                ),
                None,
            )
            for name, tensor in own:
                if tensor is None:
                    continue
                array = tensor.detach().numpy()
                try:
                    rule = row.weight(name) if row is not None else None
                except KeyError:
                    rule = None
                if rule is not None and rule.mindspore is None:
                    continue
                if rule is not None:
                    name, array = str(rule.mindspore), RULES[rule.rule].forward(array) if rule.rule != "same" else array
                found[f"{path}.{name}" if path else name] = np.array(array)
        return found

    def snapshot(module: Any, used: bool = True) -> None:
        """Keep the state; until a model is called, each look at it is kept anew, since it may be initialised in between."""
        nonlocal taken
        holders = [inner for inner in module.modules() if holds(inner)]
        if id(module) in seen and all(id(inner) in seen for inner in holders):  # else it got another layer
            return
        if any(isinstance(p, torch.nn.parameter.UninitializedParameter) for p in module.parameters()):
            return
        kept.append(module)
        if holders and all(id(inner) in seen for inner in holders):  # a wrapper around what is in use
            seen.add(id(module))
            return
        if used:
            seen.update(id(inner) for inner in module.modules())
        state = named(module)
        if state:
            np.savez(folder / f"{taken}.npz", **state)
            taken += 1
        if used and (folder / NOISE).exists():
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.mul_(1 + 1e-7 * torch.randn(parameter.shape, generator=noise))

    torch.nn.modules.module.register_module_forward_pre_hook(lambda module, _: snapshot(module))
    for name in ("state_dict", "named_parameters", "parameters"):
        original = getattr(torch.nn.Module, name)

        def triggered(self: Any, *args: Any, original: Any = original, **options: Any) -> Any:
            if draws.from_script():
                snapshot(self, False)
            return original(self, *args, **options)

        setattr(torch.nn.Module, name, triggered)
    deepcopy = copy.deepcopy

    def copied(item: Any, memo: Any = None) -> Any:
        if isinstance(item, torch.nn.Module):
            snapshot(item, False)
            made = deepcopy(item, memo)
            kept.append(made)
            seen.update(id(inner) for inner in made.modules())
            return made
        return deepcopy(item, memo)

    copy.deepcopy = torch.optim.swa_utils.deepcopy = copied  # type: ignore[assignment]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
