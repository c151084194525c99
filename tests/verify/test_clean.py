"""Right ports are never called wrong: ten real models, each on many seeds of noise and inputs.

``python tests/verify/test_clean.py [SEEDS] [MODEL ...]`` runs it outside pytest and prints the figures; SEEDS is a
number, or ``6-20`` for those from 6 up to 19.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import ms_port
from ms_port.verify import verify
from ms_port.verify.forward import find
from ms_port.verify.gradients import Batch, Seen, compare_gradients, torch_gradients
from ms_port.verify.judge import Comparison
from ms_port.verify.port import Inputs, Port
from ms_port.verify.process import save_inputs
from ms_port.verify.session import Session
from ms_port.weights import write_safetensors

HERE = Path(__file__).resolve().parent
SEEDS = 20
"""For each of the ten models."""
COMPARED = {"tensors": 0}
"""How many comparisons were made."""


def cases() -> dict[str, Any]:
    """The models of tests/models: a factory and the example inputs of each."""
    spec = importlib.util.spec_from_file_location("clean_models", HERE.parent / "models" / "test_models.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["clean_models"] = module
    spec.loader.exec_module(module)
    found: dict[str, Any] = module.CASES
    return found


def inputs_of(args: tuple[torch.Tensor, ...], seed: int) -> Inputs:
    """Other floats for every seed; integers (token ids, masks) rolled along their last axis."""
    generator = torch.Generator().manual_seed(seed)
    return Inputs(
        tuple(
            torch.randn(a.shape, generator=generator) if a.is_floating_point() else a.roll(seed % 7, -1) for a in args
        ),
        {},
    )


def alarms(name: str, factory: Any, args: tuple[torch.Tensor, ...], seeds: range, folder: Path) -> list[str]:
    """Everything that verification would call wrong, over all seeds: ``seed 3 train layer1.0: 2.0e-05 > 1.9e-05``.

    What differs on a seed is looked at as verification does it, with that seed's noise and inputs: what is right on
    other batches is a jump of the function within rounding, and no alarm.
    """
    torch.manual_seed(0)
    ms_port.convert(factory, args, out=folder / "out", verify="none", name=f"clean_{name}")
    port, model = Port.read(folder / "out"), factory()
    sessions, modes, near, truth = {}, {}, {}, {}
    for seed in seeds:
        session = sessions[seed] = Session.prepare(port, model, inputs_of(args, seed), seed)
        modes[seed] = [session.mode(train=False), session.mode(train=True)]
        for mode in modes[seed]:
            assert not mode.single.random
            mode.truth = session.record(mode.train, double=True, single=mode.single)
        near[seed], truth[seed] = (torch_gradients(session, True, double) for double in (False, True))
        job = folder / str(seed)
        job.mkdir()
        write_safetensors(job / "weights.safetensors", session.weights.items())
        skeleton = save_inputs(session.inputs.named(model), job)
    first = seeds[0]
    job = {
        "out": str(port.out),
        "package": port.package,
        "seeds": list(seeds),
        "modes": [sessions[first].describe(mode, mode.taps) for mode in modes[first]],
        "mapped": [pair.cell for pair in port.cells],
        "inputs": skeleton,
        "projected": near[first].projected,
    }
    (folder / "job.json").write_text(json.dumps(job))
    root = str(HERE.parents[1])
    environment = {**os.environ, "PYTHONPATH": root, "GLOG_v": "3"}
    run = subprocess.run(
        [sys.executable, HERE / "seeds_side.py", folder], env=environment, cwd=folder, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-3000:]
    found: list[str] = []
    for seed in seeds:
        session = sessions[seed]
        different: list[str] = []
        for mode in modes[seed]:
            place = folder / str(seed) / mode.name
            outcome: Any = SimpleNamespace(
                result={"modes": {mode.name: json.loads((place / "report.json").read_text())}}
            )
            for c in count(find(session, mode, place, outcome).all()):
                different.append(f"{name} seed {seed} {mode.name} {c.name}: {c.error:.2e} > {c.limit:.2e} {c.note}")
        place = folder / str(seed) / "gradient"
        mode = replace(modes[seed][-1], name="gradient")
        outcome = SimpleNamespace(result={"modes": {"gradient": json.loads((place / "report.json").read_text())}})
        seen = Seen(mode, [Batch(session, [], near[seed], truth[seed])], place, outcome)
        for c in count(compare_gradients(session, seen, 0)[0]):
            different.append(f"{name} seed {seed} gradient {c.name}: {c.error:.2e} > {c.limit:.2e} {c.note}")
        if different:
            print("\n".join(different), flush=True)
            verdict = verify(port.out, level="gradient", model=model, inputs=session.inputs, seed=seed)
            jumps = verdict.forward.kinks + verdict.gradient.kinks
            print(f"  looked at as a whole: {verdict.status}, jumps: {jumps}", flush=True)
            found += different if verdict.status != "equal" else []
    return found


def count(comparisons: list[Comparison]) -> list[Comparison]:
    """Those that differ; all are counted."""
    COMPARED["tensors"] += len(comparisons)
    return [c for c in comparisons if not c.equal]


@pytest.mark.slow
@pytest.mark.parametrize("name", cases())
def test_no_false_alarm(name: str, tmp_path: Path) -> None:
    assert alarms(name, *cases()[name], range(SEEDS), tmp_path) == []


def main(arguments: list[str]) -> None:
    first, dash, last = (arguments[0] if arguments else str(SEEDS)).partition("-")
    seeds = range(int(first), int(last)) if dash else range(int(first))
    total = 0
    for name in arguments[1:] or cases():
        with tempfile.TemporaryDirectory(prefix="ms-port-clean-") as folder:
            found = alarms(name, *cases()[name], seeds, Path(folder))
        total += len(seeds)
        print(
            f"{name}: {len(seeds)} seeds, {len(found)} alarms; {total} runs, {COMPARED['tensors']} tensors in all",
            flush=True,
        )
        print("\n".join(found[:20]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
