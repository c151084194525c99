"""The port in half precision: OUT/verify.py repeats the comparison in it, and adds it to the certificate."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ms_port.verify.certificate import read_certificate

LEVELS = ("forward", "gradient", "step")


def in_precision(out: Path, precision: str, level: str, timeout: float) -> str:
    """Run it up to ``level``; returns a line for the report. What the backend can't do is said, and no fault."""
    if not (out / "verify.py").is_file():
        return f"{precision}: not run, there is no reference"
    highest = level if level in LEVELS else LEVELS[-1]
    command = [sys.executable, str(out / "verify.py"), "--precision", precision, "--level", highest]
    env = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "GLOG_v": "3"}
    try:
        subprocess.run(command, env=env, capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return f"{precision}: not finished within {timeout:.0f} s"
    runs = [r for r in read_certificate(out).get("runs", ()) if r["by"] == "verify.py" and r["precision"] == precision]
    if not runs:
        return f"{precision}: MindSpore's process died on this backend"
    parts = []
    for name in LEVELS[: LEVELS.index(highest) + 1]:
        found = runs[-1]["levels"][name]
        size = f" (largest error {found['max_error']:.1e})" if "max_error" in found else ""
        parts.append(f"{name} {found['status']}{size}{': ' + found['message'][:120] if 'message' in found else ''}")
    return f"{precision}: {'; '.join(parts)}"
