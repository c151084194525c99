"""Where the data files are: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

from pathlib import Path


def resource(name: str) -> Path:
    """The folder ``op_maps``, ``templates`` or ``models``, in the wheel (``ms_port/_data``) or in the checkout."""
    here = Path(__file__).resolve().parent
    packaged = here / "_data" / name
    return packaged if packaged.is_dir() else here.parent / name
