"""``ms-port demo``: two small models converted, verified and trained."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from ms_port.conversion import Progress, run
from ms_port.errors import BadInput
from ms_port.options import gallery_options
from ms_port.report import summary
from ms_port.resources import resource

MODELS = ("residual", "text_encoder")
STEPS = 20


def run_demo(out: Path, progress: Progress, console: Console) -> int:
    """Convert, verify and train each model into a folder of ``out``; returns the exit code."""
    started, worst = time.time(), 0
    out = out.resolve()
    for name in MODELS:
        console.print(f"\n[bold]{name}[/]")
        folder = resource("models") / name
        [options] = gallery_options(folder, out / name)
        outcome = run(options.request(), progress)
        console.print(summary(outcome.report))
        worst = max(worst, {"ok": 0, "flagged": 1, "failed": 3}[outcome.report.status])
        _train(out / name, console)
        console.print(f"  torch source  {escape(str(folder / 'source.py'))}", soft_wrap=True, highlight=False)
        console.print(f"  port          {escape(str(out / name / name / 'model.py'))}", soft_wrap=True, highlight=False)
        console.print(
            f"  report        {escape(str(out / name / 'report' / 'report.html'))}", soft_wrap=True, highlight=False
        )
    console.print(f"\ndone in {time.time() - started:.0f} s", highlight=False)
    return worst


def _train(out: Path, console: Console) -> None:
    """Run the port's own train.py, and show its first and last steps."""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "GLOG_v": "3"}
    done = subprocess.run(
        [sys.executable, "train.py", "--steps", str(STEPS)], cwd=out, env=environment, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise BadInput(
            f"training failed:\n{done.stderr[-2000:]}", where=str(out / "train.py"), advice="run ms-port doctor"
        )
    steps = [line for line in done.stdout.splitlines() if line.startswith("step ")]
    console.print(f"  trained in GRAPH_MODE: {steps[0]} ... {steps[-1]}", highlight=False)
