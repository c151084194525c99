"""A person's version of a generated file and a new generated one, joined by the version that both started from."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

YOURS, OURS = "yours", "generated now"


@dataclass(frozen=True, slots=True)
class Merged:
    """The joined text; ``conflicts``: places where both sides changed the same lines, marked as git marks them."""

    text: str
    conflicts: int


def merge(mine: Path, base: Path, generated: Path) -> Merged | None:
    """``mine`` with what changed between ``base`` and ``generated``; None: no git, or no text."""
    git = shutil.which("git")
    if git is None or not base.is_file():
        return None
    labels = ["-L", YOURS, "-L", "generated before", "-L", OURS]
    done = subprocess.run(
        [git, "merge-file", "-p", *labels, str(mine), str(base), str(generated)], capture_output=True, check=False
    )
    if done.returncode > 127:  # an error; otherwise the number of conflicts
        return None
    try:
        return Merged(done.stdout.decode("utf-8"), done.returncode)
    except UnicodeDecodeError:
        return None


def open_conflicts(file: Path) -> int:
    """How many marked conflicts a file still holds."""
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return min(lines.count(f"<<<<<<< {YOURS}"), lines.count(f">>>>>>> {OURS}"))
