"""ms-port: translate PyTorch models to native MindSpore source, and prove that they compute the same.

``convert``, ``verify`` and ``load`` are the Python face; the command line is ``ms-port`` (``ms_port.cli``).
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ms_port.api import Port, convert, load
    from ms_port.verify import verify

__version__ = "0.1.0"
__all__ = ["Port", "__version__", "convert", "load", "verify"]


class _Verify(ModuleType):
    """The package ``ms_port.verify``, which can be called: ``ms_port.verify(out)`` runs its ``verify``."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.verify(*args, **kwargs)


def __getattr__(name: str) -> Any:
    """Import the API when it is asked for: `import ms_port.ir` need not import torch."""
    if name in ("Port", "convert", "load"):
        return getattr(import_module("ms_port.api"), name)
    if name == "verify":
        module = import_module("ms_port.verify")
        module.__class__ = _Verify
        return module
    raise AttributeError(f"module 'ms_port' has no attribute '{name}'")
