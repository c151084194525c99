"""``python -m benchmarks.gallery [--check] [MODEL ...]``: regenerate ``models/*/ported``, or say which differ.

Each folder's ``port.yaml`` holds the options of ``ms-port convert``. Of what comes out the package alone is checked in:
no weights, no report. A reviewer sees in the diff what a change does to real output.
"""

from __future__ import annotations

import difflib
import shutil
import sys
import tempfile
from pathlib import Path

from ms_port.conversion import run
from ms_port.options import gallery_options

MODELS = Path(__file__).resolve().parents[1] / "models"


def ported(folder: Path) -> dict[str, str]:
    """Text by file (``residual/model.py``) of all packages that ``folder/port.yaml`` describes."""
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="ms-port-") as name:
        for options in gallery_options(folder, Path(name) / "out", verify=False):
            outcome = run(options.request())
            if outcome.report.open_flags:
                print(f"{folder.name}: {[str(flag.message) for flag in outcome.report.open_flags]}")
            package = options.out / str(options.name)
            for file in sorted(package.glob("*.py")):
                found[f"{package.name}/{file.name}"] = file.read_text(encoding="utf-8")
    return found


def differences(folder: Path, new: dict[str, str]) -> list[str]:
    """A unified diff of what is checked in against what was made."""
    have = {
        file.relative_to(folder / "ported").as_posix(): file.read_text(encoding="utf-8")
        for file in (folder / "ported").rglob("*.py")
    }
    lines: list[str] = []
    for file in sorted(have.keys() | new.keys()):
        before, after = have.get(file, "").splitlines(True), new.get(file, "").splitlines(True)
        lines += difflib.unified_diff(
            before, after, f"{folder.name}/ported/{file}", f"{folder.name} as generated/{file}"
        )
    return lines


def main(arguments: list[str]) -> int:
    """Regenerate or compare; returns 1 if something differs with ``--check``."""
    check = "--check" in arguments
    names = [a for a in arguments if not a.startswith("-")]
    folders = [f for f in sorted(MODELS.iterdir()) if (f / "port.yaml").is_file() and (not names or f.name in names)]
    stale = 0
    for folder in folders:
        new = ported(folder)
        lines = differences(folder, new)
        stale += bool(lines)
        print(f"{folder.name}: {'differs' if lines else 'as generated'}")
        if check:
            sys.stdout.writelines(lines)
            continue
        shutil.rmtree(folder / "ported", ignore_errors=True)
        for file, text in new.items():
            (folder / "ported" / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / "ported" / file).write_text(text, encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
