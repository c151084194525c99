"""ms-port: translate PyTorch models to native MindSpore source, and prove that they compute the same.

``convert``, ``verify`` and ``load`` are the Python face; the command line is ``ms-port`` (``ms_port.cli``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ms_port.api import Port, convert, load
    from ms_port.verify import verify

__version__ = "0.1.0"
__all__ = ["Port", "__version__", "convert", "load", "verify"]


def __getattr__(name: str) -> Any:
    """Import the API when it is asked for: `import ms_port.ir` need not import torch."""
    if name in ("Port", "convert", "load"):
        return getattr(import_module("ms_port.api"), name)
    if name == "verify":
        return import_module("ms_port.verify")  # a package that can be called
    raise AttributeError(f"module 'ms_port' has no attribute '{name}'")
