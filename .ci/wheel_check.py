"""``python wheel_check.py WHEEL FOLDER``: unpack a wheel into FOLDER and convert a model with it, off the checkout.

The dependencies are those of the running interpreter; ms_port itself comes from the wheel alone.
"""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.head(x))
"""


def main(wheel: str, folder: str) -> None:
    """Unpack, look for the data files, convert, verify."""
    site, project = Path(folder) / "site", Path(folder) / "project"
    project.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    for name in ("op_maps", "templates", "models/residual/source.py", "models/text_encoder/example.py"):
        assert (site / "ms_port/_data" / name).exists(), f"the wheel lacks {name}"
    assert not list(site.rglob("__pycache__")), "the wheel holds __pycache__"
    (project / "net.py").write_text(NET)
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r}); import ms_port, ms_port.cli; "
        f"assert ms_port.__file__.startswith({str(site)!r}), ms_port.__file__; "
        "sys.exit(ms_port.cli.run(['convert', 'net.py:Net', '--input', 'x:float32[2,4]', '-o', 'out']))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=project, env={**os.environ, "PYTHONPATH": str(site)}, check=True)
    assert (project / "out/net/model.py").is_file()


if __name__ == "__main__":
    main(*sys.argv[1:])
