"""``python -m ms_port.weights.mindspore_format SOURCE TARGET``: a MindSpore checkpoint in the other format.

The kind of either file is told by its suffix, ``.ckpt`` or ``.safetensors``. Imports mindspore: run as a process.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main(source: Path, target: Path) -> None:
    """Load ``source`` and save it as ``target``, names, shapes and types unchanged."""
    import mindspore as ms

    loaded = ms.load_checkpoint(str(source), format=source.suffix.removeprefix("."))
    target.unlink(missing_ok=True)  # MindSpore refuses to write over a read-only file
    kind = target.suffix.removeprefix(".")
    ms.save_checkpoint([{"name": name, "data": value} for name, value in loaded.items()], str(target), format=kind)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
